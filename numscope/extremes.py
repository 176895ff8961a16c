"""The compiled loops over values as they are: widen, largest magnitude, statistics of tiles.

Arrays in, arrays out; every argument is taken as checked. Nothing here quantizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numscope.compiling import compiled, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]

_MAGNITUDE = np.int32(0x7FFFFFFF)
_NONE = np.int32(0x7FFFFFFF)
_EXPONENT = np.int32(0x7F800000)
_FLOAT16_EXPONENT = np.int32(0x7C00)
_TWO_112 = np.float32(2.0**112)


class Grid(NamedTuple):
    """Where values lie on a grid of tiles.

    Attributes
    ----------
    row
        Where the values begin, counted from the grid's first tile.
    tile_rows, tile_cols
        Extent of a tile, 1 or more.
    first
        The tile that their first column lies in.
    begin, whole
        At which of their columns the first whole tile begins, and how many whole tiles there are.
    """

    row: int
    tile_rows: int
    tile_cols: int
    first: int
    begin: int
    whole: int


def grid(row: int, col: int, tile: tuple[int, int], cols: int) -> Grid:
    """Where values of so many columns lie that begin at (row, col), counted from the first tile."""
    rows_each, cols_each = tile
    begin = min(-col % cols_each, cols)
    return Grid(row, rows_each, cols_each, col // cols_each, begin, (cols - begin) // cols_each)


@compiled
def widen_bfloat16(codes: NDArray[np.uint16], bits: NDArray[np.int32]) -> np.int32:
    """Write to `bits` those of the float32 values with these bfloat16 codes, both (rows, cols).

    The largest magnitude's are the result, as by `largest_magnitude`.
    """
    largest = np.int32(0)
    for r in range(codes.shape[0]):
        row, out = codes[r], bits[r]
        high = np.int32(0)
        for c in range(row.size):
            out[c] = np.int32(np.int32(row[c]) << np.int32(16))
            high = max(high, np.int32(out[c] & _MAGNITUDE))
        largest = max(largest, high)
    return largest


@compiled
def widen_float16(codes: NDArray[np.uint16], x: Float32) -> None:
    """Write to `x` the values whose float16 codes are `codes`, both (rows, cols)."""
    for r in range(codes.shape[0]):
        row, out = codes[r], x[r]
        for c in range(row.size):
            bits = np.int32(row[c])
            # With the exponent's 5 bits where float32 has 8: short of the difference of the biases.
            short = np.int32((bits & np.int32(0x7FFF)) << np.int32(13)).view(np.float32)
            magnitude = np.float32(short * _TWO_112).view(np.int32)
            if bits & _FLOAT16_EXPONENT == _FLOAT16_EXPONENT:
                magnitude = np.int32(magnitude | _EXPONENT)
            sign = np.int32((bits & np.int32(0x8000)) << np.int32(16))
            out[c] = np.int32(magnitude | sign).view(np.float32)


@compiled
def largest_magnitude(bits: NDArray[Any]) -> int:
    """Bits of the largest magnitude, where NaN is beyond infinity; 0 if there is none.

    `bits` are those of float32 as int32 or of float64 as int64, (rows, cols).
    """
    magnitude = np.iinfo(bits.dtype).max
    largest = magnitude & 0
    for r in range(bits.shape[0]):
        row = bits[r]
        high = magnitude & 0
        for c in range(row.size):
            high = max(high, row[c] & magnitude)
        largest = max(largest, high)
    return largest


@compiled
def tile_statistics(
    x: Float32,
    grid: Grid,
    amax: NDArray[np.int32],
    amin: NDArray[np.int32],
) -> None:
    """Raise `amax` and lower `amin` of each tile to the magnitudes of the values in `x`.

    Parameters
    ----------
    x
        Part of a tensor, (rows, cols), float32, all finite. Zeros do not count for `amin`.
    grid
        Where they lie on the grid of `amax` and `amin`.
    amax, amin
        Bits of the largest and smallest magnitudes as int32, which order as the magnitudes do,
        (tile rows, tile columns). Without a value: 0 and the largest int32.
    """
    cols, tile_cols = x.shape[1], grid.tile_cols
    first, begin, whole = grid.first, grid.begin, grid.whole
    end = begin + whole * tile_cols
    for r in range(x.shape[0]):
        t = (grid.row + r) // grid.tile_rows
        row, high, low = x[r], amax[t, first:], amin[t, first:]
        if tile_cols == 1:
            _column_statistics(row, high, low)
            continue
        if begin:
            _tile_statistics(row[:begin].reshape(1, begin), high, low)
        at = int(begin > 0)
        if whole:
            _tile_statistics(row[begin:end].reshape(whole, tile_cols), high[at:], low[at:])
        if end < cols:
            rest = row[end:].reshape(1, cols - end)
            _tile_statistics(rest, high[at + whole :], low[at + whole :])


@inlined
def _tile_statistics(tiles: Float32, amax: NDArray[np.int32], amin: NDArray[np.int32]) -> None:
    """As `tile_statistics` of a row of each tile, (tiles, cols)."""
    for u in range(tiles.shape[0]):
        high, low = np.int32(0), _NONE
        for c in range(tiles.shape[1]):
            bits = np.int32(np.float32(tiles[u, c]).view(np.int32) & _MAGNITUDE)
            high = max(high, bits)
            low = min(low, _NONE if bits == 0 else bits)
        amax[u] = max(amax[u], high)
        amin[u] = min(amin[u], low)


@inlined
def _column_statistics(row: Float32, amax: NDArray[np.int32], amin: NDArray[np.int32]) -> None:
    for c in range(row.size):
        bits = np.int32(np.float32(row[c]).view(np.int32) & _MAGNITUDE)
        amax[c] = max(amax[c], bits)
        amin[c] = min(amin[c], _NONE if bits == 0 else bits)


@compiled
def tile_extremes(
    amax: Float32, amin: Float32, scales: Float32, counts: NDArray[np.int64], found: Float64
) -> None:
    """Add tiles to a record.

    Parameters
    ----------
    amax, amin, scales
        Of each tile: largest and smallest magnitude and scale, (tile rows, tile columns).
    counts
        (2,): the tiles, and those whose amax is 0.
    found
        (3,): of the others the least and the largest scale that is finite, and the largest ratio of
        amax to amin.
    """
    zeros = 0
    least, largest, ratio = found
    for t in range(amax.shape[0]):
        for u in range(amax.shape[1]):
            if amax[t, u] > 0:
                ratio = max(ratio, np.float64(amax[t, u]) / np.float64(amin[t, u]))
                scale = np.float64(scales[t, u])
                if scale < np.inf:
                    least, largest = min(least, scale), max(largest, scale)
            else:
                zeros += 1
    counts[0] += amax.size
    counts[1] += zeros
    found[0], found[1], found[2] = least, largest, ratio
