"""Shards share out all files, the same way in every process, and about evenly by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope.errors import UsageError
from numscope.shards import Shard, parse, split

SIZES = st.lists(st.integers(0, 10**12), max_size=60)


@given(SIZES, st.integers(1, 9))
def test_every_file_belongs_to_exactly_one_shard(sizes: list[int], count: int) -> None:
    taken = [at for index in range(1, count + 1) for at in Shard(index, count).takes(sizes)]
    assert sorted(taken) == list(range(len(sizes)))


@given(SIZES, st.integers(1, 9))
def test_no_shard_has_more_than_an_even_share_and_one_file(sizes: list[int], count: int) -> None:
    loads = [0] * (count + 1)
    for size, shard in zip(sizes, split(sizes, count), strict=True):
        loads[shard] += size + 1
    assert max(loads) <= (sum(sizes) + len(sizes)) / count + max(sizes, default=0) + 1


def test_large_files_are_balanced_by_small_ones() -> None:
    assert split([100, 100, 700, 100, 100, 100, 100, 100], 2) == [2, 2, 1, 2, 2, 2, 2, 2]


def test_empty_files_are_spread_as_well() -> None:
    assert split([0, 0, 0, 0], 2) == [1, 2, 1, 2]


def test_a_shard_is_written_as_it_is_read() -> None:
    assert parse("3/8") == Shard(3, 8)
    assert str(Shard(3, 8)) == "3/8"


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "1", "1/", "/2", "a/b", "1/2/3", "-1/2", ""])
def test_a_shard_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)
