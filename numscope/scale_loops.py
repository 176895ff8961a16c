"""The compiled loops about scales: powers of two, and what the scales of tiles cost.

Arrays in, arrays out; every argument is taken as checked. Nothing here decides anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from numscope.compiling import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]
    Values = Float32 | NDArray[np.float64]

_MANTISSA64 = np.int64((1 << 52) - 1)


@compiled
def powers_of_two(
    values: Values, up_above: int, exponents: tuple[int, int], nan_from: int, powers: Float32
) -> None:
    """Write to `powers` the powers of two that `values` are rounded to, both (n,).

    Parameters
    ----------
    values
        Not negative; NaN stays NaN.
    up_above
        Mantissas, in 52 bits, above which is rounded up.
    exponents
        The lowest and the highest exponent, to which those beyond are clipped. -1023 stands for 0
        and 1024 for infinity.
    nan_from
        Finite values become NaN if their exponent is this or more.
    """
    lowest, highest = exponents
    for k in range(values.size):
        value = np.float64(values[k])  # where float32's smallest numbers are normal, too
        bits = value.view(np.int64)
        exponent = np.int64((bits >> 52) - 1023)
        exponent += np.int64((bits & _MANTISSA64) > up_above)
        biased = max(min(int(exponent), highest), lowest) + 1023
        is_nan = np.isnan(value) or (exponent >= nan_from and value < np.inf)
        powers[k] = np.nan if is_nan else np.int64(biased << 52).view(np.float64)


@compiled
def tile_errors(
    x: Float32,
    q: Float32,
    tile: tuple[int, int],
    scales: Float32,
    amax: Float32,
    divisor: np.float32,
    is_squared: bool,  # noqa: FBT001 (a compiled loop takes no keywords)
    sums: Float32,
    errors: Float32,
) -> None:
    """Write to `errors` each tile's sum of absolute or squared errors, all in float32.

    A value is ((q * scale) * amax) / divisor. A row of a tile is summed in order, and so is a tile
    of one column; the rows' sums are added pairwise, the first to that in the middle.

    Parameters
    ----------
    x, q
        Values and their elements, (rows, cols).
    tile
        Extent of a tile.
    scales, amax, errors
        One item per tile.
    sums
        Room for as many as a tile has rows, or the next power of two.
    """
    rows, cols = x.shape
    size = sums.size
    for t in range(errors.shape[0]):
        for u in range(errors.shape[1]):
            sums[:] = 0
            for r in range(t * tile[0], min((t + 1) * tile[0], rows)):
                k = 0 if tile[1] == 1 else r - t * tile[0]
                for c in range(u * tile[1], min((u + 1) * tile[1], cols)):
                    y = np.float32(np.float32(q[r, c] * scales[t, u]) * amax[t, u])
                    error = np.float32(np.float32(y / divisor) - x[r, c])
                    error = np.float32(error * error) if is_squared else abs(error)
                    sums[k] = np.float32(sums[k] + error)
            n = size
            while n > 1:
                n //= 2
                for k in range(n):
                    sums[k] = np.float32(sums[k] + sums[k + n])
            errors[t, u] = sums[0]
