"""The worst point of a chart and its levels, whatever stands out; all follows from a `Series`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope import amounts
from numscope.findings.finding import BEST, at, worse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numscope.series import Series

#: A mean of cosines that are all 1 may miss 1 by its rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Worst:
    """Where a chart's metric is worst: the layer, the x of its table, and the value there."""

    layer: int
    x: int
    value: float


def worst(table: Series) -> Worst | None:
    """The point where most is lost: the highest underflow, the lowest distortion.

    Of equal points the earliest, and there the first layer; `None` if the table has no value.
    """
    sign = worse(table.metric)
    return max(_points(table), key=lambda point: sign * point.value, default=None)


def levels(table: Series) -> str:
    """From the least to the most that is lost at any point: `0 to 0.0001221`, `0.98 to 0.7`."""
    sign = worse(table.metric)
    least = min(_points(table), key=lambda point: sign * point.value, default=None)
    most = worst(table)
    if least is None or most is None:
        return "no data"
    if is_lossless(table.metric, most.value):
        return "no loss"
    return " to ".join(
        dict.fromkeys(amounts.metric(table.metric, each.value) for each in (least, most))
    )


def is_lossless(metric: str, value: float) -> bool:
    """Whether the metric has the value that says that nothing was lost."""
    best = BEST.get(metric, 0.0)
    return math.isclose(value, best, rel_tol=0.0, abs_tol=_ROUNDING if best else 0.0)


def _points(table: Series) -> Iterator[Worst]:
    """Those that have a value, by x, then by layer."""
    for x, values in zip(table.x, table.values, strict=True):
        for layer, value in zip(table.layers, values, strict=True):
            if not math.isnan(value):
                yield Worst(layer, x, value)


def sentence(table: Series) -> str:
    """The worst point of a chart in words."""
    point = worst(table)
    if point is None:
        return f"{table.title}: no data."
    if is_lossless(table.metric, point.value):
        return f"{table.title}: nothing is lost in any layer."
    value = amounts.metric(table.metric, point.value)
    where = at(table.x_name, point.x)
    return f"{table.title}: worst in layer {point.layer}, {value} at {where}."
