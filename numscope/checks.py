"""What the fields of a recipe accept, and which of them go together.

Every message names the field, what it was given and what it needs. Nothing here computes a scale.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeGuard

from numscope.choices import (
    CHOICES,
    FROM_MULTIPLIER,
    FROM_OUTER,
    FROM_OUTER_MULTIPLIER,
    FROM_SCALE,
)
from numscope.errors import RecipeError
from numscope.formats import ALIASES, FORMATS

if TYPE_CHECKING:
    from numscope.recipes import Recipe

#: An amax above this makes a float32 scale above 0, whatever the element format.
_TINY = 1e-36
#: What rounds to float32 without becoming infinite, even after a rounding or two.
_SURELY_FINITE = 3.4e38
#: What is not above this becomes 0 as an E4M3 scale.
_HALF_OF_LEAST_E4M3 = 2.0**-10


def nearest(found: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> str:
    """What ends a message about a word that is not known: those it may be a mistake for, if any.

    >>> nearest("scal", ["scale", "tile"]), nearest("x", ["scale", "tile"])
    ('; did you mean scale?', '')
    """
    near = difflib.get_close_matches(found, known, n=most, cutoff=likeness)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def word(name: str, value: object) -> str:
    """The value, if it is text.

    Raises
    ------
    RecipeError
        If it is not.
    """
    if not isinstance(value, str):
        known = f"; known are {', '.join(CHOICES[name])}" if name in CHOICES else ""
        raise RecipeError(f"{name} is a name, not {value!r}{known}")
    return value


def known(name: str, value: object) -> str:
    """The value, if it is one of the words that the field takes.

    Raises
    ------
    RecipeError
        If it is not; the message has them all, and the nearest.
    """
    found = word(name, value)
    if found not in CHOICES[name]:
        hint = nearest(found, CHOICES[name])
        raise RecipeError(f"unknown {name} {found!r}; known are {', '.join(CHOICES[name])}{hint}")
    return found


def element(value: object) -> str:
    """The name of the number format, if it is one that elements can have.

    Raises
    ------
    RecipeError
        If it is not; the message has them all, and the nearest.
    """
    found = word("element", value)
    name = ALIASES.get(found.lower(), found.lower())
    known = [each for each, entry in FORMATS.items() if not entry.is_scale_only]
    if name in known:
        return name
    text = f"known are {', '.join(known)}"
    if name in FORMATS:
        raise RecipeError(f"element {name} holds scales, not elements; {text}")
    raise RecipeError(f"unknown element {found!r}; {text}{nearest(name, (*known, *ALIASES))}")


def floor(name: str, value: object) -> float:
    """The value, if it is a number that a floor can be.

    Raises
    ------
    RecipeError
        If it is no number, negative, or beyond float32.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise RecipeError(f"{name} is a number, not {value!r}")
    number: Any = value
    if not 0 <= number < 2.0**127:
        raise RecipeError(f"{name} {value} is not possible: it is 0 or more and within float32")
    return float(number)


def seed(value: object) -> int:
    """The value, if it is a seed: an integer of 64 bits without a sign.

    Raises
    ------
    RecipeError
        If it is not.
    """
    if not is_integer(value) or not 0 <= value < 2**64:
        raise RecipeError(f"seed {value!r} is not possible: it is an integer from 0 to 2^64 - 1")
    return int(value)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether the value is a whole number, Python's or NumPy's; truth values are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _require(recipe: Recipe, name: str, reason: str, *, holds: bool) -> None:
    if not holds:
        raise RecipeError(f"{name}={getattr(recipe, name)} needs {reason}")


