"""Other projects' results are reproduced, bit for bit.

A selection of the records is in `data/golden` and always checked; the whole set is checked where it
is found: beside the repository in `shared`, or below the folder that NUMSCOPE_SHARED names.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import numscope
from numscope.errors import RecipeError, UnsupportedRecipe
from tests.golden import differences, manifest, read, recipe_from_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    Fields = dict[str, Any]

HERE = Path(__file__).parent
SELECTION = HERE / "data" / "golden"
SHARED = Path(os.environ.get("NUMSCOPE_SHARED") or HERE.parents[1] / "shared") / "golden"

BLOCK: Fields = {
    "family": "float",
    "element": "float8_e4m3fn",
    "element_max": 448.0,
    "block_shape": [1, 128],
    "ragged": "zero_pad",
    "arithmetic": "float32",
    "amax_floor": 0.0,
    "scale_floor": 0.0,
    "scale_format": "float32",
    "scale_expr": "1/(max/amax)",
    "scale_precision": "float32",
    "pow2": "none",
    "zero_amax_scale": "scale_is_1",
    "inf_multiplier": "input_dtype_max",
    "apply": "x*m",
    "rounding": "nearest_even",
    "overflow": "saturate",
    "dequant": "code*s",
    "two_level": None,
}


def records(folder: Path) -> list[Any]:
    if not (folder / "manifest.json").exists():
        return []
    return [pytest.param(record, id=record["id"]) for record in manifest(folder)["cases"]]


@pytest.mark.parametrize("record", records(SELECTION))
def test_the_selection_is_reproduced(record: Fields) -> None:
    assert differences(record, SELECTION) == []


def test_the_whole_set_is_reproduced_where_it_is_supported() -> None:
    if not records(SHARED):
        pytest.skip(f"no golden records in {SHARED}")
    outcomes: Counter[str] = Counter()
    for record in manifest(SHARED)["cases"]:
        try:
            found = differences(record, SHARED)
        except UnsupportedRecipe:
            outcomes["unsupported"] += 1
            continue
        assert not found or record["use"] == "informative", (record["id"], found)
        outcomes["informative" if found else "reproduced"] += 1
    assert outcomes["unsupported"] == 3  # casts of scales that no project quantizes with


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({}, "ling:nonfinite=propagate"),
        ({"nonfinite_amax_multiplier": 1}, "te-block"),
        ({"block_shape": [128, 1], "nonfinite_amax_multiplier": 1}, "te-block:128x1"),
        ({"block_shape": [0, 0], "nonfinite_amax_multiplier": 1}, "te-tensor"),
        ({"pow2": "multiplier_floor_bits"}, "ling:pow2:nonfinite=propagate"),
        ({"element": "float8_e5m2", "element_max": 57344.0}, "e5m2:nonfinite=propagate"),
        ({"rounding": "nearest_away"}, "ling:nonfinite=propagate:rounding=nearest_away"),
        ({"dequant": "code/m"}, "ling:nonfinite=propagate:dequantize=divide"),
    ],
)
def test_fields_become_a_recipe(changes: Fields, written: str) -> None:
    assert recipe_from_manifest(BLOCK | changes) == numscope.recipe(written)


def rule(recipe: numscope.Recipe, like: numscope.Recipe) -> numscope.Recipe | None:
    """A recipe with another's element and tile, if it can have them."""
    try:
        return replace(recipe, element=like.element, tile=like.tile, nonfinite="ignore")
    except RecipeError:
        return None


@pytest.mark.parametrize("name", numscope.recipes())
def test_the_rule_of_every_named_recipe_is_proven_by_a_record(name: str) -> None:
    recipe = numscope.recipe(name)
    recorded = manifest(SELECTION)["recipes"].values()
    proven = [recipe_from_manifest(each["recipe"]) for each in recorded]
    assert rule(recipe, recipe) in [rule(each, recipe) for each in proven]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"element": "float9_e4m4"}, "element"),
        ({"element_max": 240.0}, "element_max"),
        ({"pow2": "truncated"}, "pow2"),
        ({"rounding": "up"}, "rounding"),
        ({"two_level": {"style": "sideways"}}, "style"),
        ({"two_level": {"four_over_six": "MAX"}}, "four_over_six"),
        ({"a field of tomorrow": 1}, "a field of tomorrow"),
        ({"scale_format": "e8m0"}, "scale_format"),  # without a rounding to powers of two
    ],
)
def test_fields_that_no_recipe_has_are_named(change: Fields, message: str) -> None:
    with pytest.raises(UnsupportedRecipe, match=message):
        recipe_from_manifest(BLOCK | change)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("codes", lambda codes: codes ^ 1),
        ("scale", lambda scale: np.nextafter(scale, np.float32(1))),
        ("dequant", lambda values: np.nextafter(values, np.float32(1))),
    ],
)
def test_a_single_wrong_bit_is_a_difference(
    tmp_path: Path, key: str, change: Callable[[Any], Any]
) -> None:
    found = manifest(SELECTION)
    record = next(r for r in found["cases"] if key in r["keys"] and r["metrics"]["count"])
    tensors = read(SELECTION / record["file"], record["keys"].values())
    wrong = tensors[record["keys"][key]]
    wrong.flat[-1] = change(wrong.flat[-1])
    save_file(tensors, tmp_path / record["file"])
    (tmp_path / "manifest.json").write_text((SELECTION / "manifest.json").read_text())
    (difference,) = differences(record, tmp_path)
    assert difference.startswith(f"{key}: 1 of")


def test_a_wrong_sum_is_a_difference() -> None:
    record = next(r for r in manifest(SELECTION)["cases"] if r.get("metrics", {}).get("sum_ee"))
    metrics = record["metrics"] | {"sum_ee": record["metrics"]["sum_ee"] * (1 + 1e-11)}
    (difference,) = differences(record | {"metrics": metrics}, SELECTION)
    assert difference.startswith("sum_ee")
