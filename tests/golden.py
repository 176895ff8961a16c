"""Golden records: what other projects' code made of a tensor, and whether numscope makes the same.

A folder of them holds `manifest.json` and safetensors files. Manifest fields are compared one by
one; no name of a record, recipe or project decides anything.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from safetensors import safe_open

import numscope
from numscope import scales
from numscope.errors import UnsupportedRecipe
from numscope.formats import FORMATS
from tests.manifest_fields import recipe_from_manifest
from tests.rounding import codes, rounded
from tests.scale_tables import scale_rule
from tests.translations import COARSE, COUNTED_IN_CODES, TRANSLATIONS

__all__ = ["differences", "manifest", "read", "recipe_from_manifest"]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray


def differences(record: Mapping[str, Any], folder: Path) -> list[str]:
    """How numscope departs from a record of the manifest in `folder`: empty if it does not.

    Raises
    ------
    UnsupportedRecipe
        If numscope cannot express what the record is about.
    """
    if record["kind"] == "block":
        return _block_differences(record, folder)
    return list(_OTHERS[record["kind"]](record, folder))


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
        *_peer_differences(x, recipe, record),
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
        "zeros_out": m.zeros + m.underflow_count - m.overflow_zeros,
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


def _peer_differences(
    x: NDArray[Any], recipe: numscope.Recipe, record: Mapping[str, Any]
) -> Iterable[str]:
    """How the peers' own metrics depart from what follows from the record of `measure`."""
    m = numscope.measure(x, recipe)
    if m.nan_count or m.inf_count or m.overflow_count:
        return  # a peer's mean of NaN is NaN
    zeros_after = m.zeros + m.underflow_count
    zero_codes = record["metrics"].get("zero_code_count", zeros_after)
    for name, wanted in record["peer_metrics"].items():
        if name in COUNTED_IN_CODES and zero_codes != zeros_after:
            continue  # elements that are not zero under a scale that is
        found = TRANSLATIONS[name](m)
        relative, absolute = (1e-5, 1e-9) if name in COARSE else (1e-9, 1e-15)
        if wanted is not None and not math.isclose(
            found, wanted, rel_tol=relative, abs_tol=absolute
        ):
            yield f"{name}: {found} is not {wanted}"


def _percentage_differences(record: Mapping[str, Any], folder: Path) -> Iterable[str]:
    """How underflow departs from the percentages of a peer's function."""
    (x,) = read(folder / record["file"], ["x"]).values()
    if record["dtype"] == "bfloat16":
        x = x.view(ml_dtypes.bfloat16)
    recipes = manifest(folder)["recipes"]
    for granularity, wanted in record["expected"].items():
        named = recipes.get(record["recipe"][granularity])
        if named:
            recipe = recipe_from_manifest(named["recipe"])
        else:  # the same rule as its neighbour's, with another tile
            recipe = recipe_from_manifest(recipes[record["recipe"]["tilewise"]]["recipe"])
            recipe = replace(recipe, tile=(128, 128))
        found = TRANSLATIONS["atorch_underflow_pct"](numscope.measure(x, recipe))
        if not math.isclose(found, wanted, rel_tol=1e-12):
            yield f"{granularity}: {found} is not {wanted}"


def _scale_differences(record: Mapping[str, Any], folder: Path) -> Iterable[str]:
    """How scales depart from a table of amax and what a project makes of it."""
    key = record["keys"]["expected"]
    tensors = read(folder / record["file"], [record["keys"]["amax"], key])
    expected, amax = tensors[key], tensors[record["keys"]["amax"]]
    is_infinite = np.isinf(amax)
    special = is_infinite * np.uint8(scales.HAS_INFINITY)
    tiles = scales.Magnitudes(np.where(is_infinite, np.float32(0), amax), special)
    recipe, dtype = scale_rule(key)
    found = scales.tile_scales(tiles, recipe, dtype)
    if "log2f" in record["formula"]:
        is_sure = ~_is_near_a_power(tiles, recipe, dtype)
        found = replace(found, scales=found.scales[is_sure], multipliers=found.multipliers[is_sure])
        expected = expected[is_sure]
    if key.endswith("_multiplier"):
        yield from _unequal(key, found.multipliers, expected)
    elif expected.dtype == np.uint8:
        codes_ = found.scales.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
        yield from _unequal(key, codes_, expected)
    else:
        yield from _unequal(key, found.scales, expected)


def _is_near_a_power(
    tiles: scales.Magnitudes, recipe: numscope.Recipe, dtype: np.dtype[Any]
) -> NDArray[np.bool_]:
    """Where a scale is no power of two, but its logarithm rounded to float32 is an integer.

    A project that takes log2 in float32 is off by one exponent there.
    """
    free = replace(
        recipe, scale="float32", scale_rounding="none", zero="none", nonfinite="propagate"
    )
    with np.errstate(divide="ignore"):
        formed = scales.tile_scales(tiles, free, dtype)
        exact = np.log2(
            (formed.multipliers if free.has_multiplier else formed.scales).astype(float)
        )
    whole: NDArray[np.float64] = np.rint(exact)
    return np.asarray((exact != whole) & (exact.astype(np.float32) == whole))


def _element_differences(record: Mapping[str, Any], folder: Path) -> Iterable[str]:
    """How rounding without a scale departs from a table of codes."""
    element = FORMATS.get(record["element"])
    if element is None:
        raise UnsupportedRecipe(f"element {record['element']!r} is not a number format of numscope")
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
    for key, expected in tensors.items():
        rounding = _ROUNDINGS.get(key.rsplit("/", 1)[-1])
        if record["table"] == "exhaustive_bf16":
            rounding = "nearest_even"
        if rounding:
            found = codes(rounded(x[is_number], element, rounding), element)
            yield from _unequal(key, _unsigned(found, key), _unsigned(expected[is_number], key))


def _unsigned(found: NDArray[np.uint8], key: str) -> NDArray[np.uint8]:
    """The codes as a table holds them that drops the sign of zeros."""
    return np.where(found == 8, np.uint8(0), found) if "deepgemm" in key else found


#: By how the arrays of a table `round` end: the rounding of those that saturate.
_ROUNDINGS = {
    "ml_dtypes_clipped": "nearest_even",
    "cuda_satfinite": "nearest_even",
    "gfloat_rne_sat": "nearest_even",
    "gfloat_away_sat": "nearest_away",
    "gfloat_to_zero_sat": "toward_zero",
    "deepgemm_ties_to_zero": "nearest_toward_zero",
}

_OTHERS = {
    "element_table": _element_differences,
    "scale_table": _scale_differences,
    "peer_metric": _percentage_differences,
}


@lru_cache(maxsize=8)
def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the folder."""
    with (folder / "manifest.json").open() as file:
        return dict(json.load(file))


def read(path: Path, keys: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Tensors of a safetensors file by key."""
    with safe_open(path, framework="numpy") as file:
        return {key: file.get_tensor(key) for key in keys}
