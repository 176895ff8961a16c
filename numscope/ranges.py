"""Lists of whole numbers such as `0,4,8-16`, kept as ranges: how long they are costs nothing.

Nothing here knows what is counted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from numscope.errors import UsageError

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
#: A number has at most so many digits: enough for any step, axis or size, and 64 bits hold it.
MOST_DIGITS = 18
#: A list has at most so many numbers and ranges.
_MOST_PARTS = 10_000
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Ranges(Collection[int]):
    """A set of whole numbers of 0 or more.

    Attributes
    ----------
    parts
        Ranges of step 1, none of them empty, rising, with at least one number between any two.
    named
        Numbers that were given one by one, rising: where nothing tells, those without a neighbour.
    """

    parts: tuple[range, ...] = ()
    named: tuple[int, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Self:
        """The set of these numbers."""
        if isinstance(numbers, cls):
            return numbers
        found = cls.joined(range(number, number + 1) for number in set(numbers))
        return replace(found, named=_singles(found.parts))

    @classmethod
    def joined(cls, parts: Iterable[range]) -> Self:
        """The set of the numbers of all these ranges of step 1, none of them empty."""
        joined: list[range] = []
        for part in sorted(parts, key=lambda each: each.start):
            if joined and part.start <= joined[-1].stop:
                joined[-1] = range(joined[-1].start, max(joined[-1].stop, part.stop))
            else:
                joined.append(part)
        return cls(tuple(joined))

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self.parts, number, key=lambda part: part.start)
        return at > 0 and number in self.parts[at - 1]

    def __iter__(self) -> Iterator[int]:
        for part in self.parts:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __str__(self) -> str:
        return ",".join(
            f"{part[0]}-{part[-1]}" if len(part) > 2 else ",".join(map(str, part))
            for part in self.parts
        )


def parse(text: str) -> Ranges:
    """The numbers of a list such as `0,4,8-16`, in any order.

    >>> str(parse("8-16,4,0,12-20"))
    '0,4,8-20'

    Raises
    ------
    UsageError
        If it is no such list, or too long.
    """
    parts = text.split(",")
    if len(parts) > _MOST_PARTS:
        raise UsageError(f"{len(parts):,} numbers and ranges; at most {_MOST_PARTS:,} are read")
    if not all(_RANGE.fullmatch(part.strip()) for part in parts):
        raise UsageError(f"{_shown(text)} is not a list such as 0,4,8 or 0-16")
    found = list(map(parse_range, parts))
    return replace(Ranges.joined(found), named=_singles(found))


def parse_range(text: str) -> range:
    """The range that is written `4-8`, from the first to the last, or `4`.

    >>> parse_range("4-8")
    range(4, 9)

    Raises
    ------
    UsageError
        If it is not written so, is empty, or has too large numbers.
    """
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{_shown(text)} is not a range such as 4-8")
    if any(len(number) > MOST_DIGITS for number in match.groups("")):
        raise UsageError(f"{_shown(text)} has numbers of more than {MOST_DIGITS} digits")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise UsageError(f"{text.strip()!r} is not a range from small to large")
    return range(first, last + 1)


def _singles(parts: Iterable[range]) -> tuple[int, ...]:
    return tuple(sorted({part.start for part in parts if len(part) == 1}))


def _shown(text: str) -> str:
    """The text as messages quote it, cut off where it is long."""
    return repr(text.strip()) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"
