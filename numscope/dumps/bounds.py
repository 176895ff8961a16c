"""What sizes, keys and texts out of a file may be at most, checked before they are used.

A file of a kilobyte can name numbers of a million digits, and what it names a thousand times costs
a thousand times. Every reader takes its numbers and keys through here. Nothing here reads a file,
and nothing here knows a format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from numscope.errors import DumpError

SIZE_LIMIT = 1 << 63
"""Sizes, counts, offsets and strides are below this, and so are the bytes of a tensor."""

DIMENSION_LIMIT = 64
"""The most dimensions of a tensor, as in NumPy."""

TEXT_LIMIT = 4096
"""The most characters of a key, of one part of it where it is nested."""

WORK_LIMIT = 1 << 22
"""The most steps that reading a file may take; a tensor takes some seventy."""

_PARTS_LIMIT = 16
_SHOWN_LIMIT = 200


def is_size(value: object) -> TypeGuard[int]:
    """Whether this is a whole number from 0 on and below `SIZE_LIMIT`; `True` is none."""
    return type(value) is int and 0 <= value < SIZE_LIMIT


def are_sizes(values: Sequence[object]) -> bool:
    """Whether these are at most `DIMENSION_LIMIT` sizes, as a shape or strides are."""
    return len(values) <= DIMENSION_LIMIT and all(map(is_size, values))


def check_shape(shape: Sequence[int], itemsize: int) -> None:
    """Refuse a shape that NumPy cannot have, even where one of its dimensions is 0.

    Raises
    ------
    DumpError
        If it has too many dimensions or its other dimensions make too many bytes.
    """
    if len(shape) > DIMENSION_LIMIT:
        raise DumpError(f"has {len(shape)} dimensions; at most {DIMENSION_LIMIT} are read")
    if not all(map(is_size, shape)):
        raise DumpError("has a size that is negative or too large")
    if math.prod(shape if all(shape) else filter(None, shape)) * itemsize >= SIZE_LIMIT:
        raise DumpError("has a shape whose product is too large; refused")


def is_key_part(value: object) -> bool:
    """Whether this can be part of a key: a short text, a number, or a small tuple of these.

    Whatever passes is hashed and compared in no time. Longer numbers could be chosen so that all of
    them have the same hash.
    """
    if type(value) is str:  # as nearly all are
        return len(value) <= TEXT_LIMIT
    stack, texts = [value], 0
    for count in range(1, _PARTS_LIMIT + 1):
        part = stack.pop()
        if isinstance(part, tuple):
            if len(part) + len(stack) + count > _PARTS_LIMIT:
                return False
            stack.extend(part)
        elif isinstance(part, (str, bytes)):
            texts += len(part)
        elif isinstance(part, int):
            if abs(part) >= SIZE_LIMIT:
                return False
        elif part is not None and not isinstance(part, float):
            return False
        if not stack:
            return texts <= TEXT_LIMIT
    return False


def shown(value: object) -> str:
    """A value as a message can show it: its `repr`, cut off where that is long."""
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN_LIMIT:
        return f"{value[:_SHOWN_LIMIT]!r}…"
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "of too many digits"
    return text if len(text) <= _SHOWN_LIMIT else f"{text[:_SHOWN_LIMIT]}…"


@dataclass(slots=True)
class Work:
    """What reading a file has cost so far, in steps.

    Attributes
    ----------
    limit
        The most steps.
    done
        The steps that were taken.
    """

    limit: int = WORK_LIMIT
    done: int = 0

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises
        ------
        DumpError
            If they are too many.
        """
        self.done += steps
        if self.done > self.limit:
            raise DumpError(f"takes more than {self.limit} steps to read; refused")
