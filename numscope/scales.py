"""From tiles' amax to what their values are multiplied by and what their elements stand for.

A scale is a composition: an expression (`expressions`), a floor, a rounding to a power of two, and
what becomes of tiles without an ordinary scale. All of it is evaluated in float32, step by step as
the kernels that it stands for do. Nothing here knows about tiles' shapes or elements' rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from numscope import extremes, kernels, roundings, scale_loops
from numscope.expressions import EXPRESSIONS, OUTER_EXPRESSIONS
from numscope.inputs import largest_input, round_to_input
from numscope.recipes import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]

#: Bits of `Magnitudes.special`: what a tile holds besides finite values.
HAS_NAN, HAS_INFINITY = 1, 2

_ONE = np.float32(1)
_LARGEST = np.float32(np.finfo(np.float32).max)
#: The largest E4M3 scale.
_E4M3_MAX = np.float32(448)
_E4M3_RULE = roundings.rule(Recipe("float8_e4m3fn"), np.dtype(np.float32))


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Largest magnitudes: `amax` of finite values, float32; `special`, what else there is, uint8.

    `special` is `None` if everything is finite.
    """

    amax: Float32
    special: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class Scales:
    """What the loops take: one item per tile each.

    Attributes
    ----------
    scales, multipliers
        The dequantization scales, with two levels the products of both; and what is formed before
        or after them as 1/scale.
    operands, back
        What values are multiplied or divided by, and what elements are multiplied or divided by, as
        the recipe says.
    inner, outer
        The two levels, `None` if there is one.
    """

    scales: Float32
    multipliers: Float32
    operands: Float32
    back: Float32
    inner: Float32 | None = None
    outer: Float32 | None = None


def chosen(first: Scales, second: Scales, is_second: NDArray[np.bool_]) -> Scales:
    """The scales of each tile from one of two, which differ in the tiles' own level."""

    def pick(name: str) -> Float32:
        picked: Float32 = np.where(is_second, getattr(second, name), getattr(first, name))
        return picked

    return replace(
        first,
        scales=pick("scales"),
        multipliers=pick("multipliers"),
        operands=pick("operands"),
        back=pick("back"),
        inner=pick("inner"),
    )


def tile_scales(
    tiles: Magnitudes,
    recipe: Recipe,
    dtype: np.dtype[Any],
    outer: Magnitudes | None = None,
    enlarged: float = 1.0,
) -> Scales:
    """The scales of tiles.

    Parameters
    ----------
    tiles
        What the tiles hold.
    recipe
        How to make scales of it.
    dtype
        The input's.
    outer
        What each tile's outer tile holds, in a shape that broadcasts to the tiles'.
    enlarged
        By how much an E4M3 scale is multiplied before it is rounded.
    """
    with np.errstate(all="ignore"):  # zero, tiny, NaN and infinite tiles are what this is about
        if recipe.scale == "float8_e4m3fn":
            return _e4m3_scales(tiles, recipe, dtype, outer, np.float32(enlarged))
        return _plain_scales(tiles, recipe, dtype)


def _plain_scales(tiles: Magnitudes, recipe: Recipe, dtype: np.dtype[Any]) -> Scales:
    element = recipe.element_format
    is_multiplier = recipe.has_multiplier
    amax = _amax(tiles, recipe, dtype)
    formed = EXPRESSIONS[recipe.scale_from](amax, element)
    if recipe.scale_precision == "input":
        formed = round_to_input(formed, dtype)
    if recipe.infinite_multiplier == "input_max":
        formed[np.isinf(formed)] = largest_input(dtype)
    if recipe.scale_floor:
        formed = np.maximum(formed, np.float32(recipe.scale_floor))
    if recipe.zero == "scale_1":
        formed[(amax == 0) if is_multiplier else (formed == 0)] = 1
    if recipe.scale_rounding != "none":
        formed = _power_of_two(formed, recipe)
    given: Float32 = _float32(formed)
    inverse: Float32 = _ONE / given
    scales, multipliers = (inverse, given) if is_multiplier else (given, inverse)
    if tiles.special is not None:
        _replace(scales, multipliers, tiles.special, recipe.nonfinite)
    operands = scales if recipe.apply == "divide" else multipliers
    back = multipliers if recipe.dequantize == "divide" else scales
    return Scales(scales, multipliers, operands, back)


def _e4m3_scales(
    tiles: Magnitudes,
    recipe: Recipe,
    dtype: np.dtype[Any],
    top: Magnitudes | None,
    enlarged: np.float32,
) -> Scales:
    amax = _amax(tiles, recipe, dtype).astype(np.float32, copy=False)
    element = recipe.element_format
    if top is None:
        outer, outer_multiplier = np.ones((1, 1), np.float32), np.ones((1, 1), np.float32)
        formed = EXPRESSIONS[recipe.scale_from](amax, element)
    else:
        outer, outer_multiplier = _outer_level(_seen(top, recipe), recipe)
        formed = OUTER_EXPRESSIONS[recipe.scale_from](amax, element, outer, outer_multiplier)
    inner = _e4m3(np.clip(formed * enlarged, np.float32(recipe.scale_floor), _E4M3_MAX))
    scales: Float32 = inner * outer
    multipliers: Float32
    if recipe.apply == "multiply_levels":
        multipliers = outer_multiplier / inner
    else:
        multipliers = np.minimum(_ONE / scales, _LARGEST)
    if recipe.zero == "multiplier_0":
        multipliers[inner == 0] = 0
    operands = scales if recipe.apply == "divide" else multipliers
    return Scales(scales, multipliers, operands, scales, inner, None if top is None else outer)


