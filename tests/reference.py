"""Quantization and its metrics as literally as they are defined: slow, in NumPy and ml_dtypes.

The compiled loops are held against this, so it shares nothing with them: limits come from
`ml_dtypes.finfo`, tiles are visited one by one, rounding is ml_dtypes' cast, sums are `math.fsum`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from numscope.recipes import Recipe


class Quantized(NamedTuple):
    """Codes, multiplier and scale of each tile in the order of `tiles`, and code × scale."""

    codes: NDArray[Any]
    multipliers: list[np.float32]
    scales: list[np.float32]
    values: NDArray[np.float32]


def quantize(x: NDArray[Any], recipe: Recipe) -> Quantized:
    """What the recipe makes of the matrix `x`."""
    x32 = to_float32(x)
    codes = np.empty(x.shape, element_dtype(recipe.element))
    values = np.empty(x.shape, np.float32)
    multipliers, scales = [], []
    for tile in tiles(x.shape, recipe.tile):
        amax = largest_magnitude(x32[tile])
        m, s = multiplier_and_scale(amax, recipe, largest_of(x.dtype))
        codes[tile] = cast(x32[tile] * m, recipe.element)
        with np.errstate(over="ignore"):  # 448 * 2^120 is beyond float32
            values[tile] = codes[tile].astype(np.float32) * s
        multipliers.append(m)
        scales.append(s)
    return Quantized(codes, multipliers, scales, values)


def measure(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    """Every field and every ratio of `ErrorSums`, for the matrix `x`."""
    sums = {**_values(x, recipe), **_rows(x, recipe), **_tiles(x, recipe)}
    return {**sums, **_ratios(sums)}


def to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """The values as the quantizer sees them."""
    with np.errstate(all="ignore"):
        return x.astype(np.float32)


def element_dtype(element: str) -> np.dtype[Any]:
    """The dtype of the codes."""
    return np.dtype(np.int8 if element == "int8" else getattr(ml_dtypes, element))


def largest_element(element: str) -> float:
    """Largest finite value of the element format."""
    return 127.0 if element == "int8" else largest_of(element_dtype(element))


def largest_of(dtype: np.dtype[Any]) -> float:
    """Largest finite value of a float dtype, at most float32's."""
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return min(largest, float(np.finfo(np.float32).max))


def cast(v: NDArray[np.float32], element: str) -> NDArray[Any]:
    """Nearest element, ties to even, clamped first; NaN is 0 where the format has none."""
    largest = np.float32(largest_element(element))
    clamped = np.clip(v, -largest, largest)
    if element == "int8":
        return np.rint(np.nan_to_num(clamped)).astype(np.int8)
    if element in ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"):
        clamped = np.where(np.isnan(clamped), np.float32(0), clamped)
    return clamped.astype(element_dtype(element))


def tiles(shape: tuple[int, ...], tile: tuple[int | None, int | None]) -> Iterator[Any]:
    """The tiles' places in a matrix, row by row of tiles; the last of an axis is shorter."""
    rows, cols = shape
    tile_rows, tile_cols = tile[0] or max(rows, 1), tile[1] or max(cols, 1)
    for i in range(0, rows, tile_rows):
        for j in range(0, cols, tile_cols):
            yield np.s_[i : i + tile_rows, j : j + tile_cols]


def largest_magnitude(x32: NDArray[np.float32]) -> np.float32:
    """Amax: the largest finite magnitude, 0 if there is none."""
    return np.float32(np.abs(x32[np.isfinite(x32)]).max(initial=0))


def multiplier_and_scale(
    amax: np.float32, recipe: Recipe, input_max: float
) -> tuple[np.float32, np.float32]:
    """What a tile's values are multiplied by, and what its elements are."""
    if recipe.scale == "float8_e8m0fnu":
        exponent = -127
        if amax > 0:
            largest = largest_element(recipe.element)
            exponent = math.floor(math.log2(largest))
            exponent = min(max(_floor_log2(amax) - exponent, -127), 127)
        return np.float32(2.0**-exponent), np.float32(2.0**exponent)
    with np.errstate(divide="ignore", over="ignore"):
        m = np.float32(largest_element(recipe.element)) / amax
    if np.isinf(m):
        m = np.float32(input_max)
    if amax == 0:
        m = np.float32(1)
    if recipe.scale == "power_of_two":
        m = np.float32(2.0 ** _floor_log2(m))
    return m, np.float32(1) / m


