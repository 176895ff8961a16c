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
from numscope.errors import UnsupportedRecipe
from numscope.formats import FORMATS, FloatFormat
from tests.rounding import codes, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

#: Fields that are looked at by themselves, or that say nothing about finite values.
_ELSEWHERE = {
    "element",
    "element_max",
    "block_shape",
    "ragged",
    "pow2",
    "two_level",
    "zero_block_floor_log2",
    "inf_amax_multiplier",
    "nonfinite_amax_multiplier",
    "nonfinite_block",
    "nan_amax",
}

#: What a field may say without changing a bit, in every scale rule.
_COMMON: dict[str, tuple[Any, ...]] = {
    "amax_floor": (0,),
    "scale_floor": (0,),
    "scale_precision": ("float32",),
    "rounding": ("nearest_even",),
    "dequant": ("code*s",),
    "negative_zero": (None, "kept"),
    "multiplier_expr": (None,),
    "scale_biased_exponent_range": (None,),
    "amax_floor_rounded_to_input_dtype": (None,),
    "element_min": (None,),
}

#: The scale rule of the multiplier max/amax: nothing saturates, so `overflow` says nothing.
_MULTIPLIER: dict[str, tuple[Any, ...]] = {
    "family": ("float",),
    "arithmetic": ("float32",),
    "scale_format": ("float32", "pow2_float32"),
    "scale_expr": ("1/(max/amax)",),
    "zero_amax_scale": ("scale_is_1",),
    "apply": ("x*m",),
    "overflow": ("saturate", "ieee"),
    "inf_multiplier": ("input_dtype_max",),
}

#: The scale rule of the OCP specification. 1/s is exact, and a product below float32's smallest
#: normal is nothing in any element format: `exact` arithmetic and both ways of applying the scale
#: agree.
_OCP: dict[str, tuple[Any, ...]] = {
    "family": ("mx",),
    "arithmetic": ("float32", "exact"),
    "scale_format": ("e8m0",),
    "scale_expr": ("amax/max",),
    "zero_amax_scale": ("none",),
    "apply": ("x*(1/s)", "x/s"),
    "overflow": ("saturate",),
    "inf_multiplier": (None,),
    "max_exponent": (None, 127),
}

#: Scale name by the field `pow2`, and what its rule demands of the other fields.
_SCALES: dict[str, tuple[str, dict[str, tuple[Any, ...]]]] = {
    "none": ("float32", _MULTIPLIER),
    "multiplier_floor_bits": ("power_of_two", _MULTIPLIER),
    "ocp_floor": ("float8_e8m0fnu", _OCP),
    "ocp_floor_exact": ("float8_e8m0fnu", _OCP),
}


def recipe_from_manifest(fields: Mapping[str, Any]) -> numscope.Recipe:
    """The recipe that does what the fields of a manifest's `recipe` say, on finite values.

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
    if fields["pow2"] not in _SCALES:
        raise UnsupportedRecipe(f"pow2 {fields['pow2']!r} is not a scale rule of numscope")
    scale, demands = _SCALES[fields["pow2"]]
    if fields["two_level"]:
        raise UnsupportedRecipe("two_level: numscope's tiles have one scale each")
    demands = _COMMON | demands
    for field in sorted((fields.keys() | demands.keys()) - _ELSEWHERE):
        if fields.get(field) not in demands.get(field, (None,)):
            raise UnsupportedRecipe(f"{field} {fields.get(field)!r} with scale {scale}")
    _check_zero_tile(fields, element)
    rows, cols = (extent or None for extent in fields["block_shape"])
    return numscope.Recipe(element.name, (rows, cols), scale)


def _check_zero_tile(fields: Mapping[str, Any], element: FloatFormat) -> None:
    """A zero tile's scale is the least one that E8M0 has."""
    floor = fields.get("zero_block_floor_log2")
    if floor is not None and floor - element.max_exponent > -127:
        raise UnsupportedRecipe(f"zero_block_floor_log2 {floor}")


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
    _check_nonfinite(fields, record["metrics"])
    tensors = read(folder / record["file"], record["keys"].values())
    expected = {name: tensors[key] for name, key in record["keys"].items()}
    x = expected.pop("x")
    if record["dtype"] == "bfloat16":
        x = x.view(ml_dtypes.bfloat16)
    return [
        *_array_differences(numscope.quantize(x, recipe), expected),
        *_metric_differences(x, recipe, record["metrics"]),
    ]


def _check_nonfinite(fields: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
    """Numscope ignores NaN and infinities in amax; many let them spoil the tile."""
    if metrics["nan_in"] and fields.get("nan_amax") != "ignore":
        raise UnsupportedRecipe("NaN in the input is not ignored by amax")
    if metrics["inf_in"]:
        raise UnsupportedRecipe("infinities in the input are not ignored by amax")


def _array_differences(
    found: numscope.Quantized, expected: Mapping[str, NDArray[Any]]
) -> Iterable[str]:
    values, scales = found.values, found.scales
    if "dequant" in expected:
        yield from _unequal("dequant", values, expected["dequant"].reshape(values.shape))
    if "scale" in expected:
        yield from _unequal("scale", scales, expected["scale"].reshape(scales.shape))
    if "multiplier" in expected:
        with np.errstate(divide="ignore"):
            inverse = np.float32(1) / expected["multiplier"]
        yield from _unequal("1/multiplier", scales, inverse.reshape(scales.shape))
    if "scale_codes" in expected:
        found_codes = scales.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
        wanted = expected["scale_codes"].reshape(scales.shape)
        yield from _unequal("scale_codes", found_codes, wanted)
    if "codes" in expected:
        is_number = ~(np.isnan(values) & np.isnan(expected["dequant"].reshape(values.shape)))
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
        "zeros_out": m.zeros + m.underflow_count,
        "zero_code_count": int(np.count_nonzero(q.elements.astype(np.float32) == 0)),
        "nan_in": m.nan_count,
        "inf_in": m.inf_count,
        "nan_out": int(np.count_nonzero(np.isnan(q.values))),
        "inf_out": int(np.count_nonzero(np.isinf(q.values))),
        "underflow_count": m.underflow_count,
        "row_cosine_rows": m.row_count - m.zero_rows,
    }
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
