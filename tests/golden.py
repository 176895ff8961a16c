"""Golden records: what other projects' code made of a tensor, and whether numscope makes the same.

A folder of them holds `manifest.json` and safetensors files. Manifest fields are compared one by
one; no name of a record, recipe or project decides anything.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from safetensors import safe_open

import numscope
from numscope.errors import RecipeError, UnsupportedRecipe
from numscope.formats import FORMATS, FloatFormat
from tests.rounding import codes, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

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
    "multiplier_expr": {"max*(1/amax)": {"scale_from": "max*(1/amax)", "scale_precision": "float32"}},
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
    "block_scale_max_for_tensor_scale": {448: {}},
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
    floors = {
        name: fields[name] for name in ("amax_floor", "scale_floor") if fields[name]
    }
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


def differences(record: Mapping[str, Any], folder: Path) -> list[str]:
    """How numscope departs from a record of the manifest in `folder`: empty if it does not.

    Raises
    ------
    UnsupportedRecipe
        If numscope cannot express what the record is about.
    """
    if record["kind"] == "block":
        return _block_differences(record, folder)
    if record["kind"] == "element_table":
        return list(_element_differences(record, folder))
    raise UnsupportedRecipe(f"records of kind {record['kind']!r} have no recipe fields")


def _block_differences(record: Mapping[str, Any], folder: Path) -> list[str]:
    fields = manifest(folder)["recipes"][record["recipe_id"]]["recipe"]
    recipe = recipe_from_manifest(fields)
    tensors = read(folder / record["file"], record["keys"].values())
    expected = {name: tensors[key] for name, key in record["keys"].items()}
    x = expected.pop("x")
    if record["dtype"] == "bfloat16":
        x = x.view(ml_dtypes.bfloat16)
    return [
        *_array_differences(numscope.quantize(x, recipe), expected),
        *_metric_differences(x, recipe, record["metrics"]),
    ]


def _array_differences(
    found: numscope.Quantized, expected: Mapping[str, NDArray[Any]]
) -> Iterable[str]:
    values, scales = found.values, found.scales
    if "dequant" in expected:
        yield from _unequal("dequant", values, expected["dequant"].reshape(values.shape))
    if "scale" in expected:
        yield from _unequal("scale", scales, expected["scale"].reshape(scales.shape))
    if "multiplier" in expected:
        wanted = expected["multiplier"].reshape(scales.shape)
        yield from _unequal("multiplier", found.multipliers, wanted)
    if "block_scale" in expected:
        tile_scales = scales if found.tile_scales is None else found.tile_scales
        wanted = expected["block_scale"].reshape(scales.shape)
        yield from _unequal("block_scale", tile_scales, wanted)
    if "tensor_scale" in expected:
        if found.outer_scales is None:
            yield "tensor_scale: there is none"
        else:
            outer = np.broadcast_to(found.outer_scales, expected["tensor_scale"].shape)
            yield from _unequal("tensor_scale", outer, expected["tensor_scale"])
    if "scale_codes" in expected:
        tile_scales = scales if found.tile_scales is None else found.tile_scales
        dtype = np.dtype(getattr(ml_dtypes, found.recipe.scale))
        found_codes = tile_scales.astype(dtype).view(np.uint8)
        wanted = expected["scale_codes"].reshape(scales.shape)
        is_number = ~(np.isnan(tile_scales) & np.isnan(wanted.view(dtype).astype(np.float32)))
        yield from _unequal("scale_codes", found_codes[is_number], wanted[is_number])
    if "codes" in expected:
        is_number = ~(np.isnan(values) & np.isnan(expected["dequant"].reshape(values.shape)))
        if found.recipe.element_format.has_nan:
            is_number &= ~np.isnan(found.elements.astype(np.float32))
        wanted = expected["codes"].reshape(values.shape)
        yield from _unequal("codes", found.elements.view(np.uint8)[is_number], wanted[is_number])


def _unequal(name: str, found: NDArray[Any], expected: NDArray[Any]) -> Iterable[str]:
    """How many items differ, and the first that does. NaN equals NaN, and -0 equals +0."""
    same = (found == expected) | ((found != found) & (expected != expected))  # noqa: PLR0124
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        yield (
            f"{name}: {np.count_nonzero(~same)} of {same.size} differ,"
            f" at {at} {found[at]} is not {expected[at]}"
        )


def _metric_differences(
    x: NDArray[Any], recipe: numscope.Recipe, expected: Mapping[str, Any]
) -> Iterable[str]:
    m = numscope.measure(x, recipe)
    q = numscope.quantize(x, recipe)
    counts: dict[str, float] = {
        "count": m.count,
        "zeros_in": m.zeros,
        "zeros_out": m.zeros_after_count,
        "nan_in": m.nan_count,
        "inf_in": m.inf_count,
        "nan_out": int(np.count_nonzero(np.isnan(q.values))),
        "inf_out": int(np.count_nonzero(np.isinf(q.values))),
        "underflow_count": m.underflow_count,
        "row_cosine_rows": m.row_count - m.zero_rows,
    }
    if recipe.element_format.has_nan or not expected["nan_out"]:  # else NaN has anybody's code
        counts["zero_code_count"] = int(np.count_nonzero(q.elements.astype(np.float32) == 0))
    sums = {
        "sum_xx": m.sum_xx,
        "sum_yy": m.sum_yy,
        "sum_xy": m.sum_xy,
        "sum_ee": m.sum_ee,
        "max_abs_err": m.max_abs_error,
        "sqnr_db": m.sqnr_db,
    }
    cosines = {
        "cosine_global": m.cosine,
        "row_cosine_mean": m.distortion,
        "row_cosine_min": m.min_row_cosine,
    }
    for found, tolerance in ((counts, 0.0), (sums, 1e-12), (cosines, 1e-9)):
        for name, value in found.items():
            wanted = expected.get(name)
            if wanted is not None and not math.isclose(value, wanted, rel_tol=tolerance):
                yield f"{name}: {value} is not {wanted}"


def _element_differences(record: Mapping[str, Any], folder: Path) -> Iterable[str]:
    """How rounding without a scale departs from a table of codes."""
    element = FORMATS.get(record["element"])
    if element is None or element.is_scale_only:
        raise UnsupportedRecipe(f"element {record['element']!r} holds no elements in numscope")
    tensors = read(folder / record["file"], record["keys"])
    if record["table"] == "decode":
        (expected,) = tensors.values()
        elements = np.arange(expected.size, dtype=np.uint8).view(element.dtype)
        yield from _unequal("decode", elements.astype(np.float32), expected)
        return
    inputs = [key for key in tensors if key.rsplit("/", 1)[-1] == "x"]
    if inputs:
        x = tensors.pop(inputs[0])
    else:
        x = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
    is_number = ~np.isnan(x)
    found = codes(rounded(x[is_number], element), element)
    for key, expected in tensors.items():
        if record["table"] != "round" or key.endswith(_NEAREST_EVEN):
            yield from _unequal(key, found, expected[is_number])


#: How the arrays of a table `round` end that hold saturating rounding to nearest even.
_NEAREST_EVEN = ("/ml_dtypes_clipped", "_satfinite", "_rne_sat")


@lru_cache(maxsize=8)
def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the folder."""
    with (folder / "manifest.json").open() as file:
        return dict(json.load(file))


def read(path: Path, keys: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Tensors of a safetensors file by key."""
    with safe_open(path, framework="numpy") as file:
        return {key: file.get_tensor(key) for key in keys}
