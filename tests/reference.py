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
    """Codes, products before rounding, scale of each tile in the order of `tiles`, and values."""

    codes: NDArray[Any]
    products: NDArray[np.float32]
    scales: list[np.float32]
    values: NDArray[np.float32]


def quantize(x: NDArray[Any], recipe: Recipe) -> Quantized:
    """What the recipe makes of the matrix `x`."""
    x32 = to_float32(x)
    codes = np.empty(x.shape, element_dtype(recipe.element))
    products = np.empty(x.shape, np.float32)
    values = np.empty(x.shape, np.float32)
    outers = outer_amax(x32, recipe)
    scales = []
    with np.errstate(all="ignore"):
        for tile in tiles(x.shape, recipe.tile):
            m, s = multiplier_and_scale(x32[tile], recipe, x.dtype, outers[tile].flat[0])
            v = x32[tile] / s if recipe.apply == "divide" else x32[tile] * m
            if recipe.product_precision == "input":
                v = in_input(v, x.dtype)
            codes[tile] = cast(v, recipe)
            q = codes[tile].astype(np.float32) * np.float32(unit(recipe.element))
            products[tile] = v
            values[tile] = q / m if recipe.dequantize == "divide" else q * s
            scales.append(s)
    return Quantized(codes, products, scales, values)


def measure(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    """Every field and every ratio of `ErrorSums`, for the matrix `x`."""
    sums = {**_values(x, recipe), **_rows(x, recipe), **_tiles(x, recipe)}
    return {**sums, **_ratios(sums)}


def to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    """The values as the quantizer sees them."""
    with np.errstate(all="ignore"):
        return x.astype(np.float32)


def in_input(v: Any, dtype: np.dtype[Any]) -> Any:
    """Rounded to the input's dtype, if anybody would compute in that."""
    return v.astype(dtype).astype(np.float32) if dtype.name in ("float16", "bfloat16") else v


def element_dtype(element: str) -> np.dtype[Any]:
    """The dtype of the codes."""
    return np.dtype(np.int8 if element.endswith("int8") else getattr(ml_dtypes, element))


def unit(element: str) -> float:
    """What a code of 1 stands for in an integer format."""
    return 2.0**-6 if element == "mxint8" else 1.0


def largest_element(element: str) -> float:
    """Largest finite value of the element format."""
    if element.endswith("int8"):
        return 127.0 * unit(element)
    return largest_of(element_dtype(element))


def largest_of(dtype: np.dtype[Any]) -> float:
    """Largest finite value of a float dtype, at most float32's."""
    largest = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    return min(largest, float(np.finfo(np.float32).max))


def members(element: str) -> NDArray[np.float64]:
    """All finite values from 0 on, decoded by ml_dtypes."""
    dtype = element_dtype(element)
    bits = 8 if dtype == np.int8 else ml_dtypes.finfo(dtype).bits  # type: ignore[no-untyped-call]
    values = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float64) * unit(element)
    kept: NDArray[np.float64] = np.unique(values[np.isfinite(values) & (values >= 0)])
    return kept


def cast(v: NDArray[np.float32], recipe: Recipe) -> NDArray[Any]:
    """The recipe's elements of `v`; NaN is 0 where the format has none."""
    element, dtype = recipe.element, element_dtype(recipe.element)
    largest = np.float32(largest_element(element))
    if recipe.overflow == "ieee":
        codes = v.astype(dtype)  # ml_dtypes overflows as IEEE does
    elif dtype == np.int8:
        least = -128 if recipe.overflow == "asymmetric" else -127
        near = np.clip(np.nan_to_num(v), -1000, 1000)
        codes = _integers(near / np.float32(unit(element)), recipe.rounding)
        codes = np.clip(codes, least, 127).astype(np.int8)
    else:
        clamped = np.clip(v, -largest, largest)
        if element in ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"):
            clamped = np.where(np.isnan(clamped), np.float32(0), clamped)
        if recipe.rounding != "nearest_even":
            clamped = _neighbour(clamped, recipe)
        codes = clamped.astype(dtype)
    is_zero = codes == 0
    if recipe.negative_zero == "positive_if_exact":
        is_zero &= v == 0
    if recipe.negative_zero != "kept":
        codes[is_zero] = 0
    return codes


