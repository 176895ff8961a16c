"""How a recipe rounds, in the numbers that the compiled loops take.

One rounding loop serves every number format: this is where a format and a recipe become its
arguments. Nothing here touches values.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numscope.inputs import is_narrow

if TYPE_CHECKING:
    from numscope.recipes import Recipe

# What a product is rounded to, and how an element is.
FLOAT32, BFLOAT16, FLOAT16 = 0, 1, 2
NEAREST_EVEN, UP_ABOVE, STOCHASTIC = 0, 1, 2

#: By the recipe's rounding: how, and the remainder, in units of the last place, above which it is
#: up.
_MODES: dict[str, tuple[int, float]] = {
    "nearest_even": (NEAREST_EVEN, 0.0),
    "nearest_away": (UP_ABOVE, 0.5 - 2.0**-25),
    "nearest_toward_zero": (UP_ABOVE, 0.5),
    "toward_zero": (UP_ABOVE, 1.0),
    "stochastic": (STOCHASTIC, 0.0),
}


class Rule(NamedTuple):
    """An element format and how it is rounded to, as the loops take it.

    Attributes
    ----------
    min_exponent
        Bits of the float32 2^e, e the exponent of the smallest normal value.
    step
        What to add to the bits of 2^e to have those of 1.5 * 2^(e + 23 - m): adding and subtracting
        that number rounds a float32 of exponent e to m mantissa bits, nearest even.
    largest
        Magnitudes beyond it are taken for it: the largest finite value, or, where what is beyond
        that is not clipped, the next power of two.
    limit
        Products beyond it count as clipped: the largest value * (1 + 2^-22), rounded down. It
        leaves the few units in the last place by which amax * (largest / amax) can exceed it in
        float32.
    is_plain
        Whether values are multiplied, rounded to nearest even and clipped, as all that follows
        but the last says: the loop for that is one.
    divides, product
        Whether values are divided by their operands, and what the quotients or products are rounded
        to: FLOAT32, FLOAT16 or BFLOAT16.
    mode, threshold, seed
        NEAREST_EVEN; UP_ABOVE: up where the remainder is above `threshold`; or STOCHASTIC.
    overflows, finite_max, above, below
        Whether what is rounded beyond `finite_max` becomes `above`, or `below` if negative.
    has_nan
        Whether the format has NaN; if not, NaN becomes 0.
    divides_back
        Whether elements are divided by the multiplier instead of multiplied by the scale.
    """

    min_exponent: np.int32
    step: np.int32
    largest: np.float32
    limit: np.float32
    is_plain: bool
    divides: bool
    product: np.int32
    mode: np.int32
    threshold: np.float32
    seed: np.uint64
    overflows: bool
    finite_max: np.float32
    above: np.float32
    below: np.float32
    has_nan: bool
    divides_back: bool


@cache
def rule(recipe: Recipe, dtype: np.dtype[Any]) -> Rule:
    """What the loops do for a recipe on a tensor of that dtype."""
    element = recipe.element_format
    exact = element.max * (1 + 2.0**-22)
    limit = np.float32(exact)
    if float(limit) > exact:
        limit = np.nextafter(limit, np.float32(0))
    mode, threshold = _MODES[recipe.rounding]
    product = FLOAT32
    if recipe.product_precision == "input" and is_narrow(dtype):
        product = BFLOAT16 if dtype.name == "bfloat16" else FLOAT16
    divides, divides_back = recipe.apply == "divide", recipe.dequantize == "divide"
    overflows = recipe.overflow != "saturate"
    power = 2.0 ** (element.max_exponent + 1)
    above, below = math.inf, -math.inf
    if recipe.overflow == "asymmetric":
        above, below = element.max, -power
    elif not element.has_infinity:
        above = below = math.nan
    return Rule(
        min_exponent=np.int32((127 + element.min_exponent) << 23),
        step=np.int32(((23 - element.mantissa_bits) << 23) | 0x400000),
        largest=np.float32(power if overflows else element.max),
        limit=limit,
        is_plain=not (divides or overflows or product or mode),
        divides=divides,
        product=np.int32(product),
        mode=np.int32(mode),
        threshold=np.float32(threshold),
        seed=np.uint64(recipe.seed),
        overflows=overflows,
        finite_max=np.float32(element.max),
        above=np.float32(above),
        below=np.float32(below),
        has_nan=element.has_nan,
        divides_back=divides_back,
    )
