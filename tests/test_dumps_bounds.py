"""What a file may say at most: every bound from both sides, and messages that stay short."""

from __future__ import annotations

from typing import Any

import pytest

from numscope.dumps.bounds import (
    SIZE_LIMIT,
    Work,
    are_sizes,
    check_shape,
    is_key_part,
    is_size,
    shown,
)
from numscope.errors import DumpError

HUGE = 10**5000


@pytest.mark.parametrize("value", [0, 1, SIZE_LIMIT - 1])
def test_sizes(value: int) -> None:
    assert is_size(value)


@pytest.mark.parametrize("value", [-1, SIZE_LIMIT, HUGE, True, 1.0, "1", None], ids=range(7))
def test_what_is_no_size(value: Any) -> None:
    assert not is_size(value)
    assert not are_sizes([1, value])


def test_there_are_as_many_dimensions_as_in_numpy() -> None:
    assert are_sizes([1] * 64)
    assert not are_sizes([1] * 65)


@pytest.mark.parametrize("shape", [(), (0,), (2**61 - 1,), (2**61 - 1, 0, 1), (1,) * 64])
def test_shapes_of_less_than_all_bytes(shape: tuple[int, ...]) -> None:
    check_shape(shape, 4)


@pytest.mark.parametrize("shape", [(2**61,), (2**61, 0), (2**31, 0, 2**30), (-1,), (1,) * 65])
def test_shapes_of_more_than_all_bytes(shape: tuple[int, ...]) -> None:
    with pytest.raises(DumpError):
        check_shape(shape, 4)


def test_a_doubled_tuple_is_no_key_and_is_not_walked() -> None:
    doubled: tuple[Any, ...] = ()
    for _ in range(100):
        doubled = (doubled, doubled)
    assert not is_key_part(doubled)
    assert not is_key_part((((),) * 1_000_000,))


@pytest.mark.parametrize(
    "value", ["x" * 10**7, b"x" * 10**7, list(range(1000)), HUGE], ids=range(4)
)
def test_what_is_shown_is_short(value: Any) -> None:
    assert len(shown(value)) < 210


def test_what_is_short_is_shown_as_it_is() -> None:
    assert [shown(value) for value in ("a", [1, 2], None)] == ["'a'", "[1, 2]", "None"]


def test_work_ends_where_it_is_too_much() -> None:
    work = Work(limit=10)
    work.spend(10)
    with pytest.raises(DumpError, match="more than 10 steps"):
        work.spend(1)