def _integers(v: NDArray[Any], rounding: str) -> NDArray[np.float64]:
    magnitude = np.abs(v.astype(np.float64))
    rounded: NDArray[np.float64] = {
        "nearest_even": np.rint(magnitude),
        "nearest_away": np.floor(magnitude + 0.5),
        "nearest_toward_zero": np.ceil(magnitude - 0.5),
        "toward_zero": np.floor(magnitude),
    }[rounding]
    signed: NDArray[np.float64] = np.copysign(rounded, v)
    return signed


def _neighbour(v: NDArray[np.float32], recipe: Recipe) -> NDArray[np.float32]:
    """The member beside each value that the rounding picks; values are within the largest."""
    values = members(recipe.element)
    magnitude = np.abs(v.astype(np.float64))
    at = np.searchsorted(values, magnitude, side="right") - 1
    low, high = values[at], values[np.minimum(at + 1, values.size - 1)]
    nearer_to_high = magnitude - low > high - magnitude
    is_up = {
        "nearest_away": nearer_to_high | (magnitude - low == high - magnitude),
        "nearest_toward_zero": nearer_to_high,
        "toward_zero": np.zeros(v.shape, np.bool_),
    }[recipe.rounding]
    found = np.copysign(np.where(is_up, high, low), v).astype(np.float32)
    return np.where(np.isnan(v), v, found)


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


def seen_magnitude(x32: NDArray[np.float32], recipe: Recipe) -> np.float32:
    """Amax with NaN and infinities, if the recipe lets them through."""
    if recipe.nonfinite == "propagate":
        if np.isnan(x32).any():
            return np.float32(np.nan)
        if np.isinf(x32).any():
            return np.float32(np.inf)
    return largest_magnitude(x32)


def outer_amax(x32: NDArray[np.float32], recipe: Recipe) -> NDArray[np.float32]:
    """The amax of each value's outer tile."""
    found = np.zeros(x32.shape, np.float32)
    for tile in tiles(x32.shape, recipe.outer_tile or (None, None)):
        found[tile] = seen_magnitude(x32[tile], recipe)
    return found


def multiplier_and_scale(
    x32: NDArray[np.float32], recipe: Recipe, dtype: np.dtype[Any], outer: np.float32
) -> tuple[Any, Any]:
    """What a tile's values are multiplied by, and what its elements are."""
    amax = _floored(seen_magnitude(x32, recipe), recipe, dtype)
    if amax == 0 and recipe.zero == "amax_1":
        amax = np.float32(1)
    if amax == 0 and recipe.zero == "amax_2^-126":
        amax = np.float32(2.0**-126)
    if recipe.scale == "float8_e4m3fn":
        return _e4m3(np.float32(amax), recipe, outer)
    special = _special_scale(x32, recipe)
    if special is not None:
        return np.float32(1) / special, special
    if recipe.has_multiplier:
        m = _multiplier(amax, recipe, dtype)
        m = m if recipe.scale_rounding == "none" else _power_of_two(m, recipe)
        return m, np.float32(1) / m
    s = _scale(amax, recipe, dtype)
    s = s if recipe.scale_rounding == "none" else _power_of_two(s, recipe)
    return np.float32(1) / s, s


def _floored(amax: np.float32, recipe: Recipe, dtype: np.dtype[Any]) -> Any:
    """Amax, at least the floor, in the precision that the floor has."""
    if not recipe.amax_floor or np.isnan(amax):
        return amax
    floor = np.float64(recipe.amax_floor)
    if recipe.amax_floor_precision == "float64":
        return max(np.float64(amax), floor)
    if recipe.amax_floor_precision == "input":
        return max(amax, in_input(np.float32(floor), dtype))
    return max(amax, np.float32(floor))


