"""Two runs or more side by side: their charts aligned by x and layer, and what differs.

Everything follows from the runs' tables. Nothing here reads, draws or prints.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from numscope import amounts
from numscope.errors import UsageError
from numscope.findings.finding import SILENT, at, listed, of_layers, worse
from numscope.findings.writing import named
from numscope.tables import csv_text

if TYPE_CHECKING:
    from numscope.findings import Finding
    from numscope.series import Series

COLUMNS = (
    *("chart", "run", "layer", "x_name", "x_first", "x_run"),
    *("value_first", "value_run", "difference", "ratio"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """A run's name, the charts' tables of one recipe, and what stands out in them.

    `left_out` are the other recipes that it has.
    """

    name: str
    tables: tuple[Series, ...]
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """One chart of the first run beside the same chart of another one.

    `points` are index pairs: the first run's x, and the other's x that is nearest to it, at most
    `tolerance` away. Each x is in one pair at most.
    """

    first: Series
    other: Series
    run: str
    tolerance: float
    points: tuple[tuple[int, int], ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """Those that both have."""
        return tuple(layer for layer in self.first.layers if layer in self.other.layers)


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of the first run and the one beside it."""

    layer: int
    x_first: int
    x_other: int
    first: float
    other: float

    @property
    def change(self) -> float:
        """Other − first."""
        return self.other - self.first


def pairs(runs: Sequence[Run], tolerance: float | None = None) -> list[Pair]:
    """Every chart that the first run and another one have, aligned.

    Charts are the same if they show the same metric of the same subject, whatever their tiles.

    Parameters
    ----------
    tolerance
        How far apart x may be; half of the usual step of the run with the smaller one if `None`.

    Raises
    ------
    UsageError
        If the runs do not count the same, tokens or steps.
    """
    first, *others = runs
    found = []
    for other in others:
        there = {_chart(table): table for table in other.tables}
        for table in first.tables:
            match = there.get(_chart(table))
            if match is None:
                continue
            if match.x_name != table.x_name:
                raise UsageError(
                    f"{first.name} has {table.x_name} as its x and {other.name} {match.x_name}:"
                    " analyse both with --tokens-per-step, or neither"
                )
            near = _usual_tolerance(table, match) if tolerance is None else tolerance
            points = tuple(_nearest(table.x, match.x, near))
            found.append(Pair(table, match, other.name, near, points))
    return found


def differences(pair: Pair) -> list[Difference]:
    """Every value that both have, by x, then by layer."""
    return [
        Difference(layer, pair.first.x[i], pair.other.x[j], one, two)
        for i, j in pair.points
        for layer in pair.layers
        for one in [pair.first.values[i][pair.first.layers.index(layer)]]
        for two in [pair.other.values[j][pair.other.layers.index(layer)]]
        if not math.isnan(one) and not math.isnan(two)
    ]


def largest(pair: Pair, sign: int) -> Difference | None:
    """Where the other run is worse (sign 1) or better (-1) by most; `None` if it is nowhere."""
    direction = sign * worse(pair.first.metric)
    found = max(differences(pair), key=lambda each: direction * each.change, default=None)
    return found if found and direction * found.change > 0 else None


def to_csv(found: Sequence[Pair]) -> str:
    """Every difference as CSV: other − first, and other / first."""
    lines = (
        (
            *(_chart(pair.first), pair.run, each.layer),
            *(pair.first.x_name, each.x_first, each.x_other),
            *(each.first, each.other, each.change, each.other / each.first if each.first else ""),
        )
        for pair in found
        for each in differences(pair)
    )
    return csv_text([COLUMNS, *lines])


def text(runs: Sequence[Run], found: Sequence[Pair]) -> str:
    """compare.md: how the runs were aligned, where they differ most, and whose findings differ."""
    lines = ["# Comparison", "", *(f"- {_introduced(run)}" for run in runs), ""]
    lines += [f"- {_chart(pair.first)}, {pair.run}: {_sentence(pair)}" for pair in found]
    lines += [f"- {each}" for each in _alone(runs)]
    for run in runs:
        own = only_in(run, [other for other in runs if other is not run], found)
        lines += ["", f"## Found only in {run.name}", ""]
        lines += [f"- {named(each, has_recipe=False)}" for each in own] or ["Nothing."]
    return "\n".join(lines) + "\n"


