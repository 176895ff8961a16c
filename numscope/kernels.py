"""The compiled loops: widen, tile statistics, quantize, accumulate.

Arrays in, arrays out; every argument is taken as checked. One rounding loop serves every number
format, tile shape and scale rule, with the format's numbers as run-time arguments, and `quantize`
and `accumulate` share it. Nothing here decides anything.

The loops keep to IEEE arithmetic in a fixed order: sums run in `LANES` interleaved partial sums
that are added pairwise, whatever the width of the machine's vector registers. Inner loops are over
slices from index 0, which is what lets the compiler see that they can be vectorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from numscope.compiling import compiled, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.formats import FloatFormat

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Values = Float32 | Float64

#: How many partial sums a row's sum is made of at most. A power of two; more need fewer checks
#: between the vectorised runs, but take longer to add up (256: 1.09 times the time of a sum).
LANES = 128

# Positions in the counts and extremes that `accumulate` adds to.
ZEROS, UNDERFLOW, SATURATED = 0, 1, 2
# Positions in the sums of `accumulate`, in all and per row, where the error's sum is left out.
XX, YY, XY, EE = 0, 1, 2, 3

_MAGNITUDE = np.int32(0x7FFFFFFF)
_SIGN = np.int32(-0x80000000)
_EXPONENT = np.int32(0x7F800000)
_MAGNITUDE64 = np.int64(0x7FFFFFFFFFFFFFFF)
_NONE = np.int32(0x7FFFFFFF)


class Grid(NamedTuple):
    """Where values lie on a grid of tiles.

    Attributes
    ----------
    row, col
        Where the values begin, counted from the grid's first tile.
    tile_rows, tile_cols
        Extent of a tile, 1 or more.
    """

    row: int
    col: int
    tile_rows: int
    tile_cols: int


class Numbers(NamedTuple):
    """An element format as the loops take it.

    Attributes
    ----------
    min_exponent
        Bits of the float32 2^e, e the exponent of the smallest normal value.
    step
        What to add to the bits of 2^e to have those of 1.5 * 2^(e + 23 - m): adding and subtracting
        that number rounds a float32 of exponent e to m mantissa bits, nearest even.
    largest
        The largest finite value.
    limit
        Products beyond it count as clipped: `largest` * (1 + 2^-22), rounded down. It leaves
        `largest` the few units in the last place by which amax * (largest / amax) can exceed it in
        float32.
    """

    min_exponent: np.int32
    step: np.int32
    largest: np.float32
    limit: np.float32


def numbers(element: FloatFormat) -> Numbers:
    """The numbers of an element format."""
    exact = element.max * (1 + 2.0**-22)
    limit = np.float32(exact)
    if float(limit) > exact:
        limit = np.nextafter(limit, np.float32(0))
    return Numbers(
        min_exponent=np.int32((127 + element.min_exponent) << 23),
        step=np.int32(((23 - element.mantissa_bits) << 23) | 0x400000),
        largest=np.float32(element.max),
        limit=limit,
    )


@compiled
def widen_bfloat16(bits: NDArray[np.uint16], x: Float32) -> None:
    """Write to `x` (rows, cols) the values whose bfloat16 codes are `bits` (rows, cols)."""
    for r in range(bits.shape[0]):
        row, out = bits[r], x[r]
        for c in range(row.size):
            out[c] = np.int32(np.int32(row[c]) << np.int32(16)).view(np.float32)


@compiled
def largest_magnitude(x: Float32) -> np.float32:
    """Largest magnitude in `x` (rows, cols), where NaN is beyond infinity; 0 if `x` is empty."""
    largest = np.int32(0)
    for r in range(x.shape[0]):
        row = x[r]
        high = np.int32(0)
        for c in range(row.size):
            high = max(high, np.int32(np.float32(row[c]).view(np.int32) & _MAGNITUDE))
        largest = max(largest, high)
    return np.int32(largest).view(np.float32)


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
        Part of a tensor, (rows, cols), float32. NaN, infinities and, for `amin`, zeros do not
        count.
    grid
        Where they lie on the grid of `amax` and `amin`.
    amax, amin
        Bits of the largest and smallest magnitudes as int32, which order as the magnitudes do,
        (tile rows, tile columns). Without a value: 0 and the largest int32.
    """
    rows, cols = x.shape
    tile_cols = grid.tile_cols
    first = grid.col // tile_cols
    last = (grid.col + cols - 1) // tile_cols
    for r in range(rows):
        t = (grid.row + r) // grid.tile_rows
        if tile_cols == 1:
            _column_statistics(x[r], amax[t, first : last + 1], amin[t, first : last + 1])
            continue
        for u in range(first, last + 1):
            start = max(u * tile_cols - grid.col, 0)
            run = x[r, start : min((u + 1) * tile_cols - grid.col, cols)]
            high, low = np.int32(0), _NONE
            for c in range(run.size):
                bits = np.int32(np.float32(run[c]).view(np.int32) & _MAGNITUDE)
                bits = np.int32(0) if bits >= _EXPONENT else bits
                high = max(high, bits)
                low = min(low, _NONE if bits == 0 else bits)
            amax[t, u] = max(amax[t, u], high)
            amin[t, u] = min(amin[t, u], low)


