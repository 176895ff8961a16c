"""What each recipe costs and loses in each layer over the whole run, kind by kind.

From the rows of layers.csv: their records are added, and only then are ratios derived. Nothing here
ranks recipes, draws or measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from numscope.costs import bits_per_value
from numscope.measure import ErrorSums, added
from numscope.series import is_column, place
from numscope.tables import LayerRow, sort_rows
from numscope.written import parse, parse_tile

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


def standings(rows: Iterable[LayerRow]) -> list[Standing]:
    """Where every recipe stands: by kind as charts are, then by recipe, then by layer.

    A gradient under a recipe whose tile is its own transpose, such as one scale for the whole
    tensor, was quantized once and stands under `gradient` and under `gradient transpose`.

    Parameters
    ----------
    rows
        Of layers.csv, in any order.
    """
    groups: dict[tuple[str, str, str, int | None], list[LayerRow]] = {}
    for row in sort_rows(rows):
        groups.setdefault((row.kind, row.recipe, row.tile, row.layer), []).append(row)
    found = [
        Standing(
            kind=kind + suffix,
            recipe=recipe,
            tile=tile,
            layer=layer,
            bits=_bits(recipe, tile),
            rows=tuple(own),
            sums=sums,
        )
        for (kind, recipe, tile, layer), own in groups.items()
        for sums in [added(own)]
        for suffix in _suffixes(kind, recipe, tile)
    ]
    return sorted(found, key=_order)


def _suffixes(kind: str, recipe: str, tile: str) -> tuple[str, ...]:
    """What is added to the kind's name: nothing, that it is the transpose, or both in turn."""
    if is_column(recipe, kind, tile):
        return (TRANSPOSE,)
    rows, cols = parse_tile(tile)
    return ("", TRANSPOSE) if kind.endswith("gradient") and rows == cols else ("",)


@cache
def _bits(recipe: str, tile: str) -> float:
    """Of the recipe as it was used: turned for a gradient transpose; weights have another tile."""
    base, used = parse(recipe), parse_tile(tile)
    turned = base.transpose
    return bits_per_value(turned if used == turned.tile else replace(base, tile=used))


def _order(each: Standing) -> tuple[object, ...]:
    kind = each.kind.removesuffix(TRANSPOSE)
    return (place(kind), each.kind, each.recipe, each.layer is None, each.layer or 0)
