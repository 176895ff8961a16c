"""What `quantize` returns: the reference's bits, for every format, tile and scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numscope
from numscope import Quantized, Recipe
from numscope.errors import ArrayError
from tests import reference
from tests.strategies import ELEMENTS, ORDINARY, detailed_recipes, recipes, tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

POWERS_OF_TWO = ("power_of_two", "float8_e8m0fnu")


def codes(q: Quantized) -> NDArray[np.uint8]:
    return q.elements.view(np.uint8)


@given(tensors(is_finite=False), detailed_recipes())
def test_agrees_with_the_reference_bit_for_bit(x: NDArray[Any], recipe: Recipe) -> None:
    found, expected = numscope.quantize(x, recipe), reference.quantize(x, recipe)
    assert found.elements.dtype == expected.codes.dtype
    numbers = ~np.isnan(expected.values)
    assert np.array_equal(np.isnan(found.values), ~numbers)
    np.testing.assert_array_equal(codes(found)[numbers], expected.codes.view(np.uint8)[numbers])
    np.testing.assert_array_equal(found.scales.flat, expected.scales)
    np.testing.assert_array_equal(
        found.values.view(np.uint32)[numbers], expected.values.view(np.uint32)[numbers]
    )


@given(tensors(), recipes())
def test_values_are_elements_times_scales(x: NDArray[Any], recipe: Recipe) -> None:
    q = numscope.quantize(x, recipe)
    rows, cols = (n or extent for n, extent in zip(recipe.tile, x.shape, strict=True))
    assert q.scales.shape == (-(-x.shape[0] // rows), -(-x.shape[1] // cols))
    i, j = np.indices(x.shape)
    with np.errstate(over="ignore"):
        elements = q.elements.astype(np.float32) * np.float32(reference.unit(recipe.element))
        expected = elements * q.scales[i // rows, j // cols]
    np.testing.assert_array_equal(q.values, expected)


@given(tensors(kinds=ORDINARY), recipes(scales=POWERS_OF_TWO))
def test_quantized_values_are_fixed_points(x: NDArray[Any], recipe: Recipe) -> None:
    values = numscope.quantize(x, recipe).values
    np.testing.assert_array_equal(numscope.quantize(values, recipe).values, values)


@given(tensors(kinds=ORDINARY), recipes(scales=("float32",)))
def test_quantized_values_keep_their_elements(x: NDArray[Any], recipe: Recipe) -> None:
    q = numscope.quantize(x, recipe)
    np.testing.assert_array_equal(codes(numscope.quantize(q.values, recipe)), codes(q))


@given(tensors(kinds=ORDINARY), recipes())
def test_order_is_kept_within_a_tile(x: NDArray[Any], recipe: Recipe) -> None:
    y = numscope.quantize(x, recipe).values
    for tile in reference.tiles(x.shape, recipe.tile):
        order = np.argsort(x[tile].astype(np.float64), axis=None)
        assert (np.diff(y[tile].ravel()[order]) >= 0).all()


@given(tensors(), recipes())
def test_odd_symmetry(x: NDArray[Any], recipe: Recipe) -> None:
    q, negative = numscope.quantize(x, recipe), numscope.quantize(-x, recipe)
    np.testing.assert_array_equal(negative.values, -q.values)
    np.testing.assert_array_equal(negative.scales, q.scales)


@given(tensors(is_finite=False), recipes())
def test_never_past_the_largest_value(x: NDArray[Any], recipe: Recipe) -> None:
    elements = np.abs(numscope.quantize(x, recipe).elements.astype(np.float32))
    largest = reference.largest_element(recipe.element) / reference.unit(recipe.element)
    assert np.nanmax(elements, initial=0) <= largest


@given(tensors(), recipes(scales=("float32", "power_of_two")))
def test_the_largest_magnitude_of_a_tile_is_not_clipped(x: NDArray[Any], recipe: Recipe) -> None:
    assert numscope.measure(x, recipe).saturated_count == 0


@given(tensors(kinds=ORDINARY, dtypes=[np.dtype(np.float32)]), recipes(), st.integers(-30, 30))
def test_powers_of_two_move_into_the_scale(x: NDArray[Any], recipe: Recipe, k: int) -> None:
    q, moved = numscope.quantize(x, recipe), numscope.quantize(np.ldexp(x, k), recipe)
    zero_tiles = [not x[tile].any() for tile in reference.tiles(x.shape, recipe.tile)]
    expected = np.where(zero_tiles, q.scales.ravel(), np.ldexp(q.scales.ravel(), k))
    np.testing.assert_array_equal(moved.scales.ravel(), expected)
    np.testing.assert_array_equal(codes(moved), codes(q))


@given(tensors(is_finite=False), recipes())
def test_the_transpose_has_column_tiles(x: NDArray[Any], recipe: Recipe) -> None:
    q, turned = numscope.quantize(x, recipe), numscope.quantize(x.T, recipe.transpose)
    np.testing.assert_array_equal(turned.scales, q.scales.T)
    np.testing.assert_array_equal(codes(turned), codes(q).T)


@given(tensors(), recipes())
def test_tiles_do_not_know_of_each_other(x: NDArray[Any], recipe: Recipe) -> None:
    q = numscope.quantize(x, recipe)
    for tile in reference.tiles(x.shape, recipe.tile):
        np.testing.assert_array_equal(codes(numscope.quantize(x[tile], recipe)), codes(q)[tile])


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("scale", ["float32", "power_of_two", "float8_e8m0fnu"])
def test_values_that_are_not_finite_change_no_other(element: str, scale: str) -> None:
    x = np.array([[1.0, np.nan, -2.0, np.inf, -np.inf, 0.3]], np.float32)
    recipe = Recipe(element, (1, 128), scale)
    q = numscope.quantize(x, recipe)
    finite = np.isfinite(x)
    assert np.array_equal(q.scales, numscope.quantize(x[finite], recipe).scales)
    assert np.array_equal(q.values[finite], numscope.quantize(x[finite], recipe).values[0])
    largest = reference.largest_element(element) * q.scales[0, 0]
    assert q.values[0, 3:5].tolist() == [largest, -largest]
    has_nan = element.startswith("float8")
    assert np.isnan(q.values[0, 1]) if has_nan else q.values[0, 1] == 0


def test_scales_at_the_ends_of_float32() -> None:
    smallest, largest = np.float32(2.0**-149), np.finfo(np.float32).max
    for scale, multiplier in (("float32", largest), ("power_of_two", np.float32(2.0**127))):
        q = numscope.quantize(np.array([[smallest]]), Recipe(scale=scale))
        assert q.scales == np.float32(1) / multiplier
        assert q.elements.astype(np.float32) == 0  # 2^-149 * 2^128 is below half of 2^-9
    q = numscope.quantize(np.array([[largest]]), Recipe())
    assert q.elements.astype(np.float32) == 448
    assert q.values == np.float32(448) * q.scales


def test_a_multiplier_that_overflows_is_the_largest_of_the_input_dtype() -> None:
    x = np.array([[2.0**-130]], ml_dtypes.bfloat16)
    largest = reference.largest_of(x.dtype)
    assert numscope.quantize(x, Recipe()).scales == np.float32(1) / np.float32(largest)
    largest = float(np.finfo(np.float32).max)
    expected = np.float32(1) / np.float32(largest)
    assert numscope.quantize(x.astype(np.float32), Recipe()).scales == expected


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("tile", [(1, 128), (128, 1), (None, None)])
def test_empty_arrays(shape: tuple[int, ...], tile: tuple[int | None, int | None]) -> None:
    q = numscope.quantize(np.zeros(shape, np.float32), Recipe(tile=tile))
    assert q.values.shape == q.elements.shape == (math.prod(shape[:-1]), shape[-1])
    assert q.scales.size == 0


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4), (2, 1, 2, 3, 5)])
def test_a_row_is_the_last_axis(shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + 1
    q = numscope.quantize(x, Recipe())
    assert q.elements.shape == (math.prod(shape[:-1]), shape[-1] if shape else 1)
    np.testing.assert_array_equal(
        q.values, numscope.quantize(x.reshape(q.elements.shape), Recipe()).values
    )


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.complex64])
def test_what_is_not_a_floating_point_number_is_refused(dtype: Any) -> None:
    with pytest.raises(ArrayError, match="floating-point"):
        numscope.quantize(np.ones((2, 2), dtype), Recipe())


@pytest.mark.parametrize(
    ("x", "message"),
    [([[1.0], [1, 2]], "this is no array: "), (np.ma.array([1.0], mask=[True]), "is masked")],
)
def test_what_is_no_whole_array_is_refused(x: Any, message: str) -> None:
    with pytest.raises(ArrayError, match=message):
        numscope.quantize(x, "ling")
