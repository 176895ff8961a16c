"""What `measure` reports: it agrees with the definitions, and parts add up to the whole."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numscope
from numscope import ErrorSums, Recipe, extremes, panels, streaming
from numscope.engines import Threads
from numscope.errors import ArrayError
from numscope.measure import added
from tests import reference
from tests.agreement import assert_agree, ratios, record
from tests.strategies import ORDINARY, detailed_recipes, recipes, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ABOUT_ROWS = {
    "row_count",
    "zero_rows",
    "flushed_rows",
    "sum_row_cosine",
    "min_row_cosine",
    "distortion",
}


@contextmanager
def small_panels() -> Iterator[None]:
    """Panels so small that a tensor of some rows takes several strips, panels and reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "PANEL_ROWS", 4)
        patch.setattr(panels, "PANEL_COLS", 16)
        patch.setattr(panels, "PANEL_VALUES", 256)
        patch.setattr(panels, "PANELS_PER_STRIP", 3)
        patch.setattr(panels, "READ_BYTES", 1000)
        yield


@given(tensors(is_finite=False), detailed_recipes())
def test_agrees_with_the_reference(x: NDArray[Any], recipe: Recipe) -> None:
    found = numscope.measure(x, recipe)
    assert_agree(record(found) | ratios(found), reference.measure(x, recipe))


@given(tensors(is_finite=False), detailed_recipes())
def test_small_panels_agree_with_the_reference(x: NDArray[Any], recipe: Recipe) -> None:
    with small_panels():
        found = numscope.measure(x, recipe)
    assert_agree(record(found) | ratios(found), reference.measure(x, recipe))


@given(tensors(is_finite=False), detailed_recipes())
def test_agrees_with_quantize(x: NDArray[Any], recipe: Recipe) -> None:
    found = numscope.measure(x, recipe)
    finite = np.isfinite(reference.to_float32(x))
    y = numscope.quantize(x, recipe).values
    assert found.overflow_count == np.count_nonzero(finite & ~np.isfinite(y))
    finite &= np.isfinite(y)
    a, b = x[finite].astype(np.float64), y[finite].astype(np.float64)
    assert found.underflow_count == np.count_nonzero((a != 0) & (b == 0))
    assert found.max_abs_error == np.abs(a - b).max(initial=0)
    assert found.sum_ee == pytest.approx(math.fsum((a - b) ** 2), rel=1e-12, abs=0)


