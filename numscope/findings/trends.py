"""What lasts: shifts from some moment on, slow drifts, and what grows or stands out with depth.

The noise may remember: a slow wander looks like a trend. So n points count as the fewer independent
ones that they are worth, by the correlation from one point to the next. Nothing here looks at
single points.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from numscope import amounts
from numscope.findings.finding import (
    BEST,
    Finding,
    at,
    importance,
    least_difference,
    of_layers,
    place,
    worse,
)
from numscope.findings.lines import rank_correlation, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from numscope.findings.lines import Line
    from numscope.findings.moments import Extreme

#: A change is news from so many times the noise on, and so many times its own standard error.
_LEAST_TIMES, _LEAST_ERRORS = 5.0, 8.0
#: The standard error of a median per that of a mean.
_MEDIAN_ERROR = 1.2533
#: Rank correlation with depth from which one may speak of a trend, for few layers and for many.
_FEW_LAYERS, _FEW_CORRELATION, _MANY_CORRELATION = 7, 0.99, 0.8
#: Fewer layers than this have no depth to speak of, and none that could be the odd one out.
_FEWEST_LAYERS = 4
#: The odd layer is so many times farther from its neighbour than the others are from each other.
_ODD = 5.0
#: So many times more must be lost where there are few layers, to speak of a trend or an odd one.
_SEVERAL = 3.0


def shifts(lines: Sequence[Line]) -> list[Finding]:
    """One finding per chart and moment: since then the level is another one."""
    shifted = [line for line in lines if line.model.shape == "step" and _is_news(line)]
    groups: dict[tuple[str, bool, int], list[Line]] = {}
    for line in shifted:
        key = (line.table.title, line.model.change > 0, _since(line))
        near = next((other for other in groups if other[:2] == key[:2] and _near(line, other)), key)
        groups.setdefault(near, []).append(line)
    return [_shift(group) for group in groups.values()]


def drifts(lines: Sequence[Line]) -> list[Finding]:
    """One finding per chart and direction: the level moves slowly, all through the run."""
    groups: dict[tuple[str, bool], list[Line]] = {}
    for line in lines:
        if line.model.shape == "straight" and _is_news(line) and _is_steady(line):
            groups.setdefault((line.table.title, line.model.change > 0), []).append(line)
    return [_drift(group) for group in groups.values()]


def depth_trends(lines: Sequence[Line], extremes: Sequence[Extreme]) -> list[Finding]:
    """One finding per chart whose level, and one whose spikes, grow or fall from layer to layer.

    Levels of few layers are in order by chance too often: they need to differ several times, or
    to be in the same order in two charts.
    """
    levels: list[tuple[list[Line], NDArray[np.float64]]] = []
    findings = []
    for own in _by_chart(lines):
        metric = own[0].table.metric
        level = np.array([float(np.median(line.y)) for line in own])
        errors = _LEAST_ERRORS * np.array([_standard_error(line) for line in own])
        apart = 2 * np.array([spread(line.y - np.median(line.y)) for line in own])
        least = max(least_difference(metric), *np.median([errors, apart], axis=1))
        if _is_trend(level, least):
            levels.append((own, level))
        spikes = _spikes(own, extremes)
        if _is_trend(spikes, least_difference(metric)):
            findings.append(_depth_trend(own, spikes, "the size of the spikes"))
    directions = [_gets_worse(own, level) for own, level in levels]
    for (own, level), direction in zip(levels, directions, strict=True):
        is_certain = len(own) > _FEW_LAYERS or directions.count(direction) > 1
        if is_certain or _lost_times(own[0].table.metric, level[0], level[-1]) >= _SEVERAL:
            findings.append(_depth_trend(own, level, "the level"))
    return findings


def outlier_layers(lines: Sequence[Line]) -> list[Finding]:
    """A finding per chart in which one layer's median is far from those of all others."""
    findings = []
    for own in _by_chart(lines):
        if len(own) < _FEWEST_LAYERS + 1:
            continue
        levels = np.array([float(np.median(line.y)) for line in own])
        order = np.argsort(levels)
        for odd, neighbour, others in (
            (order[-1], order[-2], levels[order[:-1]]),
            (order[0], order[1], levels[order[1:]]),
        ):
            gap = abs(float(levels[odd] - levels[neighbour]))
            needed = max(
                _ODD * float(np.ptp(others)),
                least_difference(own[odd].table.metric),
                _LEAST_ERRORS
                * float(np.hypot(_standard_error(own[odd]), _standard_error(own[neighbour]))),
            )
            few = len(own) <= _FEW_LAYERS
            times = _lost_times(own[odd].table.metric, levels[odd], levels[neighbour])
            if gap >= needed and (not few or times >= _SEVERAL):
                findings.append(_outlier_layer(own[odd], float(np.median(levels)), gap))
    return findings


