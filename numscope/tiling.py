"""A recipe on a tensor: statistics of tiles, and the scales that follow from them.

Nothing here reads a tensor or knows how it is cut into panels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from numscope import kernels
from numscope.measure import ErrorSums
from numscope.panels import Panel, Source, largest_input
from numscope.scales import SCALE_RULES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Tiles:
    """Statistics of a grid of tiles: magnitudes' bits, as `kernels.tile_statistics` keeps them."""

    amax: NDArray[np.int32]
    amin: NDArray[np.int32]

    @classmethod
    def over(cls, shape: tuple[int, ...], tile: tuple[int, int]) -> Tiles:
        """The tiles over a matrix of that shape before any value was seen."""
        shape = tuple(-(-extent // n) for extent, n in zip(shape, tile, strict=True))
        return cls(np.zeros(shape, np.int32), np.full(shape, 2**31 - 1, np.int32))

    def take_in(self, x32: NDArray[np.float32], row: int, col: int, tile: tuple[int, int]) -> None:
        """Take in values that begin at (row, col), counted from the first tile."""
        kernels.tile_statistics(x32, kernels.Grid(row, col, *tile), self.amax, self.amin)

    def merge(self, other: Tiles, first: int) -> None:
        """Take in the statistics of the tile rows from `first` on."""
        part = slice(first, first + other.amax.shape[0])
        np.maximum(self.amax[part], other.amax, out=self.amax[part])
        np.minimum(self.amin[part], other.amin, out=self.amin[part])


@dataclass(frozen=True, slots=True)
class Scaled:
    """Multipliers and scales of a grid of tiles that begins at (row, col), and their record."""

    row: int
    col: int
    multipliers: NDArray[np.float32]
    scales: NDArray[np.float32]
    record: ErrorSums

    def grid(self, row: int, col: int, tile: tuple[int, int]) -> kernels.Grid:
        """Where values that begin at (row, col) of the tensor lie on it."""
        return kernels.Grid(row - self.row, col - self.col, *tile)


@dataclass(frozen=True, slots=True)
class Task:
    """A recipe on a tensor: `tile` is its tile with the tensor's extents put in.

    `scaled` holds the scales of all tiles if they need the whole tensor's statistics, else it is
    `None` and they are formed panel by panel.
    """

    recipe: Recipe
    tile: tuple[int, int]
    input_max: float
    scaled: Scaled | None = None

    @classmethod
    def on(cls, source: Source, recipe: Recipe) -> Task:
        """The recipe on that tensor."""
        rows, cols = recipe.tile
        tile = (
            max(min(rows or source.rows, source.rows), 1),
            max(min(cols or source.cols, source.cols), 1),
        )
        return cls(recipe, tile, largest_input(source.dtype))

    def scale(self, tiles: Tiles, row: int, col: int) -> Scaled:
        """Scales for the tiles whose grid begins at (row, col)."""
        amax, amin = tiles.amax.view(np.float32), tiles.amin.view(np.float32)
        rule = SCALE_RULES[self.recipe.scale]
        multipliers, scales = rule(amax, self.recipe.element_format, self.input_max)
        return Scaled(row, col, multipliers, scales, _tile_record(amax, amin, scales))

    def scale_panel(self, panel: Panel) -> Scaled:
        """Scales for the tiles of a panel, all of which lie inside it."""
        if self.scaled:
            return self.scaled
        tiles = Tiles.over(panel.x32.shape, self.tile)
        tiles.take_in(panel.x32, 0, 0, self.tile)
        return self.scale(tiles, panel.row, panel.col)


def _tile_record(
    amax: NDArray[np.float32], amin: NDArray[np.float32], scales: NDArray[np.float32]
) -> ErrorSums:
    has_values = amax > 0
    count = int(has_values.sum())
    if not count:
        return ErrorSums(tile_count=amax.size, zero_tiles=amax.size)
    if count < amax.size:
        amax, amin, scales = amax[has_values], amin[has_values], scales[has_values]
    return ErrorSums(
        tile_count=has_values.size,
        zero_tiles=has_values.size - count,
        scale_min=float(scales.min()),
        scale_max=float(scales.max()),
        tile_range_log2_max=math.log2(float((amax.astype(np.float64) / amin).max())),
    )
