"""The same metrics as anyone would write them with NumPy and ml_dtypes, to compare numscope with.

Whole-array expressions, float32 in, float64 sums, the plainest recipe of each family. Tiles must
divide the tensor, and none may be zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope import Recipe


def measure(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    """Counts, sums and cosines of a recipe that rounds to nearest even and multiplies."""
    x32 = x.astype(np.float32)
    tile = [n or extent for n, extent in zip(recipe.tile, x32.shape, strict=True)]
    rows, cols = x32.shape[0] // tile[0], x32.shape[1] // tile[1]
    tiles = x32.reshape(rows, tile[0], cols, tile[1])
    magnitudes = np.abs(tiles)
    finite = np.isfinite(tiles)
    amax = np.where(finite, magnitudes, 0).max(axis=(1, 3), keepdims=True)
    amin = np.where(magnitudes > 0, magnitudes, np.inf).min(axis=(1, 3), keepdims=True)
    multipliers, scales = _scales(amax, recipe)
    products = tiles / scales if recipe.apply == "divide" else tiles * multipliers
    element = recipe.element_format
    largest, unit = np.float32(element.max), np.float32(element.unit)
    clipped = np.clip(products, -largest, largest)
    if element.specials == "integer":
        elements = np.rint(clipped / unit).astype(np.int8)
    else:
        elements = clipped.astype(element.dtype)
    y = (elements.astype(np.float32) * unit * scales).reshape(x32.shape)
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
        "saturated_count": (np.abs(products) > largest * (1 + 2.0**-22)).sum(),
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
        "overflow_count": 0,
        "overflow_zeros": 0,
    }


def _scales(amax: Any, recipe: Recipe) -> tuple[Any, Any]:
    """Multipliers and scales by the families' rules, for tiles that hold something."""
    one, element = np.float32(1), recipe.element_format
    largest = np.float32(element.max)
    if recipe.scale == "float8_e4m3fn":
        outer = np.float32(448) * largest / amax.max()
        inner = (amax * (outer * (one / largest))).astype(ml_dtypes.float8_e4m3fn)
        scales = inner.astype(np.float32) * (one / outer)
        return np.where(scales > 0, one / np.where(scales > 0, scales, one), 0), scales
    if recipe.scale_from == "max/amax":
        multipliers = largest / amax
        if recipe.scale == "power_of_two":
            multipliers = np.exp2(np.floor(np.log2(multipliers)))
        return multipliers, one / multipliers
    if recipe.scale_from == "amax/2^emax":
        scales = np.exp2(np.floor(np.log2(amax)) - element.max_exponent)
        return one / scales, scales
    scales = np.maximum(amax, np.float32(recipe.amax_floor)) / largest
    return one / scales, scales
