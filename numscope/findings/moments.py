"""Peaks and dips, and the moments that several charts or layers have in common.

Whether a deviation is news depends on how far the noise itself strays: heavy-tailed noise strays
far. So all lines of a recipe are asked together, point by point, for the farthest deviation, and
the few farthest moments are outliers only if they stand apart from the others, more than chance
would let them. Nothing here looks for trends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from numscope import amounts
from numscope.findings.finding import (
    Finding,
    at,
    importance,
    least_difference,
    listed,
    of_layers,
    place,
    worse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from numscope.findings.lines import Line

#: A deviation of fewer times the noise is never news.
_LEAST_TIMES = 8.0
#: If so many layers, and this share of all, lose much at once, it is news from fewer times on;
#: much is so many times what is worth a word.
_FEWEST_SHARING, _MOST_OF, _LEAST_SHARED, _LARGE = 4, 0.75, 6.0, 25
#: Noise with light tails never strays so many times as far as it does on the whole.
_LIGHT = 15.0
#: Chance may set so many moments apart.
_CHANCE = 1e-4
#: Moments that stand apart are at most this share of all, and so many.
_FEW, _MOST = 0.2, 10
#: Moments this near, as a share of all points, are one.
_NEAR = 0.01


@dataclass(frozen=True, slots=True)
class Extreme:
    """The farthest point of one line in one excursion.

    `index` is its place in the line, `moment` that of its x among the x of all lines.
    """

    line: Line
    index: int
    moment: int

    @property
    def x(self) -> int:
        """Where it is, as in the chart's table."""
        return int(self.line.x[self.index])

    @property
    def value(self) -> float:
        """What is there."""
        return float(self.line.y[self.index])

    @property
    def baseline(self) -> float:
        """What would be usual there."""
        return float(self.line.baseline[self.index])

    @property
    def times(self) -> float:
        """How many times the noise it lies beyond the baseline."""
        return abs(self.value - self.baseline) / self.line.noise


def extremes(lines: Sequence[Line]) -> list[Extreme]:
    """Every excursion of every line that stands apart from the noise of all, in order of x.

    Parameters
    ----------
    lines
        Of all charts of one recipe.
    """
    if not lines:
        return []
    grid = np.unique(np.concatenate([line.x for line in lines]))
    bound = _bound(np.concatenate([line.excess for line in lines]))
    shared = {title: _shared(own) for title, own in _by_chart(lines).items()}
    found: list[Extreme] = []
    for sign in (1, -1):
        farthest = np.zeros(len(grid))
        for line in lines:
            places = np.searchsorted(grid, line.x)
            np.maximum.at(farthest, places, sign * _loss(line))
        limit = max(min(_limit(farthest), bound), _LEAST_TIMES)
        for line in lines:
            limits = np.full(len(line.x), limit)
            if sign > 0:
                limits[np.isin(line.x, shared[line.table.title])] = _LEAST_SHARED
            found += _excursions(line, grid, sign * worse(line.table.metric), limits)
    return sorted(found, key=lambda each: each.moment)


def moments(found: Sequence[Extreme], points: int) -> list[list[Extreme]]:
    """The extremes, those of one moment together: at the same x, or nearly so in a long run."""
    groups: list[list[Extreme]] = []
    for each in sorted(found, key=lambda each: each.moment):
        if groups and each.moment - groups[-1][0].moment <= _NEAR * points:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def peaks_and_dips(groups: Iterable[Sequence[Extreme]]) -> list[Finding]:
    """A finding per chart and moment, about the layer that strays farthest there."""
    findings = []
    for group in groups:
        for title, is_up in dict.fromkeys((_title(each), _is_up(each)) for each in group):
            own = [each for each in group if (_title(each), _is_up(each)) == (title, is_up)]
            findings.append(_peak_or_dip(own, is_up=is_up))
    return findings


def common_moments(groups: Iterable[Sequence[Extreme]]) -> list[Finding]:
    """A finding per moment that several charts or several layers have in common."""
    findings = []
    for group in groups:
        charts = tuple(dict.fromkeys(_title(each) for each in group))
        layers = tuple(sorted({each.line.layer for each in group}))
        if len(charts) < 2 and len(layers) < 2:
            continue
        first = max(group, key=_importance)
        table = first.line.table
        where = at(table.x_name, first.x)
        values = [amounts.metric(table.metric, each) for each in (first.value, first.baseline)]
        who = listed(list(charts)) if len(charts) <= 3 else f"{len(charts)} charts"
        inside = f" in {table.subject} {table.metric}" if len(charts) > 1 else ""
        stray = "stray" if len(layers) > 1 else "strays"
        findings.append(
            Finding(
                kind="common moment",
                recipe=table.recipe,
                chart=table.title,
                layer=first.line.layer,
                **place(table, first.x),
                value=first.value,
                baseline=first.baseline,
                times=first.times,
                layers=layers,
                charts=charts,
                importance=_importance(first) + 1.0,
                sentence=f"at {where} {of_layers(layers)} {stray} in {who};"
                f" layer {first.line.layer} has {values[0]}{inside}, where {values[1]} is usual.",
            )
        )
    return findings


def _loss(line: Line) -> NDArray[np.float64]:
    """The excess, positive where more is lost than usual."""
    return worse(line.table.metric) * line.excess


