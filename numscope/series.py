"""The wide tables behind the charts: tokens × layers, one per chart, chosen from layers.csv.

This is where it is decided which rows belong to which chart and what the chart is called. Nothing
here draws and nothing here measures.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from numscope.dumps.refs import KINDS
from numscope.tables import LayerRow, sort_rows
from numscope.written import parse

XName = Literal["tokens", "step"]

#: What the kinds are called in a chart's title and, with underscores, in its file name.
_SUBJECTS = {
    "activation": "activations",
    "gradient": "gradients",
    "weight": "weights",
    "output": "outputs",
    "input_gradient": "input gradients",
    "weight_gradient": "weight gradients",
}


@dataclass(frozen=True, slots=True)
class Series:
    """One chart's numbers: a value per x and layer.

    Attributes
    ----------
    subject
        What is quantized, in the chart's words: `activations`, `gradient transpose`, …
    metric
        The column of layers.csv that is shown: `underflow`, `distortion`, …
    recipe, tile
        As in layers.csv; the tile is written `1x128`.
    x_name
        What `x` counts: `tokens`, or `step` if the dump does not say how many tokens.
    x
        Increasing, each once.
    layers
        Increasing.
    values
        `values[i][j]` belongs to `x[i]` and `layers[j]`; NaN where there is no such tensor.
    """

    subject: str
    metric: str
    recipe: str
    tile: str
    x_name: XName
    x: tuple[int, ...]
    layers: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def title(self) -> str:
        """As in the published figure: `gradient transpose underflow (128,1)`."""
        return f"{self.subject} {self.metric} ({self.tile.replace('x', ',')})"

    @property
    def name(self) -> str:
        """The file name without its suffix: `gradient_transpose_underflow_128x1`."""
        tile = self.tile.replace("*", "all")
        return f"{self.subject} {self.metric} {tile}".replace(" ", "_")

    def column(self, layer: int) -> tuple[float, ...]:
        """The values of one layer, one per x."""
        j = self.layers.index(layer)
        return tuple(values[j] for values in self.values)


def series(rows: Iterable[LayerRow], metrics: Sequence[str]) -> list[Series]:
    """Every chart's table for each metric, per recipe: by kind, row tiles before column tiles.

    Parameters
    ----------
    rows
        Of layers.csv, in any order. Rows without a layer belong to no chart. Of two steps with
        the same tokens, as after a restart, the later one is shown.
    metrics
        Columns of layers.csv.
    """
    known = sort_rows(row for row in rows if row.layer is not None)
    x_name: XName = "tokens" if known and all(row.tokens is not None for row in known) else "step"
    groups: dict[tuple[str, str, str], list[LayerRow]] = {}
    for row in known:
        groups.setdefault((row.recipe, row.kind, row.tile), []).append(row)
    ordered = sorted(groups, key=lambda key: (key[0], _place(key[1]), _is_column(*key), key[2]))
    return [
        _series(groups[key], _subject(*key), metric, x_name)
        for key in ordered
        for metric in metrics
    ]


def to_csv(table: Series) -> str:
    """The wide table as CSV: a column for x, one per layer; empty where there is no tensor."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((table.x_name, *table.layers))
    for x, values in zip(table.x, table.values, strict=True):
        writer.writerow((x, *("" if math.isnan(value) else value for value in values)))
    return text.getvalue()


def _place(kind: str) -> tuple[int, str]:
    """Where a kind's charts come; kinds of someone's own, in tables edited by hand, come last."""
    known: tuple[str, ...] = KINDS
    return (known.index(kind) if kind in known else len(known)), kind


def _is_column(recipe: str, kind: str, tile: str) -> bool:
    """Whether these rows are a gradient quantized with the recipe's tile turned to columns."""
    return kind.endswith("gradient") and tile != parse(recipe).tile_text


def _subject(recipe: str, kind: str, tile: str) -> str:
    subject = _SUBJECTS.get(kind, kind.replace("_", " "))
    if not _is_column(recipe, kind, tile):
        return subject
    return f"{subject.removesuffix('s')} transpose"


def _series(rows: Sequence[LayerRow], subject: str, metric: str, x_name: XName) -> Series:
    values = {(_x(row, x_name), row.layer): float(getattr(row, metric)) for row in rows}
    xs = tuple(sorted({x for x, _ in values}))
    layers = tuple(sorted({row.layer for row in rows if row.layer is not None}))
    return Series(
        subject=subject,
        metric=metric,
        recipe=rows[0].recipe,
        tile=rows[0].tile,
        x_name=x_name,
        x=xs,
        layers=layers,
        values=tuple(tuple(values.get((x, layer), math.nan) for layer in layers) for x in xs),
    )


def _x(row: LayerRow, x_name: XName) -> int:
    value = row.tokens if x_name == "tokens" else row.step
    return value or 0
