"""Rounding at random: unbiased, the same for whoever computes it, and never past a neighbour."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numscope
from numscope import Recipe, panels, streaming
from numscope.engines import Threads
from numscope.formats import FORMATS
from tests.agreement import assert_agree, record
from tests.rounding import rounded
from tests.strategies import ELEMENTS, tensors
from tests.test_measure import small_panels

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANDOM = Recipe(rounding="stochastic")
seeds = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("share", [1 / 64, 0.25, 0.5, 0.9])
def test_the_mean_is_unbiased(element: str, share: float) -> None:
    entry = FORMATS[element]
    low, unit = entry.min_normal, entry.min_subnormal
    v = np.full(200_000, low + share * unit, np.float32)
    found = (rounded(v, entry, "stochastic") - np.float32(low)) / np.float32(unit)
    assert set(np.unique(found)) == {0.0, 1.0}
    sigma = (share * (1 - share) / v.size) ** 0.5
    assert found.mean() == pytest.approx(share, abs=5 * sigma)


@pytest.mark.parametrize("element", ELEMENTS)
def test_what_is_below_every_element_is_sometimes_kept(element: str) -> None:
    entry = FORMATS[element]
    v = np.full(100_000, entry.min_subnormal / 8, np.float32)
    assert rounded(v, entry, "stochastic").mean() == pytest.approx(v[0], rel=0.1)


@given(tensors(is_finite=False), seeds)
def test_the_result_is_a_neighbour(x: NDArray[Any], seed: int) -> None:
    down = numscope.quantize(x, Recipe(rounding="toward_zero")).values
    found = numscope.quantize(x, replace(RANDOM, seed=seed))
    with np.errstate(over="ignore"):
        units = np.abs(found.values - down) / found.scales.max(initial=1)
    kept = np.isfinite(found.values) & np.isfinite(down)
    assert (np.abs(found.values[kept]) >= np.abs(down[kept])).all()
    assert (units[kept] <= 32 * (1 + 1e-6)).all()  # the largest unit of E4M3


@given(tensors(is_finite=False), seeds, st.sampled_from(ELEMENTS))
def test_panels_and_threads_change_no_bit(x: NDArray[Any], seed: int, element: str) -> None:
    recipe = Recipe(element, (3, 5), rounding="stochastic", seed=seed)
    source = panels.InMemory(x)
    whole = streaming.measure(source, [recipe])
    with small_panels(), Threads(2) as engine:
        alone = streaming.measure(source, [recipe])
        assert repr(streaming.measure(source, [recipe], engine.map)) == repr(alone)
    assert_agree(record(alone[0]), record(whole[0]))


@given(tensors(), seeds)
def test_measure_and_quantize_roll_the_same_dice(x: NDArray[Any], seed: int) -> None:
    recipe = replace(RANDOM, seed=seed)
    y = numscope.quantize(x, recipe).values.astype(np.float64)
    kept = np.isfinite(y)
    errors = np.abs(x.astype(np.float64) - y)[kept]
    assert numscope.measure(x, recipe).max_abs_error == errors.max(initial=0)


def test_other_seeds_and_places_roll_other_dice() -> None:
    x = np.full((64, 64), 1.03, np.float32)
    x[:, -1] = 448
    elements = [
        numscope.quantize(x, replace(RANDOM, tile=(1, None), seed=seed)).elements.view(np.uint8)
        for seed in (0, 1)
    ]
    assert 0.2 < (elements[0] != elements[1]).mean() < 0.6
    rows = elements[0][:, :-1]
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert len(np.unique(rows, axis=1).T) == rows.shape[1]
