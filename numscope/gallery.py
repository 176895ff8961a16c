"""All the charts of a run as files' names and contents: what goes into the charts folder.

From the rows of layers.csv by way of `series` and `charts`. Nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from numscope import series
from numscope.series import Series

if TYPE_CHECKING:
    from numscope.tables import LayerRow

#: The columns of layers.csv that charts show, a row of the overview each.
METRICS = ("underflow", "distortion")


def tables_of(rows: Iterable[LayerRow]) -> list[Series]:
    """The wide tables behind all charts."""
    return series.series(rows, METRICS)


def chart_files(
    tables: Sequence[Series],
    *,
    layers: Collection[int] | None = None,
    suffix: Literal["png", "svg", "pdf"] = "png",
    yscale: Literal["linear", "log"] = "linear",
) -> dict[str, bytes]:
    """Each chart's table and picture, and each recipe's overview, by name in the charts folder.

    With more than one recipe, each has a folder of its own.

    Parameters
    ----------
    tables
        As from `tables_of`.
    layers, suffix, yscale
        Which layers are drawn, all if `None`; the pictures' format; the scale of their y axes.
    """
    from numscope import charts  # noqa: PLC0415 (matplotlib: only when something is drawn)

    files: dict[str, bytes] = {}
    labels = list(dict.fromkeys(table.recipe for table in tables))
    for label in labels:
        folder = f"{folder_name(label)}/" if len(labels) > 1 else ""
        own = [table for table in tables if table.recipe == label]
        for table in own:
            files[f"{folder}{table.name}.csv"] = series.to_csv(table).encode()
            figure = charts.chart(table, yscale=yscale, layers=layers)
            files[f"{folder}{table.name}.{suffix}"] = charts.render(figure, suffix)
        by_metric = sorted(own, key=lambda table: METRICS.index(table.metric))
        figure = charts.overview(by_metric, yscale=yscale, layers=layers)
        files[f"{folder}overview.{suffix}"] = charts.render(figure, suffix)
    return files


def folder_name(label: str) -> str:
    """A recipe's name as a folder: `ling:1x*` is `ling_1xall`."""
    return re.sub(r"[^\w.^+=-]", "_", label.replace("*", "all"))
