"""A recipe on a tensor: statistics of tiles, and the scales that follow from them.

Nothing here reads a tensor or knows how it is cut into panels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from numscope import extremes, kernels, roundings, scale_loops, scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.panels import Panel, Source
    from numscope.recipes import Recipe, Tile


@dataclass(frozen=True, slots=True)
class Tiles:
    """Statistics of a grid of tiles.

    `amax` and `amin` are magnitudes' bits, as `extremes.tile_statistics` keeps them; `special` says
    what tiles hold besides finite values, in the bits of `scales.HAS_NAN` and `HAS_INFINITY`.
    """

    amax: NDArray[np.int32]
    amin: NDArray[np.int32]
    special: NDArray[np.uint8]

    @classmethod
    def over(cls, shape: tuple[int, ...], tile: tuple[int, int]) -> Tiles:
        """The tiles over a matrix of that shape before any value was seen."""
        shape = tuple(-(-extent // n) for extent, n in zip(shape, tile, strict=True))
        return cls(
            np.zeros(shape, np.int32),
            np.full(shape, 2**31 - 1, np.int32),
            np.zeros(shape, np.uint8),
        )

    @property
    def magnitudes(self) -> scales.Magnitudes:
        """What scales are made from."""
        special = self.special if self.special.any() else None
        return scales.Magnitudes(self.amax.view(np.float32), special)

    def take_in(self, panel: Panel, row: int, col: int, tile: tuple[int, int]) -> None:
        """Take in a panel that begins at (row, col), counted from the first tile."""
        grid = extremes.grid(row, col, tile, panel.x32.shape[1])
        extremes.tile_statistics(panel.finite32, grid, self.amax, self.amin)
        if not panel.is_finite:
            rows, cols = np.nonzero(~np.isfinite(panel.x32))
            kinds = np.where(np.isnan(panel.x32[rows, cols]), scales.HAS_NAN, scales.HAS_INFINITY)
            places = (row + rows) // tile[0], (col + cols) // tile[1]
            np.bitwise_or.at(self.special, places, kinds.astype(np.uint8))

    def merge(self, other: Tiles, first: int) -> None:
        """Take in the statistics of the tile rows from `first` on."""
        part = slice(first, first + other.amax.shape[0])
        np.maximum(self.amax[part], other.amax, out=self.amax[part])
        np.minimum(self.amin[part], other.amin, out=self.amin[part])
        np.bitwise_or(self.special[part], other.special, out=self.special[part])


@dataclass(frozen=True, slots=True)
class Scaled:
    """The scales of a grid of tiles that begins at (row, col)."""

    row: int
    col: int
    tiles: Tiles
    scales: scales.Scales

    def grid(self, panel: Panel, tile: tuple[int, int]) -> extremes.Grid:
        """Where a panel's values lie on it."""
        row, col = panel.row - self.row, panel.col - self.col
        return extremes.grid(row, col, tile, panel.x.shape[1])


