"""Other projects' results are reproduced, bit for bit.

A selection of the records is in `data/golden` and always checked; the whole set is checked where it
is found: beside the repository in `shared`, or below the folder that NUMSCOPE_SHARED names.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from numscope.errors import UnsupportedRecipe
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
    assert outcomes["reproduced"] >= 160


@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({}, "ling"),
        ({"block_shape": [128, 1]}, "ling:128x1"),
        ({"block_shape": [0, 0]}, "ling:*x*"),
        ({"pow2": "multiplier_floor_bits"}, "float8_e4m3fn:1x128:power_of_two"),
        ({"element": "float8_e5m2", "element_max": 57344.0}, "float8_e5m2:1x128:float32"),
    ],
)
def test_fields_become_a_recipe(changes: Fields, written: str) -> None:
    assert str(recipe_from_manifest(BLOCK | changes)) == written


@pytest.mark.parametrize(
    "change",
    [
        {"element": "mxint8"},
        {"element_max": 240.0},
        {"amax_floor": 1e-4},
        {"scale_floor": 1e-30},
        {"scale_precision": "float64"},
        {"arithmetic": "input"},
        {"pow2": "ceil_log2"},
        {"zero_amax_scale": "none"},
        {"inf_multiplier": None},
        {"apply": "x/s"},
        {"rounding": "nearest_away"},
        {"dequant": "code/m"},
        {"two_level": {"style": "encode"}},
        {"a field of tomorrow": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fields_that_no_recipe_has_are_named(change: Fields) -> None:
    with pytest.raises(UnsupportedRecipe, match=next(iter(change))):
        recipe_from_manifest(BLOCK | change)


@pytest.mark.parametrize("field", ["nan_in", "inf_in"])
def test_what_is_not_finite_is_unsupported_where_amax_would_see_it(field: str) -> None:
    found = manifest(SELECTION)
    record = next(
        r
        for r in found["cases"]
        if "recipe_id" in r and "nan_amax" not in found["recipes"][r["recipe_id"]]["recipe"]
    )
    spoiled = record | {"metrics": record["metrics"] | {field: 1}}
    with pytest.raises(UnsupportedRecipe, match="amax"):
        differences(spoiled, SELECTION)


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
