"""Lists of numbers as they are written on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope.errors import UsageError
from numscope.ranges import Ranges, parse, parse_range

NUMBERS = st.frozensets(st.integers(0, 30))


@given(NUMBERS, NUMBERS)
def test_the_set_is_that_of_its_numbers(numbers: frozenset[int], others: frozenset[int]) -> None:
    found = Ranges.of(numbers)
    assert list(found) == sorted(numbers)
    assert len(found) == len(numbers)
    assert {each for each in others | numbers if each in found} == numbers
    assert found.named == tuple(n for n in sorted(numbers) if not {n - 1, n + 1} & numbers)
    assert Ranges.joined((*found.parts, *Ranges.of(others).parts)) == Ranges.of(numbers | others)


@given(NUMBERS.filter(bool))
def test_what_is_written_is_read_again(numbers: frozenset[int]) -> None:
    assert parse(str(Ranges.of(numbers))) == Ranges.of(numbers)


@pytest.mark.parametrize(
    ("text", "named"),
    [("0,1,4", (0, 1, 4)), ("0-1,4", (4,)), ("4,0-8,3,4", (3, 4)), ("0-16", ()), ("7-7", (7,))],
)
def test_numbers_that_are_written_one_by_one_are_known(text: str, named: tuple[int, ...]) -> None:
    assert parse(text).named == named


def test_a_range_costs_nothing_however_long_it_is() -> None:
    longest = parse("0-2000000,5,4000000-999999999999999999")
    assert len(longest.parts) == 2
    assert len(longest) == 2_000_001 + 10**18 - 4_000_000
    assert 2_000_000 in longest
    assert 2_000_001 not in longest
    assert 10**18 - 1 in longest
    assert 10**18 not in longest
    assert str(longest) == "0-2000000,4000000-999999999999999999"


def test_nothing_but_numbers_is_in_a_set() -> None:
    found: set[object] = {None, 1.5, "1", 1}
    assert {each for each in found if each in Ranges((range(4),))} == {1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not a list such as 0,4,8 or 0-16"),
        ("0,,4", "'0,,4' is not a list"),
        ("a", "'a' is not a list"),
        ("5-2", "'5-2' is not a range from small to large"),
        ("1,5-2", "'5-2' is not a range from small to large"),
        ("9" * 19, f"'{'9' * 19}' has numbers of more than 18 digits"),
        ("0-" + "9" * 5000, f"'0-{'9' * 38}'… has numbers of more than 18 digits"),
        ("0," * 10_000 + "0", "10,001 numbers and ranges; at most 10,000 are read"),
    ],
)
def test_what_is_no_list_is_refused_in_a_line(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).startswith(why)


def test_a_range_is_no_list() -> None:
    with pytest.raises(UsageError, match="'1,2' is not a range such as 4-8"):
        parse_range("1,2")