@dataclass(frozen=True, slots=True)
class Task:
    """A recipe on a tensor.

    Attributes
    ----------
    recipe, dtype
        The recipe, and the tensor's dtype.
    tile, outer_tile
        Their extents with the tensor's put in; `outer_tile` is `None` without an outer scale.
    outer
        The statistics of the outer tiles, which take a reading of the whole tensor.
    scaled
        The scales of all tiles if they reach beyond panels; `None` if they are formed panel by
        panel.
    """

    recipe: Recipe
    dtype: np.dtype[Any]
    tile: tuple[int, int]
    outer_tile: tuple[int, int] | None
    outer: Tiles | None = None
    scaled: Scaled | None = None

    @classmethod
    def on(cls, source: Source, recipe: Recipe) -> Task:
        """The recipe on that tensor."""
        outer = recipe.outer_tile
        return cls(
            recipe,
            source.dtype,
            _extents(recipe.tile, source),
            _extents(outer, source) if outer else None,
        )

    def scale(self, tiles: Tiles, row: int, col: int, panel: Panel | None = None) -> Scaled:
        """Scales for the tiles whose grid begins at (row, col), as does the panel."""
        outer = self._outer(tiles.amax.shape, row, col)
        found = scales.tile_scales(tiles.magnitudes, self.recipe, self.dtype, outer)
        if panel and outer and self.recipe.four_over_six != "none":
            larger = scales.tile_scales(tiles.magnitudes, self.recipe, self.dtype, outer, 1.5)
            is_better = self._errors(panel, larger, outer) < self._errors(panel, found, outer)
            found = scales.chosen(found, larger, is_better)
        return Scaled(row, col, tiles, found)

    def scale_panel(self, panel: Panel, known: dict[tuple[int, int], Tiles]) -> Scaled:
        """Scales for the tiles of a panel, all of which lie inside it.

        `known` keeps the panel's statistics by tile for other recipes with the same one.
        """
        if self.scaled:
            return self.scaled
        if self.tile not in known:
            known[self.tile] = Tiles.over(panel.x32.shape, self.tile)
            known[self.tile].take_in(panel, 0, 0, self.tile)
        return self.scale(known[self.tile], panel.row, panel.col, panel)

    def _errors(
        self, panel: Panel, found: scales.Scales, outer: scales.Magnitudes
    ) -> NDArray[np.float32]:
        """What the scales of a panel's tiles cost, as those see it who choose between two."""
        recipe, x32 = self.recipe, panel.x32
        q, errors = np.empty_like(x32), np.empty_like(found.scales)
        grid, first = extremes.grid(0, 0, self.tile, x32.shape[1]), (panel.row, panel.col)
        rule = roundings.rule(recipe, self.dtype)
        room = kernels.room(x32.shape[1])
        kernels.quantize(x32, grid, found.operands, rule, first, room, q)
        inner = found.scales if found.inner is None else found.inner
        amax = np.ascontiguousarray(np.broadcast_to(outer.amax, errors.shape))
        divisor = np.float32(recipe.outer_limit * recipe.element_format.max)
        is_squared = recipe.four_over_six == "squared"
        sums = np.empty(1 << (self.tile[0] - 1).bit_length(), np.float32)
        scale_loops.tile_errors(x32, q, self.tile, inner, amax, divisor, is_squared, sums, errors)
        return errors

    def _outer(self, shape: tuple[int, ...], row: int, col: int) -> scales.Magnitudes | None:
        """The outer tiles of a grid of tiles, in a shape that broadcasts to it."""
        if self.outer is None:
            return None
        rows, cols = shape
        # An outer tile is the tensor, or a row or column of it whose tiles are no wider.
        part = np.s_[row : row + rows] if self.recipe.outer == "row" else np.s_[:]
        across = np.s_[col : col + cols] if self.recipe.outer == "column" else np.s_[:]
        outer = self.outer
        return Tiles(
            outer.amax[part, across], outer.amin[part, across], outer.special[part, across]
        ).magnitudes


def scaled_at_once(source: Source, whole: Panel, recipe: Recipe) -> tuple[Task, scales.Scales]:
    """The recipe on a tensor of a single panel, and the scales of all of its tiles."""
    task = Task.on(source, recipe)
    tiles = Tiles.over(whole.x32.shape, task.tile)
    outer = Tiles.over(whole.x32.shape, task.outer_tile) if task.outer_tile else None
    if whole.x32.size:
        tiles.take_in(whole, 0, 0, task.tile)
        if outer and task.outer_tile:
            outer.take_in(whole, 0, 0, task.outer_tile)
    return task, replace(task, outer=outer).scale(tiles, 0, 0, whole).scales


def _extents(tile: Tile, source: Source) -> tuple[int, int]:
    rows, cols = tile
    return (
        max(min(rows or source.rows, source.rows), 1),
        max(min(cols or source.cols, source.cols), 1),
    )


class TileTotals:
    """What is added up of tiles; a scale that is not finite has no place among the extremes."""

    def __init__(self) -> None:
        self._counts = np.zeros(2, np.int64)
        self._extremes = np.array([math.inf, 0.0, 0.0])

    def add(self, scaled: Scaled) -> None:
        """Add a grid of tiles."""
        tiles = scaled.tiles
        amax, amin = tiles.amax.view(np.float32), tiles.amin.view(np.float32)
        extremes.tile_extremes(amax, amin, scaled.scales.scales, self._counts, self._extremes)

    def fields(self) -> dict[str, Any]:
        """The fields of an `ErrorSums` that are about tiles."""
        count, zeros = self._counts.tolist()
        least, largest, ratio = self._extremes.tolist()
        has_scale = least <= largest
        return {
            "tile_count": count,
            "zero_tiles": zeros,
            "scale_min": least if has_scale else math.nan,
            "scale_max": largest if has_scale else math.nan,
            "tile_range_log2_max": math.log2(ratio) if count > zeros else math.nan,
        }
