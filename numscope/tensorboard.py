"""Charts' lines as TensorBoard scalars: a run per layer, a tag per chart, tokens as the step.

So all layers of a chart are in one picture, as in the charts folder. Nothing here computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numscope.errors import MissingExtra, ResultsError
from numscope.recipe_folders import folder_names

if TYPE_CHECKING:
    from numscope.series import Series


def write(folder: Path, tables: Sequence[Series]) -> list[Path]:
    """Write an event file per recipe and layer; those files.

    Files that a former export left in the same places are replaced: TensorBoard would show both.

    Raises
    ------
    MissingExtra
        Without the package tensorboard.
    ResultsError
        If it cannot be written.
    """
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 (an extra)
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415
    except ImportError:
        raise MissingExtra(
            "an export to TensorBoard needs tensorboard: pip install 'numscope[tensorboard]'"
        ) from None

    written = []
    folders = folder_names(table.recipe for table in tables)
    for recipe, layer in sorted({(table.recipe, n) for table in tables for n in table.layers}):
        run = folder / folders[recipe] / f"layer_{layer:02}"  # so that they sort as numbers
        path = run / "events.out.tfevents.0.numscope"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                records = RecordWriter(file)
                records.write(
                    Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString()
                )
                for x, tag, value in _scalars(tables, recipe, layer):
                    scalar = Summary.Value(tag=tag, simple_value=value)
                    event = Event(wall_time=0.0, step=x, summary=Summary(value=[scalar]))
                    records.write(event.SerializeToString())
                records.flush()
        except OSError as error:
            raise ResultsError(f"cannot write {path}: {error.strerror}") from error
        written.append(path)
    return written


def _scalars(tables: Sequence[Series], recipe: str, layer: int) -> list[tuple[int, str, float]]:
    """Of one layer: x, the chart's name as a tag, the value; by x."""
    return sorted(
        (x, f"{table.metric}/{table.subject.replace(' ', '_')}_{table.tile}", value)
        for table in tables
        if table.recipe == recipe and layer in table.layers
        for x, value in zip(table.x, table.column(layer), strict=True)
        if not math.isnan(value)
    )
