"""Other views of a chart's table, as tables again: what is lost instead of kept, and smoothed.

Pure functions of a `Series`. Nothing here draws or knows where the numbers came from.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numscope.series import Series

#: The metrics that are 1 when nothing was lost.
_OF_ONE = ("distortion", "cosine")


def loss(table: Series) -> Series:
    """1 − the value where the metric is 1 when nothing is lost, under the name `…_loss`.

    Near 1 values look alike that differ much: 0.9996 loses twice what 0.9998 does.
    """
    if table.metric not in _OF_ONE:
        return table
    return replace(
        table,
        metric=f"{table.metric}_loss",
        values=tuple(tuple(lost(value) for value in row) for row in table.values),
    )


def lost(value: float) -> float:
    """1 − value, but 0 for a mean that exceeds 1 by its rounding; NaN stays NaN."""
    return value if math.isnan(value) else max(0.0, 1.0 - value)


def smoothed(table: Series, points: int) -> Series:
    """Each value replaced by the median of the `points` around it; what is missing stays so.

    Near the ends the window is cut off.
    """
    before, after = (points - 1) // 2, points // 2
    columns = [table.column(layer) for layer in table.layers]
    medians = [
        [
            value if math.isnan(value) else _median(column[max(0, i - before) : i + after + 1])
            for i, value in enumerate(column)
        ]
        for column in columns
    ]
    return replace(
        table,
        values=tuple(tuple(column[i] for column in medians) for i in range(len(table.x))),
    )


def selected(table: Series, layers: Collection[int] | None) -> Series:
    """The table of those of these layers that it has; of all its layers if `None`."""
    if layers is None or all(layer in layers for layer in table.layers):
        return table
    kept = [j for j, layer in enumerate(table.layers) if layer in layers]
    return replace(
        table,
        layers=tuple(table.layers[j] for j in kept),
        values=tuple(tuple(values[j] for j in kept) for values in table.values),
    )


def _median(values: Sequence[float]) -> float:
    return median(value for value in values if not math.isnan(value))