def check_scale(recipe: Recipe) -> None:
    """A scale that is a power of two is rounded to one, any other is not.

    Raises
    ------
    RecipeError
        If the scale, its expression and its rounding do not go together.
    """
    source, rounding = recipe.scale_from, recipe.scale_rounding
    is_power = recipe.scale in ("power_of_two", "float8_e8m0fnu")
    if is_power:
        allowed: tuple[str, ...] = (*FROM_MULTIPLIER, *FROM_SCALE, "amax/2^emax")
    elif recipe.scale == "float32":
        allowed = (*FROM_MULTIPLIER, *FROM_SCALE)
    else:
        allowed = ("amax/max", *FROM_OUTER)
    if source not in allowed:
        raise RecipeError(
            f"scale_from={source} does not give a scale in {recipe.scale};"
            f" that needs {' or '.join(allowed)}"
        )
    if is_power == (rounding == "none"):
        text = "up, down, nearest or even" if is_power else "none"
        raise RecipeError(f"scale={recipe.scale} needs scale_rounding={text}, not {rounding}")
    _check_details(recipe, is_power=is_power)


def _check_details(recipe: Recipe, *, is_power: bool) -> None:
    """What goes with some expressions or scale formats only."""
    source = recipe.scale_from
    if recipe.scale_rounding == "even":
        _require(recipe, "scale_rounding", "scale_from=amax/2^emax", holds=source == "amax/2^emax")
    if recipe.scale_floor:
        holds = not recipe.has_multiplier
        _require(recipe, "scale_floor", "a scale_from that forms the scale first", holds=holds)
    if recipe.infinite_multiplier == "input_max":
        _require(recipe, "infinite_multiplier", "scale_from=max/amax", holds=source == "max/amax")
    is_e4m3 = recipe.scale == "float8_e4m3fn"
    if recipe.scale_precision == "input":
        holds = source in ("max/amax", "amax/max") and not is_e4m3
        _require(recipe, "scale_precision", "scale_from=amax/max or max/amax", holds=holds)
    if recipe.nonfinite.startswith("largest"):
        _require(recipe, "nonfinite", "a scale that is a power of two", holds=is_power)
    elif is_e4m3:
        holds = recipe.nonfinite in ("ignore", "propagate")
        _require(recipe, "nonfinite", "a scale other than float8_e4m3fn", holds=holds)


def check_levels(recipe: Recipe) -> None:
    """Two levels of scales belong to E4M3 scales whose expression has an outer one.

    Raises
    ------
    RecipeError
        If a field needs two levels where there is one, or one where there are two.
    """
    has_outer = recipe.outer != "none"
    if has_outer != (recipe.scale_from in FROM_OUTER):
        needs = f"scale=float8_e4m3fn and scale_from={' or '.join(FROM_OUTER)}"
        if has_outer:
            _require(recipe, "outer", needs, holds=False)
        _require(recipe, "scale_from", "outer=tensor, row or column", holds=False)
    _check_outer(recipe, has_outer=has_outer)
    if recipe.outer in ("row", "column"):
        extent = recipe.tile[recipe.outer == "column"]
        _require(recipe, "outer", f"a tile within one {recipe.outer}", holds=extent == 1)
    is_e4m3 = recipe.scale == "float8_e4m3fn"
    if recipe.zero == "multiplier_0":
        _require(recipe, "zero", "scale=float8_e4m3fn", holds=is_e4m3)
    elif recipe.zero != "none":
        _require(recipe, "zero", "a scale other than float8_e4m3fn", holds=not is_e4m3)
    if recipe.apply == "multiply_levels":
        _require(recipe, "apply", "two levels of scales (outer)", holds=has_outer)
    if recipe.apply == "divide":
        _require(recipe, "apply", "one level of scales", holds=not has_outer)
    if recipe.dequantize == "divide":
        sources = " or ".join(FROM_MULTIPLIER)
        _require(recipe, "dequantize", f"scale_from={sources}", holds=recipe.has_multiplier)


def _check_outer(recipe: Recipe, *, has_outer: bool) -> None:
    if recipe.outer_limit != 448:
        _require(recipe, "outer_limit", "two levels of scales (outer)", holds=has_outer)
        _require(
            recipe,
            "outer_limit",
            "more than 0 and at most 448",
            holds=0 < recipe.outer_limit <= 448,
        )
    if recipe.four_over_six != "none":
        holds = recipe.scale_from in FROM_OUTER_MULTIPLIER
        sources = " or ".join(FROM_OUTER_MULTIPLIER)
        _require(recipe, "four_over_six", f"scale_from={sources}", holds=holds)
        is_small = all(extent is not None and extent <= 128 for extent in recipe.tile)
        _require(recipe, "four_over_six", "a tile of at most 128x128", holds=is_small)


