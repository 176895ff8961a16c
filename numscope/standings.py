"""What each recipe costs and loses in each layer over the whole run, kind by kind.

From the rows of layers.csv: their records are added, and only then are ratios derived. Nothing here
ranks recipes, draws or measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from numscope.costs import bits_per_value
from numscope.measure import ErrorSums
from numscope.recipes import Recipe
from numscope.series import place, turned_tiles
from numscope.tables import LayerRow, added_rows, sort_rows
from numscope.written import parse_tile

T = TypeVar("T")

#: How the kind of a gradient is called that is quantized with the recipe's tile turned to columns.
TRANSPOSE = " transpose"


@dataclass(frozen=True, slots=True)
class Standing:
    """One recipe in one layer, for one kind, over the whole run.

    Attributes
    ----------
    kind
        `activation`, `gradient`, `gradient transpose`, …: what one GEMM consumes.
    recipe, tile
        As in layers.csv; the tile is that of this kind, `128x1` for a gradient transpose of `ling`.
    layer
        `None` for all modules that belong to no layer.
    bits
        Bits per value with its share of the scales.
    rows
        The steps of it, in the order of layers.csv.
    sums
        The merged record of `rows`: every metric of the whole run derives from it.
    """

    kind: str
    recipe: str
    tile: str
    layer: int | None
    bits: float
    rows: tuple[LayerRow, ...]
    sums: ErrorSums


def standings(rows: Iterable[LayerRow], tiles: Mapping[str, str] | None = None) -> list[Standing]:
    """Where every recipe stands: by kind as charts are, then by recipe, then by layer.

    A gradient under a recipe whose tile is its own transpose, such as one scale for the whole
    tensor, was quantized once and stands under `gradient` and under `gradient transpose`.

    Parameters
    ----------
    rows
        Of layers.csv, in any order.
    tiles
        The recipes' own tiles, see `series.turned_tiles`.
    """
    groups: dict[tuple[str, str, str, int | None], list[LayerRow]] = {}
    ordered = sort_rows(rows)
    turned = turned_tiles(ordered, tiles)
    for row in ordered:
        groups.setdefault((row.kind, row.recipe, row.tile, row.layer), []).append(row)
    found = [
        Standing(
            kind=kind + suffix,
            recipe=recipe,
            tile=tile,
            layer=layer,
            bits=_bits(own[0].element, tile, own[0].scale),
            rows=tuple(own),
            sums=sums,
        )
        for (kind, recipe, tile, layer), own in groups.items()
        for sums in [added_rows(own)]
        for suffix in _suffixes(kind, tile, is_turned=(recipe, kind, tile) in turned)
    ]
    return sorted(found, key=_order)


def middle(ranked: Sequence[T]) -> T:
    """The middle one of what is ranked, the worst first; the worse of two: no mean of ratios.

    >>> middle([0.4, 0.3, 0.2, 0.1])
    0.3
    """
    return ranked[(len(ranked) - 1) // 2]


def _suffixes(kind: str, tile: str, *, is_turned: bool) -> tuple[str, ...]:
    """What is added to the kind's name: nothing, that it is the transpose, or both in turn."""
    if is_turned:
        return (TRANSPOSE,)
    rows, cols = parse_tile(tile)
    return ("", TRANSPOSE) if kind.endswith("gradient") and rows == cols else ("",)


@cache
def _bits(element: str, tile: str, scale: str) -> float:
    """As a row of the tables says what was used: weights have a tile of their own."""
    return bits_per_value(Recipe(element, parse_tile(tile), scale))


def _order(each: Standing) -> tuple[object, ...]:
    kind = each.kind.removesuffix(TRANSPOSE)
    return (place(kind), each.kind, each.recipe, each.layer is None, each.layer or 0)