def _special_scale(x32: NDArray[np.float32], recipe: Recipe) -> np.float32 | None:
    """The scale of a tile with NaN or infinities, where the recipe sets one."""
    is_infinite = bool(np.isinf(x32).any())
    is_special = is_infinite or bool(np.isnan(x32).any())
    applies, scale = {
        "nan": (is_special, np.nan),
        "largest": (is_special, 2.0**127),
        "one_if_infinite": (is_infinite, 1.0),
        "largest_if_infinite": (is_infinite, 2.0**127),
    }.get(recipe.nonfinite, (False, 0.0))
    return np.float32(scale) if applies else None


def _multiplier(amax: Any, recipe: Recipe, dtype: np.dtype[Any]) -> Any:
    one, largest = np.float32(1), np.float32(largest_element(recipe.element))
    if recipe.scale_from == "max*(1/amax)":
        m = np.float32(np.float32(one / amax) * largest)
    else:
        m = np.float32(largest / amax)
    if recipe.scale_precision == "input":
        m = in_input(m, dtype)
    if np.isinf(m) and recipe.infinite_multiplier == "input_max":
        m = np.float32(largest_of(dtype))
    return one if amax == 0 and recipe.zero == "scale_1" else m


def _scale(amax: Any, recipe: Recipe, dtype: np.dtype[Any]) -> Any:
    one, largest = np.float32(1), np.float32(largest_element(recipe.element))
    s: Any
    if recipe.scale_from == "amax/max":
        s = np.float32(amax / largest)
    elif recipe.scale_from == "amax*(1/max)":
        s = np.float32(amax * np.float32(one / largest))
    else:
        s = np.float64(amax) / 2.0 ** math.floor(math.log2(largest))
    if recipe.scale_precision == "input":
        s = in_input(s, dtype)
    if not np.isnan(s):
        s = max(s, np.float32(recipe.scale_floor))
    return one if s == 0 and recipe.zero == "scale_1" else s


def _power_of_two(formed: Any, recipe: Recipe) -> np.float32:
    """The multiplier or scale as a power of two; 0, NaN and infinity are kept but in E8M0."""
    is_e8m0 = recipe.scale == "float8_e8m0fnu"
    if np.isnan(formed):
        return np.float32(formed)
    if formed == 0 or np.isinf(formed):
        return np.float32(2.0 ** (-127 if formed == 0 else 127) if is_e8m0 else formed)
    down = math.frexp(float(formed))[1] - 1
    up = down if formed == 2.0**down else down + 1
    rounding = recipe.scale_rounding
    if recipe.has_multiplier:
        rounding = {"up": "down", "down": "up"}.get(rounding, rounding)
    if rounding == "even":
        # Half a unit of the element's mantissa is added, and what is below the leading bit dropped.
        bits = 6 if recipe.element.endswith("int8") else _mantissa_bits(recipe.element)
        exponent = down if formed + 2.0 ** (down - bits - 1) < 2.0 ** (down + 1) else down + 1
        emax = math.floor(math.log2(largest_element(recipe.element)))
        if exponent + emax > 127 and recipe.nonfinite == "nan":
            return np.float32(np.nan)
    else:
        nearest = math.floor(math.log2(formed) + 0.5)
        exponent = {"down": down, "up": up, "nearest": nearest}[rounding]
    return np.float32(2.0 ** (min(max(exponent, -127), 127) if is_e8m0 else exponent))


def _mantissa_bits(element: str) -> int:
    return int(ml_dtypes.finfo(element_dtype(element)).nmant)  # type: ignore[no-untyped-call]


