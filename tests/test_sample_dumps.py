"""The sample dumps: made by `numscope.capture`, small, right to the last bit, and not dull."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import numscope
from numscope import dumps, tables
from numscope.analysis import analyze
from numscope.tables import LayerRow
from tests import reference
from tests.agreement import assert_agree, record
from tests.examples import SAMPLE_DUMPS

LAYERS = (0, 4, 8, 12, 16)
FORGOTTEN = 436  # the step after the accident

Curves = dict[tuple[str, str], dict[int, dict[int, LayerRow]]]


@pytest.fixture(scope="module")
def curves() -> Curves:
    """By kind and tile, by layer, by step."""
    found: Curves = defaultdict(lambda: defaultdict(dict))
    for row in tables.merge_layers(analyze(str(SAMPLE_DUMPS))):
        assert row.layer is not None
        assert row.step is not None
        found[row.kind, row.tile][row.layer][row.step] = row
    return found


def test_they_are_files_of_a_capture() -> None:
    scan = dumps.scan(SAMPLE_DUMPS)
    assert not scan.problems
    assert {ref.layout for ref in scan} == {"numscope"}
    assert {ref.layer for ref in scan} == set(LAYERS)
    assert {(ref.kind, ref.shape, ref.dtype) for ref in scan} == {
        ("activation", (128, 128), "bfloat16"),
        ("gradient", (128, 192), "bfloat16"),
    }
    assert len({ref.step for ref in scan}) >= 16
    assert all(ref.step is not None and ref.tokens == 512 * ref.step for ref in scan)


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE_DUMPS.iterdir()) < 8_000_000


@pytest.mark.parametrize("step", [0, FORGOTTEN, 600])
def test_they_are_measured_as_the_reference_does(step: int) -> None:
    recipe = numscope.recipe("ling")
    refs = [ref for ref in dumps.scan(SAMPLE_DUMPS) if ref.step == step]
    assert len(refs) == 2 * len(LAYERS)
    for ref in refs:
        x = dumps.load(ref)
        for each in (recipe, recipe.transpose):
            expected = reference.measure(x, each)
            found = numscope.measure(x, each)
            assert_agree(record(found), {name: expected[name] for name in record(found)})


def test_tiles_of_columns_lose_far_more_than_tiles_of_rows(curves: Curves) -> None:
    for layer in LAYERS:
        rows, columns = (curves["gradient", tile][layer].values() for tile in ("1x128", "128x1"))
        assert max(row.underflow for row in rows) < 0.01
        assert max(row.underflow for row in columns) > 0.2
        assert min(row.distortion for row in columns) < 0.99


def test_the_accident_is_seen(curves: Curves) -> None:
    for by_step in curves["gradient", "128x1"].values():
        steps = sorted(by_step)
        place = steps.index(FORGOTTEN)
        before, after, later = (
            by_step[step].underflow for step in (steps[place - 1], FORGOTTEN, 600)
        )
        assert after < before / 4
        assert later > 2 * after


def test_layers_differ(curves: Curves) -> None:
    first, last = (
        np.array([row.underflow for _, row in sorted(curves["gradient", "128x1"][layer].items())])
        for layer in (0, 16)
    )
    assert np.abs(first - last).max() > 0.05


def test_masked_tokens_have_gradients_of_zero(curves: Curves) -> None:
    for layer, by_step in curves["gradient", "1x128"].items():
        assert all(row.zero_rows > (0 if layer < 16 else 10) for row in by_step.values())


def test_there_are_outlier_channels() -> None:
    for ref in dumps.scan(SAMPLE_DUMPS):
        if ref.kind == "activation":
            channels = np.abs(dumps.load(ref).astype(np.float32)).max(axis=0)
            assert channels.max() > 3 * np.median(channels)