def _limit(farthest: NDArray[np.float64]) -> float:
    """Beyond how many times the noise a moment stands apart from all others; infinite if none does.

    The few farthest moments whose gap to the others is the least probable are taken apart if its
    probability is below `_CHANCE`. If the far tail is a power law of any exponent, the gap
    between the r-th and the next logarithm, times r, and those of the k moments below are
    exponentially distributed with the same mean; (1 + f/k)^-k is the chance of a ratio of f.
    (Rényi's representation of order statistics; the mean is Hill's estimator.) Lighter tails have
    smaller gaps.
    """
    heights = np.log(np.maximum(np.sort(_summits(farthest))[::-1], 1.0))
    limit, least = math.inf, _CHANCE
    for r in range(1, min(_MOST, max(1, int(_FEW * len(heights)))) + 1):
        k = min(max(6, len(heights) // 5), len(heights) - r - 1, 20)
        if k < 3:
            break
        below = heights[r : r + k] - heights[r + k]
        mean = max(float(below.sum() + r * below[0]) / k, 0.1)
        gap = float(heights[r - 1] - heights[r])
        chance = (1 + r * gap / mean / k) ** -k
        if chance < least:
            limit, least = math.exp((heights[r - 1] + heights[r]) / 2), chance
    return limit


def _by_chart(lines: Sequence[Line]) -> dict[str, list[Line]]:
    charts: dict[str, list[Line]] = {}
    for line in lines:
        charts.setdefault(line.table.title, []).append(line)
    return charts


def _shared(lines: Sequence[Line]) -> NDArray[np.int64]:
    """The x at which most layers of one chart lose more than usual: not by chance all at once."""
    if len(lines) < _FEWEST_SHARING:
        return np.array([], dtype=np.int64)
    least = _LARGE * least_difference(lines[0].table.metric)
    is_far = [
        (_loss(line) >= _LEAST_SHARED) & (np.abs(line.y - line.baseline) >= least) for line in lines
    ]
    far = np.concatenate([line.x[far] for line, far in zip(lines, is_far, strict=True)])
    places, counts = np.unique(far, return_counts=True)
    return places[counts >= max(_FEWEST_SHARING, _MOST_OF * len(lines))]


def _bound(excess: NDArray[np.float64]) -> float:
    """Beyond how many times the noise no point of it would stray, by the size of its tails.

    Noise whose 0.95 quantile is 3 times the median, as of a normal distribution, stays below 15
    times; up to 4 times, as of Student's t with 3 degrees of freedom, n values stay below the cube
    root of 500 n, but for one run in a hundred.
    """
    middle, far = np.quantile(np.abs(excess), (0.5, 0.95))
    weight = float(np.clip(far / max(middle, 1e-12) - 3, 0, 1))
    heavy = np.cbrt(500.0 * len(excess))
    return _LIGHT + weight * max(0.0, float(heavy) - _LIGHT)


def _summits(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest point of every run of far ones, so that a broad peak counts once."""
    is_far = heights > max(4.0, 3 * float(np.median(heights)))
    starts = np.flatnonzero(is_far & ~np.concatenate(([False], is_far[:-1])))
    ends = np.flatnonzero(is_far & ~np.concatenate((is_far[1:], [False])))
    summits = [heights[i : j + 1].max() for i, j in zip(starts, ends, strict=True)]
    return np.concatenate((heights[~is_far], summits))


def _excursions(
    line: Line, grid: NDArray[np.int64], sign: int, limits: NDArray[np.float64]
) -> list[Extreme]:
    """The farthest point of each run beyond the limits; runs a few points apart are one."""
    excess = sign * line.excess
    beyond = np.flatnonzero(
        (excess >= limits)
        & (sign * (line.y - line.baseline) >= least_difference(line.table.metric))
    )
    if not len(beyond):
        return []
    breaks = np.flatnonzero(np.diff(beyond) > 1 + _NEAR * len(line.x)) + 1
    summits = [int(run[excess[run].argmax()]) for run in np.split(beyond, breaks)]
    return [Extreme(line, i, int(np.searchsorted(grid, line.x[i]))) for i in summits]


def _peak_or_dip(own: Sequence[Extreme], *, is_up: bool) -> Finding:
    first = max(own, key=_importance)
    table = first.line.table
    layers = tuple(sorted({each.line.layer for each in own}))
    value, usual = (amounts.metric(table.metric, each) for each in (first.value, first.baseline))
    others = tuple(layer for layer in layers if layer != first.line.layer)
    return Finding(
        kind="peak" if is_up else "dip",
        recipe=table.recipe,
        chart=table.title,
        layer=first.line.layer,
        **place(table, first.x),
        value=first.value,
        baseline=first.baseline,
        times=first.times,
        layers=layers,
        charts=(table.title,),
        importance=_importance(first) + 0.3,
        sentence=f"{table.title}: layer {first.line.layer} {'peaks' if is_up else 'dips'}"
        f" at {at(table.x_name, first.x)} to {value}, where {usual} is usual"
        f" ({first.times:,.0f} times the noise)"
        + (f"; so {'do' if len(others) > 1 else 'does'} {of_layers(others)}." if others else "."),
    )


def _importance(each: Extreme) -> float:
    return importance(each.line.table.metric, each.value, each.baseline)


def _title(each: Extreme) -> str:
    return each.line.table.title


def _is_up(each: Extreme) -> bool:
    return each.value > each.baseline
