"""What a careful reader of the charts' tables would point at: the worst point of each.

Everything follows from a `Series` alone. Nothing here prints, draws or reads a file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope import amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numscope.series import Series

#: What a metric is when nothing was lost; 0 for all others, which rise as more is lost.
_BEST = {"distortion": 1.0, "cosine": 1.0, "min_row_cosine": 1.0, "sqnr_db": math.inf}

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
    sign = -1.0 if _BEST.get(table.metric, 0.0) > 0 else 1.0
    points = (
        Worst(layer, x, value)
        for x, values in zip(table.x, table.values, strict=True)
        for layer, value in zip(table.layers, values, strict=True)
        if not math.isnan(value)
    )
    return max(points, key=lambda point: sign * point.value, default=None)


def is_lossless(metric: str, value: float) -> bool:
    """Whether the metric has the value that says that nothing was lost."""
    best = _BEST.get(metric, 0.0)
    return math.isclose(value, best, rel_tol=0.0, abs_tol=_ROUNDING if best else 0.0)


def text(tables: Sequence[Series]) -> str:
    """findings.md: a sentence about each chart's worst point, by recipe if there are several."""
    recipes = list(dict.fromkeys(table.recipe for table in tables))
    lines = ["# Findings", ""]
    for recipe in recipes:
        if len(recipes) > 1:
            lines += [f"## {recipe}", ""]
        lines += [f"- {_sentence(table)}" for table in tables if table.recipe == recipe]
        lines += [""] if recipe != recipes[-1] else []
    return "\n".join(lines if tables else [*lines, "There is nothing to chart."]) + "\n"


def _sentence(table: Series) -> str:
    point = worst(table)
    if point is None:
        return f"{table.title}: no data."
    if is_lossless(table.metric, point.value):
        return f"{table.title}: nothing is lost in any layer."
    value = amounts.metric(table.metric, point.value)
    where = amounts.tokens(point.x) + " tokens" if table.x_name == "tokens" else f"step {point.x:,}"
    return f"{table.title}: worst in layer {point.layer}, {value} at {where}."
