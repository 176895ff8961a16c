"""At which x a chart should have points, by those that it has and those of the charts beside it.

Dumps are mostly made every so many steps. Where they are not, nothing is expected but what others
have: better nothing than a false alarm. Nothing here looks at values.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Fewer points than this have no rhythm.
_FEWEST_POINTS = 8
#: This share of the distances between points are the usual one, give or take this share of it.
_MOST, _ABOUT = 0.75, 0.25
#: So many other distances in a row are another rhythm, not gaps in the usual one.
_ANOTHER = 3
#: A chart that lacks more than this share of what another one has follows a rhythm of its own.
_LACKING = 0.25


def expected(own: Sequence[int], others: Sequence[Sequence[int]] = ()) -> list[int]:
    """The x that a chart has and those that it lacks, increasing.

    Examples
    --------
    >>> expected([0, 10, 20, 30, 60, 70, 80, 90, 100])
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]

    Parameters
    ----------
    own
        Those that it has, increasing.
    others
        Those of other charts of the same run.
    """
    found = set(own)
    for each in others:
        lacking = set(each) - set(own)
        if len(lacking) <= _LACKING * len(each):
            found |= lacking
    return sorted(found.union(_skipped(sorted(found))))


def _skipped(x: Sequence[int]) -> Iterator[int]:
    """What a regular rhythm leaves out between points on both sides of which it is kept.

    What is longer than all that there is lies between two runs, not within one.
    """
    if len(x) < _FEWEST_POINTS:
        return
    steps = [(a, b - a) for a, b in pairwise(x)]
    usual = median(step for _, step in steps)
    is_usual = [abs(step - usual) <= _ABOUT * usual for _, step in steps]
    if sum(is_usual) < _MOST * len(steps):
        return
    runs = [
        (kept, [step for _, step in run])
        for kept, run in groupby(zip(is_usual, steps, strict=True), key=lambda each: each[0])
    ]
    for kept, run in runs[1:-1]:
        counts = [round(step / usual) for _, step in run]
        is_gap = len(run) < _ANOTHER and min(counts) > 1 and sum(counts) <= len(x)
        if not kept and is_gap:
            for (start, step), count in zip(run, counts, strict=True):
                yield from (start + round(i * step / count) for i in range(1, count))