def _outer_level(amax: Float32, recipe: Recipe) -> tuple[Float32, Float32]:
    """The outer scale and multiplier: what brings an outer amax to the largest element and scale.

    Source: `compute_global_encode_scaling_factor` of Transformer Engine's NVFP4, where the
    multiplier is formed first; torchao's `per_tensor_amax_to_scale`, where the scale is.
    """
    largest = np.float32(recipe.outer_limit) * np.float32(recipe.element_format.max)
    if not recipe.has_outer_multiplier:
        outer = amax / largest
        return outer, _ONE / outer
    multiplier = np.minimum(largest / amax, _LARGEST)
    multiplier[multiplier == 0] = 1
    if recipe.zero == "multiplier_0":
        multiplier[amax == 0] = 1
    return _ONE / multiplier, multiplier


def _amax(tiles: Magnitudes, recipe: Recipe, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The tiles' amax after what NaN, infinities, floors and zeros make of it."""
    amax: NDArray[Any] = _seen(tiles, recipe)
    if recipe.amax_floor:
        floor = np.array(recipe.amax_floor)
        if recipe.amax_floor_precision == "float64":
            # Where amax is above the floor, its float64 quotient rounds to the float32 one.
            amax = amax.astype(np.float64)
        elif recipe.amax_floor_precision == "input":
            floor = round_to_input(floor.astype(np.float32), dtype)
        amax = np.maximum(amax, floor.astype(amax.dtype))
    if recipe.zero.startswith("amax_"):
        amax[amax == 0] = 1 if recipe.zero == "amax_1" else 2.0**-126
    return amax


def _seen(tiles: Magnitudes, recipe: Recipe) -> Float32:
    """A copy of the tiles' amax, with NaN and infinities if the recipe lets them through."""
    amax = tiles.amax.copy()
    if recipe.nonfinite == "propagate" and tiles.special is not None:
        amax[tiles.special & HAS_INFINITY != 0] = np.inf
        amax[tiles.special & HAS_NAN != 0] = np.nan
    return amax


def _replace(
    scales: Float32, multipliers: Float32, special: NDArray[np.uint8], nonfinite: str
) -> None:
    """Put in the scales that tiles with NaN or infinities have whatever their amax is."""
    if nonfinite in _SPECIAL_SCALES:
        kinds, scale = _SPECIAL_SCALES[nonfinite]
        where = special & kinds != 0
        scales[where] = scale
        multipliers[where] = 1 / scale


#: What a tile must hold for its scale to be replaced, and by what.
_SPECIAL_SCALES = {
    "nan": (HAS_NAN | HAS_INFINITY, math.nan),
    "one_if_infinite": (HAS_INFINITY, 1.0),
    "largest_if_infinite": (HAS_INFINITY, 2.0**127),
    "largest": (HAS_NAN | HAS_INFINITY, 2.0**127),
}


def _power_of_two(formed: NDArray[Any], recipe: Recipe) -> Float32:
    """The multipliers or scales rounded as the recipe says; 0, NaN and infinities are kept.

    E8M0 keeps exponents within -127 and 127 and has neither 0 nor infinity.
    """
    rounding, mantissa_bits = recipe.scale_rounding, recipe.element_format.mantissa_bits
    if recipe.has_multiplier:
        rounding = {"up": "down", "down": "up"}.get(rounding, rounding)
    exponents = (-127, 127) if recipe.scale == "float8_e8m0fnu" else (-1023, 1024)
    nan_from = 1024
    if rounding == "even" and recipe.nonfinite == "nan":
        # An amax that is rounded beyond float32 is infinite.
        nan_from = 128 - recipe.element_format.max_exponent
    powers = np.empty(formed.shape, np.float32)
    up_above = _ROUND_UP_ABOVE[rounding](mantissa_bits)
    scale_loops.powers_of_two(formed.ravel(), up_above, exponents, nan_from, powers.ravel())
    return powers


_MANTISSA = (1 << 52) - 1

#: Mantissas, in 52 bits, above which a power of two is rounded up, by the element's mantissa bits.
_ROUND_UP_ABOVE: dict[str, Callable[[int], int]] = {
    "down": lambda _: _MANTISSA,
    "up": lambda _: 0,
    "nearest": lambda _: math.floor((math.sqrt(2) - 1) * 2.0**52),  # no mantissa is exactly this
    "even": lambda bits: _MANTISSA - (1 << 51 - bits),
}


def _float32(values: NDArray[Any]) -> Float32:
    return values.astype(np.float32, copy=False)


def _e4m3(values: Float32) -> Float32:
    """The E4M3 numbers nearest to `values`, which are not beyond the largest of them."""
    rounded = np.empty(values.shape, np.float32)
    row = values.reshape(1, -1)
    whole = extremes.grid(0, 0, (1, max(values.size, 1)), values.size)
    one = np.ones((1, 1), np.float32)
    room = kernels.room(values.size)
    kernels.quantize(row, whole, one, _E4M3_RULE, (0, 0), room, rounded.reshape(1, -1))
    return rounded
