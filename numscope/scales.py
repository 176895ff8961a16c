"""The scale rules: from a tile's amax to its multiplier and its scale, beside their names.

Each rule is a function of arrays, one item per tile, evaluated in float32 exactly as the kernels
that it stands for evaluate it. Adding a rule is adding a function and its entry in `SCALE_RULES`.
Nothing here knows about tiles' shapes or elements' rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.formats import FloatFormat

    Float32 = NDArray[np.float32]
    #: (amax, element format, largest finite value of the input's dtype) -> (multiplier, scale).
    ScaleRule = Callable[[Float32, FloatFormat, float], tuple[Float32, Float32]]


def float32_scale(amax: Float32, element: FloatFormat, input_max: float) -> tuple[Float32, Float32]:
    """Multiplier m = max/amax and scale 1/m, both rounded to float32.

    An m that overflows becomes the largest finite value of the input's dtype; amax 0 gives m = 1.

    Source: Transformer Engine, `compute_scale_from_amax` in common/recipe/recipe_common.cuh with
    FP32 block scales; Ling 2.0 (arXiv 2510.22115) section 5.1.
    """
    multiplier = _multiplier(amax, element, input_max)
    return multiplier, np.float32(1) / multiplier


def power_of_two_scale(
    amax: Float32, element: FloatFormat, input_max: float
) -> tuple[Float32, Float32]:
    """As `float32_scale`, with m rounded down to a power of two: m = 2^floor(log2(max/amax)).

    The scale 1/m is therefore rounded up, and nothing saturates.

    Source: Transformer Engine, as above with power-of-two scales, its default for block scaling:
    the mantissa bits of m are dropped.
    """
    bits = _multiplier(amax, element, input_max).view(np.uint32) & np.uint32(0xFF800000)
    multiplier = bits.view(np.float32)
    return multiplier, np.float32(1) / multiplier


def e8m0_scale(
    amax: Float32,
    element: FloatFormat,
    input_max: float,  # noqa: ARG001 (all rules are called alike)
) -> tuple[Float32, Float32]:
    """Scale 2^e with e = floor(log2(amax)) - emax, kept within -127 and 127; multiplier 2^-e.

    emax is the exponent of the element format's largest value. A zero tile gets 2^-127. Elements
    may saturate: amax/scale can be up to 2^(emax+1).

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
    """
    _, exponent = np.frexp(amax)  # amax = f * 2^exponent with f in [1/2, 1)
    exponent = np.where(amax > 0, exponent - 1 - element.max_exponent, -127)
    exponent = np.clip(exponent, -127, 127).astype(np.int32)
    one = np.float32(1)
    return np.ldexp(one, -exponent), np.ldexp(one, exponent)


#: By the name that a `Recipe` carries in its field `scale`.
SCALE_RULES: dict[str, ScaleRule] = {
    "float32": float32_scale,
    "power_of_two": power_of_two_scale,
    "float8_e8m0fnu": e8m0_scale,
}


def _multiplier(amax: Float32, element: FloatFormat, input_max: float) -> Float32:
    with np.errstate(divide="ignore", over="ignore"):
        multiplier = np.float32(element.max) / amax
    multiplier[np.isinf(multiplier)] = input_max
    multiplier[amax == 0] = 1
    return multiplier