@given(tensors(is_finite=False), recipes(), st.data())
def test_parts_add_up_to_the_whole(x: NDArray[Any], recipe: Recipe, data: st.DataObject) -> None:
    rows = x.shape[0]
    height = min(recipe.tile[0] or rows, rows)
    cuts = data.draw(st.sets(st.integers(0, rows // height)))
    parts = np.split(x, [cut * height for cut in sorted(cuts)])
    total = reduce(add, (numscope.measure(part, recipe) for part in parts))
    assert_agree(record(total), record(numscope.measure(x, recipe)))


@given(tensors(is_finite=False))
def test_nothing_adds_nothing(x: NDArray[Any]) -> None:
    found = numscope.measure(x, Recipe())
    assert_agree(record(found + ErrorSums()), record(found))
    assert_agree(record(ErrorSums() + found), record(found))


def test_parts_are_added_from_first_to_last() -> None:
    parts = [
        ErrorSums(count=1, sum_xx=sum_xx, amax=amax, scale_min=scale)
        for sum_xx, amax, scale in ((1e16, 3.0, math.nan), (1.0, 5.0, 0.25), (1.0, 4.0, 0.125))
    ]
    whole = added(parts)
    assert whole == reduce(add, parts)
    assert (whole.count, whole.sum_xx, whole.amax, whole.scale_min) == (3, 1e16, 5.0, 0.125)


@given(tensors(is_finite=False), st.lists(detailed_recipes(), min_size=2, max_size=5))
def test_threads_change_no_bit(x: NDArray[Any], several: list[Recipe]) -> None:
    source = panels.InMemory(x)
    with small_panels(), Threads(2) as engine:
        assert repr(streaming.measure(source, several, engine.map)) == repr(
            streaming.measure(source, several)
        )


@given(tensors(is_finite=False), st.lists(detailed_recipes(), min_size=2, max_size=5))
def test_company_changes_no_bit(x: NDArray[Any], several: list[Recipe]) -> None:
    together = streaming.measure_array(x, several)
    assert repr(together) == repr([numscope.measure(x, recipe) for recipe in several])


@given(
    tensors(kinds=ORDINARY, dtypes=[np.dtype(np.float32)]),
    recipes(),
    st.integers(-30, 30),
)
def test_powers_of_two_change_no_ratio(x: NDArray[Any], recipe: Recipe, k: int) -> None:
    scaled = numscope.measure(np.ldexp(x, k), recipe)
    expected = numscope.measure(x, recipe)
    assert_agree(ratios(scaled), ratios(expected), besides={"mse"})


@given(tensors(is_finite=False), recipes())
def test_the_transpose_has_column_tiles(x: NDArray[Any], recipe: Recipe) -> None:
    turned = numscope.measure(x.T, recipe.transpose)
    expected = numscope.measure(x, recipe)
    assert_agree(record(turned), record(expected), besides=ABOUT_ROWS)
    assert_agree(ratios(turned), ratios(expected), besides=ABOUT_ROWS)


@given(tensors(is_finite=False), recipes())
def test_ratios_keep_within_their_range(x: NDArray[Any], recipe: Recipe) -> None:
    found = ratios(numscope.measure(x, recipe))
    for name in ("underflow", "underflow_nonzero", "zeros_after", "saturated", "distortion"):
        assert math.isnan(found[name]) or 0 <= found[name] <= 1, name
    assert math.isnan(found["cosine"]) or 0 <= found["cosine"] <= 1 + 1e-15


@given(tensors(is_finite=False, max_rows=12, max_cols=40), recipes())
def test_values_that_are_not_finite_count_as_zeros_elsewhere(
    x: NDArray[Any], recipe: Recipe
) -> None:
    blanked = np.where(np.isfinite(x), x, 0).astype(x.dtype)
    found = record(numscope.measure(x, recipe))
    expected = record(numscope.measure(blanked, recipe))
    assert found["zeros"] + found["nan_count"] + found["inf_count"] == expected["zeros"]
    assert_agree(found, expected, besides={"zeros", "nan_count", "inf_count"})


def test_a_mean_over_tokens_shows_what_one_cosine_hides() -> None:
    x = np.full((4, 128), 1e-6, np.float32)
    x[0] = 1
    found = numscope.measure(x, Recipe(tile=(4, 1)))
    assert (found.underflow, found.flushed_rows) == (0.75, 3)
    assert found.distortion == pytest.approx(0.25, rel=1e-15)
    assert found.cosine == pytest.approx(1, abs=1e-11)


def test_zero_rows_are_left_out_of_the_mean() -> None:
    x = np.ones((4, 8), np.float32)
    x[1:] = 0
    found = numscope.measure(x, Recipe())
    assert (found.row_count, found.zero_rows, found.sum_row_cosine) == (4, 3, 1.0)
    assert found.distortion == 1.0


def test_gradients_whose_squares_vanish_in_float32_are_measured() -> None:
    x = np.array([[1e-30, 3e-31, -7e-31]], np.float32)
    found = numscope.measure(x, Recipe())
    assert found.sum_xx == pytest.approx(1.58e-60, rel=1e-6)
    assert 25 < found.sqnr_db < 60


@given(tensors(is_finite=False), recipes())
def test_the_order_in_memory_changes_no_bit(x: NDArray[Any], recipe: Recipe) -> None:
    with small_panels():
        found = numscope.measure(x, recipe)
        assert repr(numscope.measure(np.asfortranarray(x), recipe)) == repr(found)


def test_every_float16_is_widened_as_numpy_does_it() -> None:
    codes = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    x = np.empty(codes.shape, np.float32)
    extremes.widen_float16(codes, x)
    wanted = codes.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(x, wanted)
    np.testing.assert_array_equal(np.signbit(x), np.signbit(wanted))


def test_float64_is_compared_with_what_was_saved() -> None:
    x = np.array([[1.0, 1 + 1e-12, 1e-60]])
    found = numscope.measure(x, Recipe())
    assert found.max_abs_error == (1 + 1e-12) - 1
    assert (found.zeros, found.underflow_count) == (0, 1)


@pytest.mark.parametrize("value", [1e39, -1e300, 1.8e308])
@pytest.mark.parametrize("name", ["ling", "te-block", "int8", "mx-e4m3", "torchao-row"])
def test_float64_beyond_float32_is_infinite(name: str, value: float) -> None:
    x = np.ones((3, 130))
    x[1, 7] = value
    with np.errstate(over="ignore"):
        seen = x.astype(np.float32)
    found = numscope.measure(x, name)
    assert found == numscope.measure(seen, name)
    assert (found.inf_count, found.amax) == (1, 1.0)


def test_values_that_overflow_are_counted_and_left_out() -> None:
    x = np.array([[np.finfo(np.float32).max], [1]])  # 448 / amax rounds down to 2^-120: 256 * 2^120
    found = numscope.measure(x, Recipe(scale="power_of_two"))
    assert (found.overflow_count, found.overflow) == (1, 0.5)
    assert (found.sum_xx, found.max_abs_error, found.distortion) == (1.0, 0.0, 1.0)
    assert found.amax == np.finfo(np.float32).max


def test_a_dead_tile_takes_all_of_its_values_with_it() -> None:
    x = np.array([[1, 0, -2, np.nan], [1, 0, -2, 3]], np.float32)
    found = numscope.measure(x, Recipe(nonfinite="propagate"))
    assert (found.overflow_count, found.overflow_zeros, found.nan_count) == (3, 1, 1)
    assert (found.zeros, found.zeros_after, found.underflow_count) == (2, 1 / 8, 0)
    assert (found.zero_rows, found.row_count) == (1, 2)
    assert found.sum_xx == 14.0


@given(tensors(is_finite=False), st.sampled_from([(1, 16), (16, 1), (16, 16), (3, 5)]))
def test_a_choice_between_scales_is_the_same_for_any_panels(
    x: NDArray[Any], tile: tuple[int, int]
) -> None:
    recipe = replace(numscope.recipe("te-nvfp4-4over6"), tile=tile)
    found = numscope.measure(x, recipe)
    with small_panels():
        assert_agree(record(numscope.measure(x, recipe)), record(found))
    y = numscope.quantize(x, recipe).values
    kept = np.isfinite(reference.to_float32(x)) & np.isfinite(y)
    errors = np.abs(x.astype(np.float64) - y)[kept]
    assert found.max_abs_error == errors.max(initial=0)


def test_four_over_six_errs_less_than_six() -> None:
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    found = numscope.measure(x, numscope.recipe("te-nvfp4-4over6:four_over_six=squared"))
    assert found.sum_ee < numscope.measure(x, numscope.recipe("te-nvfp4")).sum_ee


def test_all_nan() -> None:
    found = numscope.measure(np.full((2, 3), np.nan, np.float32), Recipe())
    assert (found.count, found.nan_count, found.zeros) == (6, 6, 0)
    assert (found.zero_rows, found.zero_tiles, found.underflow) == (2, 2, 0.0)
    assert math.isnan(found.underflow_nonzero)
    assert math.isnan(found.distortion)


def test_products_beyond_the_largest_element_saturate() -> None:
    x = np.array([[448 * 1.0625, 256.0, 448.0]], np.float32)  # the scale is 1: amax is below 2^9
    found = numscope.measure(x, Recipe(scale="float8_e8m0fnu"))
    assert (found.saturated_count, found.max_abs_error) == (1, 28.0)


@pytest.mark.parametrize("ulps", [-1, 0, 1, 2, 3, 4, 5])
def test_rounding_noise_of_the_product_is_no_saturation(ulps: int) -> None:
    x = np.array([[448 + ulps * 2.0**-15]], np.float32)
    found = numscope.measure(x, Recipe(scale="float8_e8m0fnu"))
    assert found.saturated_count == (ulps >= 4)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("tile", [(1, 128), (None, None)])
def test_empty_arrays(shape: tuple[int, ...], tile: tuple[int | None, int | None]) -> None:
    found = numscope.measure(np.zeros(shape, np.float32), Recipe(tile=tile))
    assert (found.count, found.tile_count, found.sum_xx) == (0, 0, 0.0)
    assert math.isnan(found.underflow)


@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (2, 3, 4), (2, 1, 2, 3, 5)])
def test_a_row_is_the_last_axis(shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + 1
    found = numscope.measure(x, Recipe())
    assert found.row_count == math.prod(shape[:-1])
    assert_agree(record(found), record(numscope.measure(x.reshape(found.row_count, -1), Recipe())))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int64, np.uint16, np.bool_, np.complex64, np.longdouble, ml_dtypes.int4]
)
def test_what_is_not_a_floating_point_number_is_refused(dtype: Any) -> None:
    with pytest.raises(ArrayError, match="floating-point"):
        numscope.measure(np.ones((2, 2), dtype), Recipe())


@pytest.mark.parametrize("code", ["f2", "f4", "f8"])
def test_byte_order_does_not_matter(code: str) -> None:
    x = np.random.default_rng(0).standard_normal((5, 200)).astype(f"<{code}")
    found = numscope.measure(x.astype(f">{code}"), Recipe())
    assert found == numscope.measure(x, Recipe())


def test_layout_in_memory_does_not_matter() -> None:
    x = np.random.default_rng(0).standard_normal((40, 300)).astype(np.float32)
    expected = numscope.measure(x, Recipe())
    bytes_ = b"\0" + x.tobytes()
    unaligned = np.frombuffer(bytes_, np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert numscope.measure(np.asfortranarray(x), Recipe()) == expected
    assert numscope.measure(np.repeat(x, 2, axis=1)[:, ::2], Recipe()) == expected
    assert numscope.measure(unaligned, Recipe()) == expected
