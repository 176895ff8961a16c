"""Recipes side by side: what each costs, and its worst and its median layer, kind by kind.

From where the recipes stand; the table at the end of `analyze`, and recipes.csv. Nothing here
prints or decides which recipe is good enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from numscope.findings.finding import worse
from numscope.standings import Standing, middle
from numscope.tables import csv_text

#: The metrics that recipes are compared by.
METRICS = ("underflow", "distortion", "sqnr_db")

COLUMNS = (
    *("kind", "recipe", "tile", "bits", "layers"),
    *(f"{name}_{what}" for name in METRICS for what in ("worst", "worst_layer", "median")),
    "overflow_count",
)


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric over the layers, each with its value over the whole run.

    Attributes
    ----------
    worst, layer
        The worst value and the first layer that has it; `None` for modules without a layer.
    median
        The value of the layer in the `middle`.
    """

    worst: float
    layer: int | None
    median: float


@dataclass(frozen=True, slots=True)
class Score:
    """One recipe and kind: its bits per value, how many layers, and a spread for each metric.

    `spreads` are in the order of `METRICS`; `None` where no layer has a value. `overflow_count` is
    how many finite values became infinite or NaN, which distortion and SQNR leave out.
    """

    kind: str
    recipe: str
    tile: str
    bits: float
    layers: int
    spreads: tuple[Spread | None, ...]
    overflow_count: int = 0


def scores(standings: Iterable[Standing]) -> list[Score]:
    """Every recipe's score: by kind as charts are, then the cheapest first, of these the best.

    Best is whose worst layer has the highest distortion; a recipe that overflows is behind others.

    Parameters
    ----------
    standings
        In the order that `standings.standings` gives.
    """
    groups = groupby(standings, lambda each: (each.kind, each.recipe, each.tile))
    found = [_score(list(own)) for _, own in groups]
    kinds = list(dict.fromkeys(each.kind for each in found))
    return sorted(found, key=lambda each: (kinds.index(each.kind), *_rank(each)))


def to_csv(found: Iterable[Score]) -> str:
    """recipes.csv: a line per kind and recipe, empty where there is no value or no layer."""
    lines = (
        (
            *(each.kind, each.recipe, each.tile, each.bits, each.layers),
            *(
                cell
                for of in each.spreads
                for cell in ((of.worst, of.layer, of.median) if of else ("", "", ""))
            ),
            each.overflow_count,
        )
        for each in found
    )
    return csv_text([COLUMNS, *lines])


def _score(own: Sequence[Standing]) -> Score:
    first = own[0]
    return Score(
        kind=first.kind,
        recipe=first.recipe,
        tile=first.tile,
        bits=first.bits,
        layers=len(own),
        spreads=tuple(_spread(own, metric) for metric in METRICS),
        overflow_count=sum(each.sums.overflow_count for each in own),
    )


def _spread(own: Sequence[Standing], metric: str) -> Spread | None:
    sign = worse(metric)
    values = [(float(getattr(each.sums, metric)), each.layer) for each in own]
    ranked = sorted(
        (pair for pair in values if not math.isnan(pair[0])), key=lambda pair: -sign * pair[0]
    )
    if not ranked:
        return None
    return Spread(*ranked[0], median=middle(ranked)[0])


def _rank(each: Score) -> tuple[object, ...]:
    distortion = each.spreads[METRICS.index("distortion")]
    loss = -distortion.worst if distortion else math.inf
    return (each.bits, each.overflow_count > 0, loss, each.recipe)