def _floor_log2(value: np.float32) -> int:
    return math.frexp(float(value))[1] - 1


def _values(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    x32 = to_float32(x)
    finite = np.isfinite(x32)
    a, b = _pair(x, recipe)
    e = a - b
    return {
        "count": x.size,
        "zeros": np.count_nonzero(a[finite] == 0),
        "nan_count": np.count_nonzero(np.isnan(x32)),
        "inf_count": np.count_nonzero(np.isinf(x32)),
        "underflow_count": np.count_nonzero((a != 0) & (b == 0)),
        "saturated_count": _saturated(x, recipe),
        "sum_xx": math.fsum((a * a).flat),
        "sum_yy": math.fsum((b * b).flat),
        "sum_xy": math.fsum((a * b).flat),
        "sum_ee": math.fsum((e * e).flat),
        "amax": np.abs(a).max(initial=0),
        "max_abs_error": np.abs(e).max(initial=0),
    }


def _pair(x: NDArray[Any], recipe: Recipe) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x and y in float64, both 0 where x is not finite."""
    finite = np.isfinite(to_float32(x))
    y = quantize(x, recipe).values
    return np.where(finite, x.astype(np.float64), 0), np.where(finite, y.astype(np.float64), 0)


def _saturated(x: NDArray[Any], recipe: Recipe) -> int:
    """How many products lie beyond the largest element by more than float32 rounding explains."""
    x32 = to_float32(x)
    limit = largest_element(recipe.element) * (1 + 2.0**-22)
    count = 0
    places = tiles(x.shape, recipe.tile)
    for tile, m in zip(places, quantize(x, recipe).multipliers, strict=True):
        products = np.abs(x32[tile][np.isfinite(x32[tile])] * m).astype(np.float64)
        count += int(np.count_nonzero(products > limit))
    return count


def _rows(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    cosines = []
    zero_rows = flushed_rows = 0
    for a, b in zip(*_pair(x, recipe), strict=True):
        if not a.any():
            zero_rows += 1
        elif not b.any():
            flushed_rows += 1
            cosines.append(0.0)
        else:
            norms = math.sqrt(math.fsum(a * a) * math.fsum(b * b))
            cosines.append(min(math.fsum(a * b) / norms, 1.0))
    return {
        "row_count": x.shape[0],
        "zero_rows": zero_rows,
        "flushed_rows": flushed_rows,
        "sum_row_cosine": math.fsum(cosines),
        "min_row_cosine": min((c for c in cosines if not math.isnan(c)), default=math.nan),
    }


def _tiles(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    x32 = to_float32(x)
    places = list(tiles(x.shape, recipe.tile))
    kept, ranges = [], []
    for tile, scale in zip(places, quantize(x, recipe).scales, strict=True):
        magnitudes = np.abs(x32[tile][np.isfinite(x32[tile])])
        magnitudes = magnitudes[magnitudes > 0]
        if magnitudes.size:
            kept.append(float(scale))
            ranges.append(math.log2(magnitudes.max()) - math.log2(magnitudes.min()))
    return {
        "tile_count": len(places),
        "zero_tiles": len(places) - len(kept),
        "scale_min": min(kept, default=math.nan),
        "scale_max": max(kept, default=math.nan),
        "tile_range_log2_max": max(ranges, default=math.nan),
    }


def _ratios(m: dict[str, float]) -> dict[str, float]:
    nonzero = m["count"] - m["zeros"] - m["nan_count"] - m["inf_count"]
    xx, yy, xy, ee = m["sum_xx"], m["sum_yy"], m["sum_xy"], m["sum_ee"]
    norms = math.sqrt(xx * yy)
    return {
        "underflow": _share(m["underflow_count"], m["count"]),
        "underflow_nonzero": _share(m["underflow_count"], nonzero),
        "zeros_after": _share(m["zeros"] + m["underflow_count"], m["count"]),
        "saturated": _share(m["saturated_count"], m["count"]),
        "distortion": _share(m["sum_row_cosine"], m["row_count"] - m["zero_rows"]),
        "cosine": xy / norms if norms else (0.0 if xx else math.nan),
        "sqnr_db": _decibels(xx, ee),
        "mse": _share(ee, m["count"]),
        "relative_error": math.sqrt(ee / xx) if xx else math.nan,
    }


def _decibels(signal: float, noise: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(10 * np.log10(np.float64(signal) / np.float64(noise)))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
