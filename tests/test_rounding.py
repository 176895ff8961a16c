"""The compiled rounding, for every format: all codes, all midpoints, all exponents of float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope.choices import CHOICES
from numscope.formats import FORMATS, FloatFormat
from numscope.recipes import Recipe
from tests import reference
from tests.rounding import codes, rounded
from tests.strategies import DETERMINISTIC, ELEMENTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Float32 = NDArray[np.float32]

FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)

every_rounding = pytest.mark.parametrize("rounding", DETERMINISTIC)
every_format = pytest.mark.parametrize("element", [FORMATS[e] for e in ELEMENTS], ids=ELEMENTS)


def members(element: FloatFormat) -> Float32:
    """All finite values from the least to the largest, counted out from ml_dtypes' own codes."""
    values = np.arange(2**element.bits, dtype=np.uint8).view(element.dtype).astype(np.float32)
    values *= np.float32(reference.unit(element.name))
    values = np.unique(values[np.isfinite(values)])
    return values[np.abs(values) <= element.max]  # int8 does not use -128


def midpoints(element: FloatFormat) -> Float32:
    """Halfway between neighbours: exact in float32."""
    values = members(element)
    return (values[:-1] + values[1:]) / np.float32(2)


def beside(v: Float32) -> Float32:
    """The float32 neighbours of `v` on both sides."""
    infinity = np.float32(np.inf)
    return np.concatenate([np.nextafter(v, -infinity), np.nextafter(v, infinity)])


def assert_rounds_as_the_reference(
    v: Float32, element: FloatFormat, rounding: str = "nearest_even"
) -> None:
    expected = reference.cast(v, Recipe(element.name, rounding=rounding)).view(np.uint8)
    np.testing.assert_array_equal(codes(rounded(v, element, rounding), element), expected)


@every_format
@pytest.mark.parametrize("rounding", CHOICES["rounding"])
def test_every_member_is_a_fixed_point(element: FloatFormat, rounding: str) -> None:
    values = members(element)
    assert (values[0], values[-1]) == (-element.max, element.max)
    np.testing.assert_array_equal(rounded(values, element, rounding), values)


@every_format
def test_neighbours_of_members_round_back(element: FloatFormat) -> None:
    values = members(element)
    np.testing.assert_array_equal(rounded(beside(values), element), np.tile(values, 2))


@every_format
def test_ties_go_to_the_even_code(element: FloatFormat) -> None:
    v = midpoints(element)
    assert not (codes(rounded(v, element), element) & 1).any()
    assert_rounds_as_the_reference(v, element)


@every_format
def test_ties_go_where_the_rounding_says(element: FloatFormat) -> None:
    values, v = members(element), midpoints(element)
    inner = np.where(v > 0, values[:-1], values[1:])
    outer = np.where(v > 0, values[1:], values[:-1])
    np.testing.assert_array_equal(rounded(v, element, "nearest_away"), outer)
    np.testing.assert_array_equal(rounded(v, element, "nearest_toward_zero"), inner)
    np.testing.assert_array_equal(rounded(v, element, "toward_zero"), inner)


@every_format
@pytest.mark.parametrize("rounding", ["nearest_even", "nearest_away", "nearest_toward_zero"])
def test_beside_a_midpoint_the_nearer_member_wins(element: FloatFormat, rounding: str) -> None:
    values, v = members(element), midpoints(element)
    expected = np.concatenate([values[:-1], values[1:]])
    np.testing.assert_array_equal(rounded(beside(v), element, rounding), expected)
    assert_rounds_as_the_reference(beside(v), element, rounding)


@every_format
def test_toward_zero_is_never_away_from_it(element: FloatFormat) -> None:
    v = np.concatenate([beside(members(element)), beside(midpoints(element))])
    v = v[np.abs(v) <= element.max]
    found = rounded(v, element, "toward_zero")
    assert (np.abs(found) <= np.abs(v)).all()
    assert_rounds_as_the_reference(v, element, "toward_zero")


@every_format
@every_rounding
def test_all_exponents_of_float32(element: FloatFormat, rounding: str) -> None:
    mantissas = np.array([0, 1, 2**22 - 1, 2**22, 2**22 + 1, 0x555555, 2**23 - 1], np.uint32)
    exponents = np.arange(255, dtype=np.uint32) << np.uint32(23)
    magnitudes = (exponents[:, None] | mantissas).view(np.float32).ravel()
    assert_rounds_as_the_reference(np.concatenate([magnitudes, -magnitudes]), element, rounding)


@every_format
@every_rounding
def test_all_bfloat16_values(element: FloatFormat, rounding: str) -> None:
    v = (np.arange(2**16, dtype=np.uint32) << np.uint32(16)).view(np.float32)
    assert_rounds_as_the_reference(v[~np.isnan(v)], element, rounding)


@every_format
@every_rounding
def test_infinities_become_the_largest_value(element: FloatFormat, rounding: str) -> None:
    v = np.array([np.inf, -np.inf], np.float32)
    assert rounded(v, element, rounding).tolist() == [element.max, -element.max]


@every_format
@every_rounding
def test_nan_stays_nan(element: FloatFormat, rounding: str) -> None:
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF], np.uint32)
    assert np.isnan(rounded(bits.view(np.float32), element, rounding)).all()


@every_format
@every_rounding
def test_zeros_keep_their_sign(element: FloatFormat, rounding: str) -> None:
    tiny = element.min_subnormal / 4
    v = np.array([0.0, -0.0, tiny, -tiny], np.float32)
    assert np.signbit(rounded(v, element, rounding)).tolist() == [False, True, False, True]


@every_format
@given(values=st.lists(FLOAT32, min_size=2, max_size=50))
def test_order_is_kept(element: FloatFormat, values: list[float]) -> None:
    assert (np.diff(rounded(np.sort(np.array(values, np.float32)), element)) >= 0).all()


@every_format
@given(value=FLOAT32)
def test_the_result_is_a_nearest_member(element: FloatFormat, value: float) -> None:
    (found,) = rounded(np.array([value], np.float32), element).tolist()
    nearest = np.abs(members(element).astype(np.float64) - value).min()
    assert abs(found - value) == nearest


@every_format
def test_relative_error_is_at_most_half_a_unit_in_the_last_place(element: FloatFormat) -> None:
    v = np.linspace(element.min_normal, element.max, 100_003, dtype=np.float32)
    v64 = v.astype(np.float64)
    error = np.abs(rounded(v, element) - v64) / v64
    assert error.max() <= 1 / (2 ** (element.mantissa_bits + 1) + 1)


def test_int8_rounds_to_the_nearest_even_integer() -> None:
    v = np.arange(-140, 140, 0.125, dtype=np.float32)
    expected = [max(-127, min(127, round(value))) for value in v.tolist()]
    assert rounded(v, FORMATS["int8"]).tolist() == expected


def test_what_e4m3_flushes() -> None:
    tie = np.float32(2.0**-10)  # between 0 and the smallest subnormal
    v = np.array([tie, np.nextafter(tie, np.float32(1))])
    assert rounded(v, FORMATS["float8_e4m3fn"]).tolist() == [0.0, 2.0**-9]