def _e4m3(amax: np.float32, recipe: Recipe, outer: np.float32) -> tuple[np.float32, np.float32]:
    """Multiplier and scale with an E4M3 scale per tile, and one in float32 above it if any."""
    one, largest = np.float32(1), np.float32(largest_element(recipe.element))
    top, upper = np.float32(448) * largest, np.finfo(np.float32).max
    t, big = one, one
    if recipe.scale_from == "(amax/max)/outer":
        t = outer / top
        big = one / t
        raw = (amax / largest) / t
    elif recipe.outer != "none":
        big = np.minimum(top / outer, upper)
        if big == 0 or (outer == 0 and recipe.zero == "multiplier_0"):
            big = one
        t = one / big
        if recipe.scale_from == "(amax/max)*(1/outer)":
            raw = (amax / largest) * big
        else:
            raw = amax * (big * (one / largest))
    else:
        raw = amax / largest
    raw = np.clip(raw, np.float32(recipe.scale_floor), np.float32(448))
    b = np.float32(raw.astype(ml_dtypes.float8_e4m3fn))
    s = b * t
    m = big / b if recipe.apply == "multiply_levels" else np.minimum(one / s, upper)
    if b == 0 and recipe.zero == "multiplier_0":
        m = np.float32(0)
    return np.float32(m), np.float32(s)


def _values(x: NDArray[Any], recipe: Recipe) -> dict[str, float]:
    x32 = to_float32(x)
    finite = np.isfinite(x32)
    lost = finite & ~np.isfinite(quantize(x, recipe).values)
    a, b = _pair(x, recipe)
    e = a - b
    return {
        "count": x.size,
        "zeros": np.count_nonzero(x[finite] == 0),
        "nan_count": np.count_nonzero(np.isnan(x32)),
        "inf_count": np.count_nonzero(np.isinf(x32)),
        "underflow_count": np.count_nonzero((a != 0) & (b == 0)),
        "saturated_count": _saturated(x, recipe),
        "sum_xx": math.fsum((a * a).flat),
        "sum_yy": math.fsum((b * b).flat),
        "sum_xy": math.fsum((a * b).flat),
        "sum_ee": math.fsum((e * e).flat),
        "amax": np.abs(np.where(finite, x, 0).astype(np.float64)).max(initial=0),
        "max_abs_error": np.abs(e).max(initial=0),
        "overflow_count": np.count_nonzero(lost),
        "overflow_zeros": np.count_nonzero(lost & (x == 0)),
    }


def _pair(x: NDArray[Any], recipe: Recipe) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x and y in float64, both 0 where one of them is not finite."""
    y = quantize(x, recipe).values
    kept = np.isfinite(to_float32(x)) & np.isfinite(y)
    return np.where(kept, x.astype(np.float64), 0), np.where(kept, y.astype(np.float64), 0)


def _saturated(x: NDArray[Any], recipe: Recipe) -> int:
    """How many products lie beyond the largest element by more than float32 rounding explains."""
    if recipe.overflow == "ieee":
        return 0
    products = quantize(x, recipe).products[np.isfinite(to_float32(x))].astype(np.float64)
    limit = largest_element(recipe.element) * (1 + 2.0**-22)
    below = limit * (128 / 127) if recipe.overflow == "asymmetric" else limit
    return int(np.count_nonzero(products > limit)) + int(np.count_nonzero(products < -below))


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
    kept, ranges, zero_tiles = [], [], len(places)
    for tile, scale in zip(places, quantize(x, recipe).scales, strict=True):
        magnitudes = np.abs(x32[tile][np.isfinite(x32[tile])])
        magnitudes = magnitudes[magnitudes > 0]
        if magnitudes.size:
            zero_tiles -= 1
            if np.isfinite(scale):
                kept.append(float(scale))
            ranges.append(math.log2(magnitudes.max()) - math.log2(magnitudes.min()))
    return {
        "tile_count": len(places),
        "zero_tiles": zero_tiles,
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
        "zeros_after": _share(m["zeros"] + m["underflow_count"] - m["overflow_zeros"], m["count"]),
        "overflow": _share(m["overflow_count"], m["count"]),
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
