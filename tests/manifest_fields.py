"""The recipe that the fields of a golden manifest describe: no name decides anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numscope
from numscope.errors import RecipeError, UnsupportedRecipe
from numscope.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What each field of the manifest says, by its value, in the fields of a recipe.
_SAYS: dict[str, dict[Any, dict[str, Any]]] = {
    "family": {"float": {}, "mx": {"nonfinite": "nan"}, "nvfp4": {}},
    "ragged": {"zero_pad": {}, "error": {}, "none": {}},
    "arithmetic": {
        "float32": {},
        "exact": {},  # of powers of two, whose quotients float32 has
        "input": {"scale_precision": "input", "product_precision": "input"},
    },
    "scale_format": {
        "float32": {"scale": "float32"},
        "pow2_float32": {"scale": "power_of_two"},
        "e8m0": {"scale": "float8_e8m0fnu"},
        "e8m0_as_float32": {"scale": "float8_e8m0fnu"},
        "float8_e4m3fn": {"scale": "float8_e4m3fn"},
        "float8_e4m3fn x float32": {"scale": "float8_e4m3fn"},
    },
    "scale_expr": {
        "amax/max": {"scale_from": "amax/max"},
        "1/(max/amax)": {"scale_from": "max/amax", "infinite_multiplier": "kept"},
    },
    "multiplier_expr": {
        "max*(1/amax)": {"scale_from": "max*(1/amax)", "scale_precision": "float32"},
    },
    "scale_precision": {"float32": {}, "float64": {"amax_floor_precision": "float64"}},
    "amax_floor_rounded_to_input_dtype": {False: {}, True: {"amax_floor_precision": "input"}},
    "inf_multiplier": {"input_dtype_max": {"infinite_multiplier": "input_max"}},
    "zero_amax_scale": {
        "none": {"zero": "none"},
        "scale_is_1": {"zero": "scale_1"},
        "amax_is_1": {"zero": "amax_1"},
    },
    "zero_block_floor_log2": {-126: {"zero": "amax_2^-126"}, -10000: {}},
    "inf_amax_multiplier": {0: {}},
    "nan_amax": {"ignore": {}},
    "nonfinite_amax_multiplier": {1: {"nonfinite": "one_if_infinite"}},
    "nonfinite_block": {
        "nan": {"nonfinite": "nan"},
        "scale_exponent_254": {"nonfinite": "largest_if_infinite"},
    },
    "scale_biased_exponent_range": {(1, 254): {"nonfinite": "largest"}},
    "max_exponent": {127: {}},
    "pow2": {
        "none": {},
        "ceil_bits": {"scale_rounding": "up"},
        "ceil_log2": {"scale_rounding": "up"},
        "floor_log2": {"scale_rounding": "down"},
        "nearest_log2": {"scale_rounding": "nearest"},
        "multiplier_floor_bits": {"scale": "power_of_two", "scale_rounding": "up"},
        "multiplier_floor_log2": {"scale": "power_of_two", "scale_rounding": "up"},
        "ocp_floor": {"scale_from": "amax/2^emax", "scale_rounding": "down"},
        "ocp_floor_exact": {"scale_from": "amax/2^emax", "scale_rounding": "down"},
        "ocp_ceil": {"scale_from": "amax/2^emax", "scale_rounding": "up"},
        "ocp_even": {"scale_from": "amax/2^emax", "scale_rounding": "even"},
        "ceil_of_amax/max": {"scale_rounding": "up"},
        "ceil_of_amax*(1/max)": {"scale_from": "amax*(1/max)", "scale_rounding": "up"},
    },
    "apply": {
        "x*m": {"apply": "multiply"},
        "x*(1/s)": {"apply": "multiply"},
        "x/s": {"apply": "divide"},
    },
    "rounding": {
        each: {"rounding": each}
        for each in ("nearest_even", "nearest_away", "nearest_toward_zero", "toward_zero")
    },
    "overflow": {"saturate": {}, "ieee": {"overflow": "ieee"}},
    "negative_zero": {
        each: {"negative_zero": each} for each in ("kept", "positive_if_exact", "positive")
    },
    "element_min": {-2.0: {"overflow": "asymmetric"}},
    "dequant": {"code*s": {}, "code/m": {"dequantize": "divide"}},
}

#: The same for the fields of the two levels of NVFP4.
_LEVELS_SAY: dict[str, dict[Any, dict[str, Any]]] = {
    "style": {"encode": {}, "decode": {"scale_from": "(amax/max)/outer"}},
    "tensor": {
        "global": {"outer": "tensor"},
        "row": {"outer": "row"},
        "none": {"scale_from": "amax/max"},
    },
    "block_scale_format": {"float8_e4m3fn": {}},
    "tensor_scale_format": {"float32": {}},
    "block_scale_max_for_tensor_scale": {448: {}, 256: {"outer_limit": 256.0}},
    "four_over_six": {
        "MAE": {"four_over_six": "absolute"},
        "MSE": {"four_over_six": "squared"},
    },
    "block_scale_expr": {
        "amax*(S_enc*(1/6))": {"scale_from": "amax*((1/outer)*(1/max))"},
        "(amax/6)*S_enc": {"scale_from": "(amax/max)*(1/outer)"},
    },
    "multiplier": {"1/(S_b*(1/S_enc))": {}, "S_enc/S_b": {"apply": "multiply_levels"}},
    "zero_amax_encode": {1: {"zero": "multiplier_0"}},
    "zero_block_scale_multiplier": {"flt_max": {}, 0: {"zero": "multiplier_0"}},
}


def recipe_from_manifest(fields: Mapping[str, Any]) -> numscope.Recipe:
    """The recipe that does what the fields of a manifest's `recipe` say.

    Raises
    ------
    UnsupportedRecipe
        If no recipe does; the message names the field and its value.
    """
    element = FORMATS.get(fields["element"])
    if element is None:
        raise UnsupportedRecipe(f"element {fields['element']!r} is not a number format of numscope")
    if fields["element_max"] != element.max:
        raise UnsupportedRecipe(f"element_max {fields['element_max']} is not {element.max}")
    said: dict[str, Any] = {"nonfinite": "propagate"}  # what IEEE arithmetic does by itself
    for field, meanings in _SAYS.items():
        said |= _meaning(field, fields.get(field), meanings)
    levels = dict(fields["two_level"] or {})
    for field, meanings in _LEVELS_SAY.items():
        said |= _meaning(field, levels.pop(field, None), meanings)
    if levels.pop("block_scale_min", None):
        said["scale_floor"] = fields["two_level"]["block_scale_min"]
    if said.get("scale_from") == "(amax/max)/outer":
        said["apply"] = "multiply_levels"
    numbers = {"element", "element_max", "block_shape", "two_level", "amax_floor", "scale_floor"}
    unknown = sorted((fields.keys() - _SAYS.keys() - numbers) | levels.keys())
    if unknown:
        raise UnsupportedRecipe(f"{unknown[0]} {levels.get(unknown[0], fields.get(unknown[0]))!r}")
    rows, cols = (extent or None for extent in fields["block_shape"])
    floors = {name: fields[name] for name in ("amax_floor", "scale_floor") if fields[name]}
    is_power = said["scale"] in ("power_of_two", "float8_e8m0fnu")
    if is_power and "scale_rounding" not in said:
        raise UnsupportedRecipe(f"scale_format {fields['scale_format']!r} without a rounding")
    try:
        return numscope.Recipe(element.name, (rows, cols), **said | floors)
    except RecipeError as error:
        raise UnsupportedRecipe(str(error)) from error


def _meaning(field: str, value: Any, meanings: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        return meanings[tuple(value) if isinstance(value, list) else value]
    except KeyError:
        raise UnsupportedRecipe(f"{field} {value!r}") from None