def _by_chart(lines: Sequence[Line]) -> list[list[Line]]:
    titles = dict.fromkeys(line.table.title for line in lines)
    return [[line for line in lines if line.table.title == title] for title in titles]


def _gets_worse(own: Sequence[Line], level: NDArray[np.float64]) -> bool:
    return bool(worse(own[0].table.metric) * (level[-1] - level[0]) > 0)


def _lost_times(metric: str, one: float, other: float) -> float:
    """How many times more is lost in one of two values than in the other."""
    losses = sorted(abs(BEST.get(metric, 0.0) - each) for each in (one, other))
    return losses[1] / losses[0] if losses[0] else math.inf


def _worth(line: Line) -> float:
    """How many independent points the line's points are worth."""
    return max(2.0, len(line.y) * (1 - line.memory) / (1 + line.memory))


def _standard_error(line: Line) -> float:
    """Of the line's median."""
    return _MEDIAN_ERROR * line.noise / math.sqrt(_worth(line))


def _is_news(line: Line) -> bool:
    """Whether the model's change is beyond what the noise could feign."""
    change = abs(line.model.change)
    noise = max(spread(line.y - line.model.fitted), line.noise)
    n, worth = len(line.y), _worth(line) / len(line.y)
    if line.model.shape == "step":
        sides = line.model.split * worth, (n - line.model.split) * worth
        error = _MEDIAN_ERROR * noise * math.sqrt(sum(1 / max(side, 1.0) for side in sides))
    else:
        error = _MEDIAN_ERROR * noise * math.sqrt(12 / max(n * worth, 3.0))
    return change >= max(
        least_difference(line.table.metric),
        _LEAST_TIMES * (1 + 10 / n) * noise,  # of few points the spread is known badly
        _LEAST_ERRORS * error,
    )


def _is_steady(line: Line) -> bool:
    """Whether the medians of the line's fifths go one way."""
    levels = [float(np.median(part)) for part in np.array_split(line.y, 5)]
    return abs(rank_correlation(range(5), levels)) >= 0.99


def _since(line: Line) -> int:
    return int(line.x[line.model.split])


def _near(line: Line, other: tuple[str, bool, int]) -> bool:
    """Whether the shift of a line is at the moment of another one, or next to it."""
    apart = abs(int(np.searchsorted(line.x, other[2])) - line.model.split)
    return apart <= max(1, 0.01 * len(line.x))


def _shift(group: Sequence[Line]) -> Finding:
    line = max(group, key=lambda each: abs(each.model.change))
    table, before, after = line.table, float(line.model.fitted[0]), float(line.model.fitted[-1])
    layers = tuple(sorted(each.layer for each in group))
    words = [amounts.metric(table.metric, each) for each in (before, after)]
    return Finding(
        kind="sustained shift",
        recipe=table.recipe,
        chart=table.title,
        layer=line.layer,
        **place(table, _since(line)),
        value=after,
        baseline=before,
        times=abs(after - before) / line.noise,
        layers=layers,
        charts=(table.title,),
        importance=importance(table.metric, after, before, 0.4),
        sentence=f"{table.title}: from {at(table.x_name, _since(line))} on {of_layers(layers)}"
        f" {'are' if len(layers) > 1 else 'is'} {_word(table.metric, after - before)},"
        f" {words[1]} after {words[0]}{_in_layer(line, layers)}.",
    )