def only_in(run: Run, others: Sequence[Run], found: Sequence[Pair]) -> list[Finding]:
    """The findings of a run that no other run has: of that kind, chart and layer, at that x."""
    near = max((pair.tolerance for pair in found), default=0.0)
    return [
        each
        for each in run.findings
        if each.kind not in SILENT
        and not any(_is_same(each, other, near) for one in others for other in one.findings)
    ]


def _introduced(run: Run) -> str:
    """The run and what of it is compared."""
    recipes = ", ".join(dict.fromkeys(table.recipe for table in run.tables))
    rest = f"; not compared: {', '.join(run.left_out)}" if run.left_out else ""
    return f"{run.name}: {recipes or 'no chart'}{rest}"


def _alone(runs: Sequence[Run]) -> Iterator[str]:
    """The charts that the first run has and another has not, or the other way round."""
    first, *others = runs
    for each in others:
        for one, other in ((first, each), (each, first)):
            there = set(map(_chart, other.tables))
            alone = [chart for chart in map(_chart, one.tables) if chart not in there]
            if alone:
                yield f"only in {one.name}, not in {other.name}: {listed(alone)}"


def _chart(table: Series) -> str:
    """What charts are the same by, whatever their tiles."""
    return f"{table.subject} {table.metric}"


def _sentence(pair: Pair) -> str:
    """How it was aligned, and where the other run is worse and better by most."""
    table = pair.first
    words = [
        f"{word} by most in layer {most.layer} at {at(table.x_name, most.x_first)},"
        f" {amounts.metric(table.metric, most.other)}"
        f" instead of {amounts.metric(table.metric, most.first)}"
        for word, sign in (("worse", 1), ("better", -1))
        for most in [largest(pair, sign)]
        if most
    ]
    nothing = "no difference" if differences(pair) else "nothing to compare"
    return f"{', '.join(_aligned(pair))}; {'; '.join(words) or nothing}."


def _aligned(pair: Pair) -> Iterator[str]:
    """What of the two charts is compared: tiles that differ, points, layers that one alone has."""
    one, other = pair.first, pair.other
    if one.tile != other.tile:
        yield f"{other.tile} beside {one.tile}"
    points = f"{len(pair.points):,} of {amounts.counted(len(one.x), 'point')}"
    yield f"{points}, {_far(pair)}" if pair.points else points
    if one.layers != other.layers:
        yield f"{of_layers(pair.layers)} only" if pair.layers else "no layer in common"


def _far(pair: Pair) -> str:
    """How far apart points are that stand beside each other, at most."""
    what = "tokens" if pair.first.x_name == "tokens" else "step"
    count = max(abs(pair.first.x[i] - pair.other.x[j]) for i, j in pair.points)
    if not count:
        return f"at the same {what}{'s' if what == 'step' else ''}"
    far = f"{amounts.tokens(count)} tokens" if what == "tokens" else amounts.counted(count, "step")
    return f"at most {far} apart"


def _is_same(one: Finding, other: Finding, near: float) -> bool:
    names = ("kind", "layer")
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    if one.chart.rpartition(" ")[0] != other.chart.rpartition(" ")[0]:  # whatever the tile
        return False
    places = [each.tokens if each.step is None else each.step for each in (one, other)]
    first, second = places
    return first == second or (
        first is not None and second is not None and abs(first - second) <= near
    )


def _usual_tolerance(one: Series, other: Series) -> float:
    steps = [
        median(b - a for a, b in zip(table.x, table.x[1:], strict=False))
        for table in (one, other)
        if len(table.x) > 1
    ]
    return min(steps, default=0) / 2


def _nearest(one: Sequence[int], other: Sequence[int], tolerance: float) -> list[tuple[int, int]]:
    """Index pairs of what is nearest to each other both ways."""

    def nearest(x: int, among: Sequence[int]) -> int:
        after = bisect_left(among, x)
        around = [i for i in (after - 1, after) if 0 <= i < len(among)]
        return min(around, key=lambda i: abs(among[i] - x))

    if not other:
        return []
    matched = [(i, nearest(x, other)) for i, x in enumerate(one)]
    return [
        (i, j)
        for i, j in matched
        if abs(one[i] - other[j]) <= tolerance and nearest(other[j], one) == i
    ]