@inlined
def _column_statistics(row: Float32, amax: NDArray[np.int32], amin: NDArray[np.int32]) -> None:
    for c in range(row.size):
        bits = np.int32(np.float32(row[c]).view(np.int32) & _MAGNITUDE)
        bits = np.int32(0) if bits >= _EXPONENT else bits
        amax[c] = max(amax[c], bits)
        amin[c] = min(amin[c], _NONE if bits == 0 else bits)


@inlined
def _quantize_row(
    row: Float32,
    multipliers: Float32,
    q: Float32,
    element: Numbers,
) -> np.int32:
    """Write to `q` the elements' values of row * multipliers; how many were clipped to `largest`.

    Round to nearest even; the sign of a zero is that of the product; NaN stays NaN. All (cols,).
    """
    min_exponent, step = element.min_exponent, element.step
    largest, limit = element.largest, element.limit
    clipped = np.int32(0)
    for c in range(row.size):
        v = np.float32(row[c] * multipliers[c])
        bits = v.view(np.int32)
        magnitude = np.int32(bits & _MAGNITUDE).view(np.float32)
        clipped += np.int32(magnitude > limit)
        a = largest if magnitude > largest else magnitude  # noqa: FURB136 (NaN stays NaN)
        exponent = np.int32(np.float32(a).view(np.int32) & _EXPONENT)
        magic = np.int32(max(exponent, min_exponent) + step).view(np.float32)
        rounded = np.float32(np.float32(a + magic) - magic)
        q[c] = np.int32(rounded.view(np.int32) | (bits & _SIGN)).view(np.float32)
    return clipped


