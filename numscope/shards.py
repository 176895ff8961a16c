"""Shards of a run: which of the dump files each of several processes measures, without asking.

Every process computes the same split from the same files. Nothing here reads the environment.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass

from numscope.errors import UsageError

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of `count` shards; `index` counts from 1."""

    index: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise UsageError(f"there is no shard {self}: shards count from 1/{self.count}")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def takes(self, sizes: Sequence[int]) -> list[int]:
        """The positions of the files that this shard measures, in order, given all files' sizes."""
        if self.count == 1:
            return list(range(len(sizes)))
        return [at for at, shard in enumerate(split(sizes, self.count)) if shard == self.index]


def parse(text: str) -> Shard:
    """The shard written as `I/N`.

    Raises
    ------
    UsageError
        If it is not written so, or there is no such shard.
    """
    match = _FORM.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is no shard; write I/N, such as 1/8 to 8/8, or slurm")
    return Shard(int(match[1]), int(match[2]))


def split(sizes: Sequence[int], count: int) -> list[int]:
    """The shard, 1 to `count`, of each of the files of these sizes, balanced by size.

    The largest files are dealt first, each to the shard that has least so far. One byte counts for
    each file, so that empty ones are spread as well.
    """
    loads = [(0, index) for index in range(1, count + 1)]
    chosen = [0] * len(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: (-sizes[at], at)):
        load, chosen[at] = loads[0]
        heapq.heapreplace(loads, (load + sizes[at] + 1, chosen[at]))
    return chosen
