"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope import amounts


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1 K"),
        (368_640, "368.6 K"),
        (2_500_000_000, "2.5 B"),
        (20_000 * 10**9, "20,000 B"),
    ],
)
def test_tokens(count: int, text: str) -> None:
    assert amounts.tokens(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.000152587890625, "0.0001526"),
        (0.28671, "0.2867"),
        (1.0, "1"),
        (1.5e-6, "0.0000015"),
        (2.5e-9, "2.5e-9"),
    ],
)
def test_shares_keep_four_digits_however_small(value: float, text: str) -> None:
    assert amounts.share(value) == text


@given(st.floats(1e-12, 1))
def test_a_share_reads_back_to_four_digits(value: float) -> None:
    assert float(amounts.share(value)) == pytest.approx(value, rel=5.1e-4)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.99967, "0.99967"), (0.63652847, "0.6365"), (0.9999987, "0.9999987")],
)
def test_cosines_show_two_digits_of_what_is_missing(value: float, text: str) -> None:
    assert amounts.cosine(value) == text


@given(st.floats(0, 1, exclude_max=True))
def test_a_cosine_below_one_is_never_written_as_one(value: float) -> None:
    assert float(amounts.cosine(value)) < 1


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (12_345_678, "12.3 MB"), (999_999, "1 MB")]
)
def test_sizes(count: int, text: str) -> None:
    assert amounts.size(count) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([1, 0], "0,1"), (range(61), "0-60"), ([0, 4, 8], "0,4,8")],
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert amounts.ranges(numbers) == text


@given(st.sets(st.integers(0, 40)))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    named: list[int] = []
    for part in filter(None, amounts.ranges(numbers).split(",")):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)


def test_a_long_list_is_written_as_its_ends() -> None:
    assert amounts.span(range(0, 780, 60)) == "0 to 720 (13)"


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75, "1:15"), (3725, "1:02:05")])
def test_durations(seconds: float, text: str) -> None:
    assert amounts.duration(seconds) == text
