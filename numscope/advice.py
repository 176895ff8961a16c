"""Which recipe would have been fine: for each layer and kind the cheapest that keeps a tolerance.

From where the recipes stand, by rules as `check` has them. Nothing here prints or reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from numscope import json_text
from numscope.errors import UsageError
from numscope.findings.finding import BEST, least_difference
from numscope.rules import MetricRule
from numscope.standings import Standing
from numscope.tables import csv_text

#: What must keep the tolerance: every step, or the merged record of the whole run.
Per = Literal["step", "run"]

#: What must be kept too, unless a rule that is about the same speaks of it: infinite values and
#: NaN, into which finite ones were turned, are left out of all other metrics.
_NO_OVERFLOW = MetricRule("overflow<=0", "overflow", "<=", 0.0)


@dataclass(frozen=True, slots=True)
class Point:
    """Where a recipe comes nearest to breaking a rule, or breaks it by most.

    Attributes
    ----------
    value
        Of the rule's metric.
    excess
        How far it is beyond the limit, negative if it is within.
    layer, tokens, step
        Where; tokens and step are `None` for the whole run.
    """

    rule: MetricRule
    value: float
    excess: float
    is_kept: bool
    layer: int | None
    tokens: int | None = None
    step: int | None = None

    @property
    def strain(self) -> float:
        """The excess in units of the loss that the limit allows, to compare metrics by.

        A distortion of 0.99 where 0.999 is asked for loses 0.01 instead of 0.001: its strain is 9.
        Where a limit allows none, or in decibels, the unit is the least difference worth a word.
        """
        metric = self.rule.metric
        allowed = abs(self.rule.limit - BEST.get(metric, 0.0))
        is_unit = 0 < allowed < math.inf
        return self.excess / (allowed if is_unit else least_difference(metric))


@dataclass(frozen=True, slots=True)
class Trial:
    """A recipe, held against the tolerance in some layers, for one kind.

    Attributes
    ----------
    kind, recipe, tile, bits
        As of a `Standing`.
    layers
        Which; `None` stands for the modules without a layer.
    tolerance
        All of its rules, also those that are about other kinds or recipes.
    points
        For each rule that is about it and of whose metric a value is known, in their order, the
        hardest point. That there is no overflow is the last rule, if none of them is about it.
    """

    kind: str
    recipe: str
    tile: str
    bits: float
    layers: tuple[int | None, ...]
    tolerance: tuple[MetricRule, ...]
    points: tuple[Point, ...]

    @property
    def is_kept(self) -> bool:
        """Whether it keeps all of the tolerance."""
        return all(point.is_kept for point in self.points)

    @property
    def missed(self) -> Point | None:
        """The point that breaks its rule by most, `None` if all are kept."""
        broken = (point for point in self.points if not point.is_kept)
        return max(broken, key=lambda point: point.strain, default=None)

    @property
    def excesses(self) -> tuple[float, ...]:
        """The excess over each rule of the tolerance, infinite where no value is known of one."""
        known = {point.rule: point.excess for point in self.points}
        return tuple(known.get(rule, math.inf) for rule in self.tolerance)

    @property
    def values(self) -> dict[str, float]:
        """The value at the hardest point by metric; of two rules for one the first one's."""
        found: dict[str, float] = {}
        for point in self.points:
            found.setdefault(point.rule.metric, point.value)
        return found


@dataclass(frozen=True, slots=True)
class Advice:
    """What to use for one kind in some layers.

    Attributes
    ----------
    best
        The cheapest recipe that keeps the tolerance; if there is none, the nearest one.
    keeping
        All recipes that keep it, the best one first.
    """

    best: Trial
    keeping: tuple[str, ...]


def trials(standings: Iterable[Standing], tolerance: Sequence[MetricRule], per: Per) -> list[Trial]:
    """Every recipe, held against the tolerance in each layer and kind that it is about.

    What no value is known of, such as the distortion of nothing but zeros, keeps nothing and breaks
    nothing: there is no trial of it.

    Parameters
    ----------
    standings
        In the order that `standings.standings` gives.
    tolerance
        Their kinds are those of the standings: `gradient` is not about a gradient transpose. A rule
        about one recipe limits only that recipe.
    per
        What must keep it.

    Raises
    ------
    UsageError
        If a rule is about nothing, or about no value that is known: it would seem to be kept.
    """
    found = []
    used: set[MetricRule] = set()
    for each in standings:
        own = [rule for rule in tolerance if rule.matches(each)]
        if not own:
            continue
        if not any(rule.metric.startswith("overflow") for rule in own):
            own.append(_NO_OVERFLOW)
        points = tuple(point for rule in own if (point := _hardest(rule, each, per)))
        trial = Trial(
            kind=each.kind,
            recipe=each.recipe,
            tile=each.tile,
            bits=each.bits,
            layers=(each.layer,),
            tolerance=tuple(tolerance),
            points=points,
        )
        judged = {point.rule for point in points if point.rule in tolerance}
        used |= judged
        if judged or not trial.is_kept:
            found.append(trial)
    for rule in tolerance:
        if rule not in used:
            raise UsageError(f"rule {rule.text!r} matches nothing in the results")
    return found


