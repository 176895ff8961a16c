"""Every tensor of the dumps that other tools wrote is found, named and read as it should be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import numscope
from numscope import dumps
from numscope.errors import DumpError
from tests.dumps_shared import Expected, dumps_folder, expectations, facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYOUTS = {
    "hooks_safetensors": "generic",
    "hooks_npy": "generic",
    "hooks_npz": "generic",
    "hooks_torch": "generic",
    "megatron": "megatron",
    "transformer_engine": "transformer_engine",
    "msprobe": "msprobe",
    "sglang_miles": "sglang",
    "atorch": "atorch",
    "hf_debugger": "hugging_face",
}
NPY_DTYPE = "bfloat16"  # for the files that hold bit patterns as integers
TRAP = Path("/tmp/pwned_by_pickle")  # noqa: S108 -- what the hostile files would write


@pytest.fixture(autouse=True)
def _nothing_is_executed() -> Iterator[None]:
    assert not TRAP.exists()
    yield
    assert not TRAP.exists()


@pytest.mark.parametrize("line", expectations("edge"), ids=str)
def test_values_of_unusual_files(line: Expected) -> None:
    _check_values(line)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_every_layout(layout: str) -> None:
    for line in _lines(layout):
        _check_values(line)


def _lines(layout: str) -> list[Expected]:
    lines = expectations(layout)
    if not lines:
        pytest.skip("this dump is not here")
    return lines


def _check_values(line: Expected) -> None:
    with dumps.open_file(line.folder, line.path, npy_dtype=NPY_DTYPE) as dump:
        array = dump[line.key]
        values = array.read(0, array.rows)
    assert list(array.shape) == line.facts["shape"]
    assert str(array.dtype) in (line.facts["dtype"], line.facts.get("stored_as"))
    facts = facts_of(values)
    assert facts["amax"] == line.facts["amax"]
    assert facts["zeros"] == line.facts["zeros"]
    assert facts["zero_rows"] == line.facts.get("zero_rows", facts["zero_rows"])
    assert math.isclose(facts["sum_squares"], line.facts["sum_squares"], rel_tol=1e-12)
    for tile, count in line.facts["underflow"].items():
        if tile in line.facts.get("scale_overflow_tiles", ()):
            continue  # counted there with an infinite multiplier, which `ling` caps
        sums = numscope.measure(values, numscope.recipe(f"ling:{tile}"))
        assert (tile, sums.underflow_count) == (tile, count)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_identities_of_every_layout(layout: str) -> None:
    lines = _lines(layout)
    scan = dumps.scan(lines[0].folder, npy_dtype=NPY_DTYPE)
    found = {(ref.path, ref.key): ref for ref in (*scan, *scan.left_out)}
    for line in lines:
        ref = found[line.path, line.key]
        assert ref.layout == LAYOUTS[layout]
        for name in ("step", "rank", "microbatch", "layer", "module", "kind"):
            if name == "rank" and line.facts[name] is None:
                continue  # not in the name, but perhaps in the metadata
            expected = None if line.facts[name] == "other" else line.facts[name]
            assert (str(line), name, getattr(ref, name)) == (str(line), name, expected)
        assert (ref.stage is not None) >= line.facts["layer_is_stage_local"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_of_a_sound_dump_is_reported_as_missing(layout: str) -> None:
    folder = _lines(layout)[0].folder
    failures = [
        problem for problem in dumps.scan(folder, npy_dtype=NPY_DTYPE).problems if problem.failure
    ]
    assert all("is the same tensor as" in problem.message for problem in failures)
    assert not failures or layout == "hooks_npy"  # which holds the same tensors in three forms


def test_local_layers_become_those_of_the_model() -> None:
    lines = _lines("megatron")
    scan = dumps.scan(lines[0].folder, layers_per_stage=9)
    layers = {(ref.path, ref.key): ref.layer for ref in scan}
    for line in lines:
        assert layers[line.path, line.key] == line.facts.get("global_layer")


def test_layers_that_count_from_one_become_those_of_the_model() -> None:
    lines = _lines("transformer_engine")
    for offset in (-1, {"transformer_engine": -1}):
        scan = dumps.scan(lines[0].folder, layer_offset=offset)
        layers = {ref.path: ref.layer for ref in scan}
        assert all(layers[line.path] == line.facts["global_layer"] for line in lines)


@pytest.mark.parametrize("line", expectations("edge", "others"), ids=str)
def test_unusual_damaged_and_hostile_files(line: Expected) -> None:
    outcome, message, is_read = line.facts["outcome"], "", True
    try:
        with dumps.open_file(line.folder, line.path) as dump:
            for array in dump.values():
                array.read(0, min(array.rows, 4), 0, min(array.cols, 4))
            if line.key:
                is_read = line.key in dump
                message = "".join(item.message for item in dump.remarks if item.key == line.key)
    except DumpError as error:
        message, is_read = str(error), False
    assert "\n" not in message
    if outcome == "reject":
        assert message
        assert not is_read
    elif outcome in ("ok", "skip"):
        assert not message
    elif outcome == "opaque" and line.key:
        assert not is_read


def test_one_line_for_each_file_of_the_unusual_ones_that_is_refused() -> None:
    scan = dumps.scan(dumps_folder() / "edge")
    failures = {problem.where: problem.message for problem in scan.problems if problem.failure}
    for line in expectations("edge", "others"):
        if line.facts["outcome"] == "reject":
            where = f"{line.path}:{line.key[0]}" if line.key else line.path
            assert failures[where]
    assert not any("\n" in message for message in failures.values())
