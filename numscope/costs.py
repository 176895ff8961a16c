"""What a recipe costs and how far it reaches, before any tensor is seen.

Nothing here quantizes: both follow from the recipe's fields.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numscope.recipes import Recipe

#: Bits of a stored scale.
_SCALE_BITS = {"float32": 32, "power_of_two": 32, "float8_e8m0fnu": 8, "float8_e4m3fn": 8}


def bits_per_value(recipe: Recipe) -> float:
    """Bits of an element and its share of the tile's scale.

    The scale of a whole row, column or tensor is negligible, and so is an outer scale.
    """
    rows, cols = recipe.tile
    share = _SCALE_BITS[recipe.scale] / (rows * cols) if rows and cols else 0.0
    return recipe.element_format.bits + share


def usable_bits(recipe: Recipe) -> float:
    """The range that every tile has: log2(amax / smallest magnitude that is surely kept).

    For the worst amax, where a scale that is rounded to a power of two wastes most; floors and the
    rounding of E4M3 scales are left aside. What is rounded to nearest becomes 0 up to half of the
    smallest subnormal.
    """
    element = recipe.element_format
    is_nearest = recipe.rounding.startswith("nearest")
    kept = element.min_subnormal / 2 if is_nearest else element.min_subnormal
    full = 2.0**element.max_exponent if recipe.scale_from == "amax/2^emax" else element.max
    wasted = {
        "up": 2.0,
        "nearest": math.sqrt(2),
        "even": 1 / (1 - 2.0 ** -(element.mantissa_bits + 2)),
    }
    return math.log2(full / wasted.get(recipe.scale_rounding, 1.0) / kept)
