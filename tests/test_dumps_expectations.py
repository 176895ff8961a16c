"""Every tensor of the shared dumps is found, named and read as their writers say."""

from __future__ import annotations

import math

import pytest

from numscope import dumps
from numscope.errors import DumpError
from tests.dumps_shared import Expected, expectations, facts_of

LAYOUTS = ("hooks_safetensors", "hooks_npy")
NPY_DTYPE = "bfloat16"  # for the files that hold bit patterns as integers


def _edge(part: str, *folders: str) -> list[Expected]:
    lines = expectations("edge", part)
    return [line for line in lines if line.path.startswith(folders) and ".npz" not in line.path]


@pytest.mark.parametrize("line", _edge("entries", "safetensors/", "numpy/"), ids=str)
def test_values_of_unusual_files(line: Expected) -> None:
    _check_values(line)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_every_layout(layout: str) -> None:
    lines = expectations(layout)
    if not lines:
        pytest.skip("the shared dumps are not here")
    for line in lines:
        _check_values(line)


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_identities_of_every_layout(layout: str) -> None:
    lines = expectations(layout)
    if not lines:
        pytest.skip("the shared dumps are not here")
    scan = dumps.scan(lines[0].folder, npy_dtype=NPY_DTYPE)
    found = {(ref.path, ref.key): ref for ref in (*scan, *scan.duplicates)}
    for line in lines:
        ref = found[line.path, line.key]
        for name in ("step", "rank", "microbatch", "layer", "module", "kind"):
            if name == "rank" and line.facts[name] is None:
                continue  # not in the name, but perhaps in the metadata
            assert (str(line), name, getattr(ref, name)) == (str(line), name, line.facts[name])


@pytest.mark.parametrize("line", _edge("others", "safetensors/", "numpy/"), ids=str)
def test_damaged_files_are_refused_in_one_line(line: Expected) -> None:
    outcome, message = line.facts["outcome"], ""
    try:
        with dumps.open_file(line.folder, line.path) as dump:
            for array in dump.values():
                array.read(0, min(array.rows, 4))
    except DumpError as error:
        message = str(error)
    assert outcome in (("reject", "either") if message else ("ok", "either", "skip"))
    assert "\n" not in message
