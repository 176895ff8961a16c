"""The same metrics as anyone would write them with NumPy and ml_dtypes, to compare numscope with.

Whole-array expressions, float32 in, float64 sums, the recipe `ling`. Tiles must divide the tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def measure(x: NDArray[Any], tile: tuple[int, int]) -> dict[str, float]:
    """Counts, sums and cosines of E4M3 with one float32 scale per tile."""
    x32 = x.astype(np.float32)
    rows, cols = x32.shape[0] // tile[0], x32.shape[1] // tile[1]
    tiles = x32.reshape(rows, tile[0], cols, tile[1])
    magnitudes = np.abs(tiles)
    finite = np.isfinite(tiles)
    amax = np.where(finite, magnitudes, 0).max(axis=(1, 3), keepdims=True)
    amin = np.where(magnitudes > 0, magnitudes, np.inf).min(axis=(1, 3), keepdims=True)
    multipliers = np.where(amax > 0, np.float32(448) / amax, np.float32(1))
    scales = np.float32(1) / multipliers
    products = tiles * multipliers
    elements = np.clip(products, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    y = (elements.astype(np.float32) * scales).reshape(x32.shape)
    a, b = x32.astype(np.float64), y.astype(np.float64)
    errors = a - b
    xx, yy, xy = (a * a).sum(axis=1), (b * b).sum(axis=1), (a * b).sum(axis=1)
    is_kept = yy > 0
    cosines = np.where(is_kept, xy / np.sqrt(np.where(is_kept, xx * yy, 1)), 0)[xx > 0]
    return {
        "count": x32.size,
        "nan_count": np.isnan(x32).sum(),
        "inf_count": np.isinf(x32).sum(),
        "zeros": (x32 == 0).sum(),
        "underflow_count": ((x32 != 0) & (y == 0)).sum(),
        "saturated_count": (np.abs(products) > 448 * (1 + 2.0**-22)).sum(),
        "sum_xx": xx.sum(),
        "sum_yy": yy.sum(),
        "sum_xy": xy.sum(),
        "sum_ee": (errors * errors).sum(),
        "amax": amax.max(),
        "max_abs_error": np.abs(errors).max(),
        "row_count": len(x32),
        "zero_rows": (xx == 0).sum(),
        "flushed_rows": ((xx > 0) & ~is_kept).sum(),
        "sum_row_cosine": cosines.sum(),
        "min_row_cosine": cosines.min(),
        "tile_count": amax.size,
        "zero_tiles": (amax == 0).sum(),
        "scale_min": scales.min(),
        "scale_max": scales.max(),
        "tile_range_log2_max": np.log2(amax.astype(np.float64) / amin).max(),
    }