@inlined
def _spread(tiles: Float32, grid: Grid, row: Float32) -> None:
    """Write to `row` (cols,) for each column the item of its tile."""
    cols, col_start, tile_cols = row.size, grid.col, grid.tile_cols
    if tile_cols == 1:
        row[:] = tiles[col_start : col_start + cols]
        return
    for u in range(col_start // tile_cols, (col_start + cols - 1) // tile_cols + 1):
        start = max(u * tile_cols - col_start, 0)
        run = row[start : min((u + 1) * tile_cols - col_start, cols)]
        value = tiles[u]
        for c in range(run.size):
            run[c] = value


@compiled
def quantize(
    x: Float32,
    grid: Grid,
    multipliers: Float32,
    element: Numbers,
    q: Float32,
) -> None:
    """Write to `q` the elements' values, before the scale, of `x`, both (rows, cols).

    Parameters
    ----------
    grid
        Where the values lie on the grid of `multipliers`, which has one item per tile.
    element
        The format.
    """
    spread = np.empty(x.shape[1], np.float32)
    at = -1
    for r in range(x.shape[0]):
        t = (grid.row + r) // grid.tile_rows
        if t != at:
            _spread(multipliers[t], grid, spread)
            at = t
        _quantize_row(x[r], spread, q[r], element)


@compiled
def accumulate(
    x: Values,
    x32: Float32,
    grid: Grid,
    multipliers: Float32,
    scales: Float32,
    element: Numbers,
    counts: NDArray[np.int64],
    sum_ee: Float64,
    max_error: Float64,
    row_counts: NDArray[np.int64],
    row_sums: Float64,
) -> None:
    """Quantize `x` and add what is lost to the records, without keeping the result.

    Parameters
    ----------
    x, x32
        The same finite values in float32 or float64, and in float32: (rows, cols).
    grid
        Where they lie on the grid of `multipliers` and `scales`.
    multipliers, scales
        One item per tile, (tile rows, tile columns).
    element
        The format.
    counts
        At ZEROS, UNDERFLOW and SATURATED.
    sum_ee, max_error
        (1,): the sum of (x-y)*(x-y) and the largest abs(x-y).
    row_counts
        Per row, the values that are not zero before and after: (rows, 2).
    row_sums
        Per row, at XX, YY and XY: (rows, 3).
    """
    rows, cols = x.shape
    m = np.empty(cols, np.float32)
    s = np.empty(cols, np.float32)
    q = np.empty(cols, np.float32)
    width = LANES
    while width > 1 and width // 2 >= cols:
        width //= 2
    lanes = np.empty((4, width), np.float64)
    at = -1
    for r in range(rows):
        t = (grid.row + r) // grid.tile_rows
        if t != at:
            _spread(multipliers[t], grid, m)
            _spread(scales[t], grid, s)
            at = t
        counts[SATURATED] += _quantize_row(x32[r], m, q, element)
        before, after, error = _dequantize_row(x[r], q, s)
        counts[ZEROS] += cols - before
        counts[UNDERFLOW] += before - after
        row_counts[r, 0] += before
        row_counts[r, 1] += after
        max_error[0] = max(max_error[0], error)
        _sum_row(x[r], q, lanes)
        row_sums[r, XX] += lanes[XX, 0]
        row_sums[r, YY] += lanes[YY, 0]
        row_sums[r, XY] += lanes[XY, 0]
        sum_ee[0] += lanes[EE, 0]


@inlined
def _dequantize_row(x: Values, q: Float32, s: Float32) -> tuple[np.int32, np.int32, np.float64]:
    """Turn `q` into y = q*s; how many of x and of y are not zero, and the largest abs(x-y)."""
    before, after = np.int32(0), np.int32(0)
    largest = np.int64(0)
    for c in range(x.size):
        y = np.float32(q[c] * s[c])
        q[c] = y
        before += np.int32(x[c] != 0)
        after += np.int32(y != 0)
        error = np.float64(x[c]) - np.float64(y)
        largest = max(largest, np.int64(np.float64(error).view(np.int64) & _MAGNITUDE64))
    return before, after, np.int64(largest).view(np.float64)


@inlined
def _sum_row(x: Values, y: Float32, lanes: Float64) -> None:
    """Write to `lanes[:, 0]` the sums of xx, yy, xy and ee with e = x-y."""
    xx, yy, xy, ee = lanes[0], lanes[1], lanes[2], lanes[3]
    lanes[:] = 0
    width = lanes.shape[1]
    paired = x.size - x.size % (2 * width)
    for start in range(0, paired, 2 * width):  # two at once: half as many lanes read and written
        middle = start + width
        x0, x1 = x[start:middle], x[middle : middle + width]
        y0, y1 = y[start:middle], y[middle : middle + width]
        for c in range(width):
            a0, a1 = np.float64(x0[c]), np.float64(x1[c])
            b0, b1 = np.float64(y0[c]), np.float64(y1[c])
            e0, e1 = a0 - b0, a1 - b1
            xx[c] += a0 * a0 + a1 * a1
            yy[c] += b0 * b0 + b1 * b1
            xy[c] += a0 * b0 + a1 * b1
            ee[c] += e0 * e0 + e1 * e1
    for start in range(paired, x.size, width):
        xs, ys = x[start : start + width], y[start : start + width]
        for c in range(xs.size):
            a, b = np.float64(xs[c]), np.float64(ys[c])
            e = a - b
            xx[c] += a * a
            yy[c] += b * b
            xy[c] += a * b
            ee[c] += e * e
    while width > 1:
        width //= 2
        for k in range(4):
            low, high = lanes[k, :width], lanes[k, width : 2 * width]
            for c in range(width):
                low[c] += high[c]


@compiled
def row_cosines(
    row_counts: NDArray[np.int64], row_sums: Float64, totals: Float64, counts: NDArray[np.int64]
) -> None:
    """Add the rows' sums and cosines to a record.

    Parameters
    ----------
    row_counts, row_sums
        As `accumulate` leaves them for whole rows.
    totals
        (5,): sums of xx, yy, xy and of the cosines, and the least cosine.
    counts
        (2,): zero rows and flushed rows.
    """
    for r in range(row_sums.shape[0]):
        xx, yy, xy = row_sums[r, XX], row_sums[r, YY], row_sums[r, XY]
        totals[XX] += xx
        totals[YY] += yy
        totals[XY] += xy
        if row_counts[r, 0] == 0:
            counts[0] += 1
            continue
        cosine = 0.0
        if row_counts[r, 1] == 0:
            counts[1] += 1
        else:
            cosine = xy / np.sqrt(xx * yy)
            if cosine > 1:  # `min` would make 1 of NaN
                cosine = 1.0
        totals[3] += cosine
        if cosine < totals[4]:  # noqa: PLR1730 (not so if it is NaN, after an overflow of y)
            totals[4] = cosine