def by_layer(tried: Iterable[Trial]) -> list[Advice]:
    """The advice for each kind and layer: by kind in the order of the trials, then by layer."""
    groups: dict[tuple[str, int | None], list[Trial]] = {}
    for trial in tried:
        groups.setdefault((trial.kind, trial.layers[0]), []).append(trial)
    kinds = list(dict.fromkeys(kind for kind, _ in groups))
    order = sorted(groups, key=lambda at: (kinds.index(at[0]), at[1] is None, at[1] or 0))
    return [_advice(groups[key]) for key in order]


def by_kind(tried: Iterable[Trial]) -> list[Advice]:
    """The advice for each kind if all of its layers shall have the same recipe."""
    found = []
    for _, of_kind in groupby(tried, lambda trial: trial.kind):
        of_recipe = [list(own) for _, own in groupby(of_kind, lambda trial: trial.recipe)]
        most = max(map(len, of_recipe))
        found.append(_advice([_joined(own) for own in of_recipe if len(own) == most]))
    return found


def alike(found: Iterable[Advice]) -> list[Trial]:
    """The best trials of layers of one kind with the same recipe, kept or not, as one each."""
    groups: dict[tuple[str, bool, str], list[Trial]] = {}
    for best in (each.best for each in found):
        groups.setdefault((best.kind, best.is_kept, best.recipe), []).append(best)
    return [_joined(own) for own in groups.values()]


def to_json(advice: Advice) -> dict[str, Any]:
    """The advice for one layer and kind as an object for JSON, `null` where there is nothing."""
    best = advice.best
    missed = best.missed
    return {
        "kind": best.kind,
        "layer": best.layers[0],
        "recipe": None if missed else best.recipe,
        "nearest": best.recipe if missed else None,
        "tile": best.tile,
        "bits": best.bits,
        "values": {name: json_text.number(value) for name, value in best.values.items()},
        "missed": missed.rule.text if missed else None,
        "by": json_text.number(missed.excess) if missed else None,
        "tokens": missed.tokens if missed else None,
        "step": missed.step if missed else None,
        "keeping": list(advice.keeping),
    }


def to_csv(found: Iterable[Advice]) -> str:
    """advise.csv: a line per layer and kind, a column per metric, empty where there is nothing.

    The recipes that keep the tolerance are joined by `;`.
    """
    records = [to_json(each) for each in found]
    metrics = list(dict.fromkeys(name for each in records for name in each["values"]))
    heads = [name for name in records[0] if name != "values"] if records else []
    for each in records:
        each["keeping"] = ";".join(each["keeping"])
    lines = (
        [*(each[name] for name in heads), *(each["values"].get(name) for name in metrics)]
        for each in records
    )
    return csv_text([[*heads, *metrics], *lines])


def _hardest(rule: MetricRule, standing: Standing, per: Per) -> Point | None:
    """Where the rule is hardest to keep, `None` if no value is known."""
    records = standing.rows if per == "step" else (standing.sums,)
    known = [each for each in records if not math.isnan(getattr(each, rule.metric))]
    if not known:
        return None
    worst = max(known, key=rule.excess)
    return Point(
        rule=rule,
        value=float(getattr(worst, rule.metric)),
        excess=rule.excess(worst),
        is_kept=rule.holds(worst),
        layer=standing.layer,
        tokens=getattr(worst, "tokens", None),
        step=getattr(worst, "step", None),
    )


def _joined(own: Sequence[Trial]) -> Trial:
    """One recipe's trials in several layers as one, with the hardest point of each rule."""
    hardest: dict[MetricRule, Point] = {}
    for point in (point for trial in own for point in trial.points):
        known = hardest.get(point.rule)
        if known is None or point.excess > known.excess:
            hardest[point.rule] = point
    layers = tuple(layer for trial in own for layer in trial.layers)
    return replace(own[0], layers=layers, points=tuple(hardest.values()))


def _advice(tried: Sequence[Trial]) -> Advice:
    """The cheapest of the recipes that keep the tolerance, or else the nearest."""
    keeping = sorted((trial for trial in tried if trial.is_kept), key=_price)
    best = keeping[0] if keeping else min(tried, key=_distance)
    return Advice(best, tuple(trial.recipe for trial in keeping))


def _price(trial: Trial) -> tuple[float, tuple[float, ...], str]:
    """The bits; of equally cheap ones the first rule decides, then the next ones."""
    return trial.bits, trial.excesses, trial.recipe


def _distance(trial: Trial) -> tuple[bool, float, float, str]:
    """What overflows is farther than anything else."""
    broken = [point for point in trial.points if not point.is_kept]
    is_overflow = any(point.rule is _NO_OVERFLOW for point in broken)
    strain = max((point.strain for point in broken), default=-math.inf)
    return is_overflow, strain, trial.bits, trial.recipe