def _drift(group: Sequence[Line]) -> Finding:
    line = max(group, key=lambda each: abs(each.model.change))
    table, start, end = line.table, float(line.model.fitted[0]), float(line.model.fitted[-1])
    layers = tuple(sorted(each.layer for each in group))
    span = float(line.x[-1] - line.x[0])
    unit = 1e9 if table.x_name == "tokens" else 1.0
    rate = (end - start) / span * unit
    words = [amounts.metric(table.metric, each) for each in (start, end)]
    per = "10^9 tokens" if table.x_name == "tokens" else "step"
    return Finding(
        kind="drift",
        recipe=table.recipe,
        chart=table.title,
        layer=line.layer,
        **place(table, int(line.x[0])),
        value=end,
        baseline=start,
        times=abs(end - start) / line.noise,
        rate=rate,
        layers=layers,
        charts=(table.title,),
        importance=importance(table.metric, end, start, 0.2),
        sentence=f"{table.title}: {of_layers(layers)} {'drift' if len(layers) > 1 else 'drifts'}"
        f" from {words[0]} to {words[1]}{_in_layer(line, layers)}, {rate:+.3g} per {per}.",
    )


def _spikes(own: Sequence[Line], extremes: Sequence[Extreme]) -> NDArray[np.float64]:
    """Per layer how far it strays at all extreme moments; zeros if fewer than three layers do."""
    title = own[0].table.title
    of_chart = [each for each in extremes if each.line.table.title == title]
    if len({each.line.layer for each in of_chart}) < 3:
        return np.zeros(len(own))
    strayed = []
    for line in own:
        mine = [
            abs(each.value - each.baseline) for each in of_chart if each.line.layer == line.layer
        ]
        strayed.append(sum(mine))
    return np.array(strayed)


def _is_trend(values: NDArray[np.float64], least: float) -> bool:
    """Whether values of layers, in order, go one way, and far enough."""
    if len(values) < _FEWEST_LAYERS:
        return False
    third = max(1, len(values) // 3)
    rise = abs(float(np.median(values[-third:]) - np.median(values[:third])))
    needed = _FEW_CORRELATION if len(values) <= _FEW_LAYERS else _MANY_CORRELATION
    correlation = abs(rank_correlation(range(len(values)), values))
    return rise >= least and correlation >= needed


def _depth_trend(own: Sequence[Line], values: NDArray[np.float64], what: str) -> Finding:
    table = own[0].table
    correlation = rank_correlation(range(len(values)), values)
    rises = correlation > 0
    is_level = what == "the level"
    first, last = float(values[0]), float(values[-1])
    size = (
        amounts.metric(table.metric, each) if is_level else amounts.share(each)
        for each in (first, last)
    )
    text = "{} in layer {} to {} in layer {}".format(
        *(word for pair in zip(size, (own[0].layer, own[-1].layer), strict=True) for word in pair)
    )
    worth = importance(table.metric, last, first) if is_level else importance("", last, first, 0.4)
    return Finding(
        kind="depth trend",
        recipe=table.recipe,
        chart=table.title,
        layer=(own[-1] if abs(last) >= abs(first) or is_level else own[0]).layer,
        value=last,
        baseline=first,
        correlation=correlation,
        layers=tuple(line.layer for line in own),
        charts=(table.title,),
        importance=worth - 0.2,
        sentence=f"{table.title}: {what} {'grows' if rises else 'falls'} with depth, from {text}"
        f" (rank correlation {correlation:.2f}).",
    )


def _outlier_layer(line: Line, usual: float, gap: float) -> Finding:
    table, level = line.table, float(np.median(line.y))
    words = [amounts.metric(table.metric, each) for each in (level, usual)]
    return Finding(
        kind="outlier layer",
        recipe=table.recipe,
        chart=table.title,
        layer=line.layer,
        value=level,
        baseline=usual,
        times=gap / line.noise,
        layers=(line.layer,),
        charts=(table.title,),
        importance=importance(table.metric, level, usual, 0.1),
        sentence=f"{table.title}: layer {line.layer} is apart from all other layers,"
        f" {words[0]} on the median, {words[1]} over all layers.",
    )


def _word(metric: str, change: float) -> str:
    return "worse" if worse(metric) * change > 0 else "better"


def _in_layer(line: Line, layers: Sequence[int]) -> str:
    return f" (layer {line.layer})" if len(layers) > 1 else ""