def check_elements(recipe: Recipe) -> None:
    """Refuse roundings that the element format does not have.

    Raises
    ------
    RecipeError
        If rounding, seed or overflow are not for these elements.
    """
    entry = recipe.element_format
    if recipe.seed:
        _require(recipe, "seed", "rounding=stochastic", holds=recipe.rounding == "stochastic")
    if recipe.overflow == "ieee":
        _require(recipe, "overflow", "an element format with NaN", holds=entry.has_nan)
        is_even = recipe.rounding == "nearest_even"
        _require(recipe, "overflow", "rounding=nearest_even", holds=is_even)
    if recipe.overflow == "asymmetric":
        is_integer = entry.specials == "integer"
        _require(recipe, "overflow", "an integer element format", holds=is_integer)


def canonical(recipe: Recipe) -> dict[str, str | float]:
    """The fields that cannot matter, as they are by default; numbers, as they are in float32."""
    changes: dict[str, str | float] = {
        name: _in_float32(getattr(recipe, name)) for name in ("scale_floor", "outer_limit")
    }
    if recipe.amax_floor_precision != "float64" or not recipe.amax_floor:
        changes["amax_floor"] = floor = _in_float32(recipe.amax_floor)
        changes["amax_floor_precision"] = recipe.amax_floor_precision if floor else "float32"
    if recipe.scale == "float8_e8m0fnu":
        changes["apply"] = "multiply"  # 2^-e is exact: the quotient is the product
        if recipe.nonfinite == "propagate":
            changes["nonfinite"] = "nan"  # what E8M0 makes of both
        if recipe.zero == "amax_2^-126" and recipe.element_format.max_exponent > 0:
            changes["zero"] = "none"  # both are below the least scale
    if recipe.scale in ("power_of_two", "float8_e8m0fnu"):
        changes["dequantize"] = "multiply"
        changes |= {"apply": "multiply"} if recipe.has_multiplier else {}
    if _is_never_zero(recipe):
        changes["zero"] = "none"
    if _is_never_infinite(recipe):
        changes["infinite_multiplier"] = "input_max" if recipe.scale_from == "max/amax" else "kept"
    if not recipe.element_format.has_negative_zero:
        changes["negative_zero"] = "kept"
    return changes


def _is_never_zero(recipe: Recipe) -> bool:
    """Whether the floors leave nothing for `zero` to replace."""
    amax, scale = _least_amax(recipe), _in_float32(recipe.scale_floor)
    if recipe.zero == "multiplier_0":
        return recipe.outer == "none" and scale > _HALF_OF_LEAST_E4M3
    if recipe.zero == "scale_1" and not recipe.has_multiplier:
        return scale > 0 or (recipe.scale_precision == "float32" and amax > _TINY)
    return amax > 0


def _is_never_infinite(recipe: Recipe) -> bool:
    """Whether the floor keeps every multiplier within float32."""
    amax = _least_amax(recipe)
    is_wide = recipe.scale_precision == "float32"  # and not float16, as the input may be
    return is_wide and amax > 0 and recipe.element_format.max / amax < _SURELY_FINITE


def _least_amax(recipe: Recipe) -> float:
    """The least amax of any tile: 0 if what the floor is depends on the input's dtype."""
    if recipe.amax_floor_precision == "input":
        return 0.0
    is_exact = recipe.amax_floor_precision == "float64"
    return recipe.amax_floor if is_exact else _in_float32(recipe.amax_floor)


def _in_float32(value: float) -> float:
    """The number of the fewest digits that is the same in float32."""
    same = struct.pack("f", value)
    (exact,) = struct.unpack("f", same)
    shorter = (float(f"{exact:.{digits}g}") for digits in range(1, 9))
    return next((number for number in shorter if struct.pack("f", number) == same), exact)
