"""Where things stand that must not cover each other: as near as can be to where they belong.

Numbers only, in inches; nothing here draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: For a point and its bar, and for the number of bits below them.
_SLOT, _TICK = 0.13, 0.38


def apart(
    wanted: Sequence[float], sizes: Sequence[float], bottom: float, top: float
) -> list[float]:
    """The nearest middles to those wanted, increasing, of things that do not cover each other.

    Neighbours that are too near share a block around the mean of what they want.
    """
    blocks: list[tuple[float, int]] = []  # where each would begin at 0, and of how many things
    places = [sum(sizes[:i]) + sizes[i] / 2 for i in range(len(sizes))]  # if all are one block at 0
    for middle, place in zip(wanted, places, strict=True):
        blocks.append((middle - place, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, n), (before, m) = blocks.pop(), blocks.pop()
            blocks.append(((last * n + before * m) / (n + m), n + m))
    most = top - sum(sizes)
    offsets = [max(bottom, min(first, most)) for first, count in blocks for _ in range(count)]
    return [offset + place for offset, place in zip(offsets, places, strict=True)]


class Group(NamedTuple):
    """Recipes of the same number of bits: from where to where they are drawn, in inches."""

    span: tuple[float, float]
    label: str


def groups_of(bits: Sequence[float], width: float) -> tuple[list[float], list[Group]]:
    """Where the recipes' points are, in inches from 0 to `width`, and their groups.

    Numbers of bits are as far from each other as they say, but for the room that their recipes and
    ticks need.
    """
    known = sorted(set(bits))
    counts = [bits.count(value) for value in known]
    slot, tick = _SLOT, _TICK
    while sum(rooms := [max(tick, slot * count) for count in counts]) > width:
        slot, tick = 0.95 * slot, (tick if slot > _SLOT / 4 else 0.95 * tick)
    low, high = rooms[0] / 2, width - rooms[-1] / 2
    share = (high - low) / (known[-1] - known[0]) if len(known) > 1 else 0.0
    wanted = [low + share * (value - known[0]) for value in known] if share else [width / 2]
    middles = apart(wanted, rooms, 0.0, width)
    starts = [middle - slot * count / 2 for middle, count in zip(middles, counts, strict=True)]
    decimals = next(
        n for n in (2, 4, 17) if len({round(value, n) for value in known}) == len(known)
    )
    groups = [
        Group((start, 2 * middle - start), f"{round(value, decimals):.10g}")
        for value, start, middle in zip(known, starts, middles, strict=True)
    ]
    numbers = [bits[:i].count(value) for i, value in enumerate(bits)]  # of each in its group
    return [
        starts[known.index(value)] + slot * (number + 0.5)
        for value, number in zip(bits, numbers, strict=True)
    ], groups
