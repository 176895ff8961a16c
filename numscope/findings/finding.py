"""A finding: one thing that a careful reader of the charts would point at, with its numbers.

What a metric's values mean (which way is worse, how much is worth a word) is one entry of a table
here. Nothing here looks for anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from numscope import amounts

if TYPE_CHECKING:
    from numscope.series import Series, XName

FindingKind = Literal[
    "peak",
    "dip",
    "common moment",
    "sustained shift",
    "drift",
    "depth trend",
    "outlier layer",
    "saturation present",
    "overflow present",
    "non-finite present",
    "missing points",
    "flat",
    "restless",
    "too few points",
]
#: Kinds that say that nothing was found.
SILENT: frozenset[FindingKind] = frozenset({"flat", "restless", "too few points"})

#: What a metric is when nothing was lost; 0 for all others, which rise as more is lost.
BEST = {"distortion": 1.0, "cosine": 1.0, "min_row_cosine": 1.0, "sqnr_db": math.inf}

#: A smaller difference is never news, however regular the rest is.
_LEAST = {"sqnr_db": 1.0}
_LEAST_OF_OTHERS = 2e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that stands out. Its fields are the columns of findings.csv.

    Attributes
    ----------
    kind
        One of `FindingKind`.
    recipe, chart
        Whose numbers these are, and the title of the chart that shows it best; `""` if it is of no
        single chart.
    layer
        The layer that shows it best, `None` if it is of no single layer.
    tokens, step
        Where it is, or from where on; the one that the chart's x counts, the other is `None`.
    value, baseline
        What is there, and what would be usual there. Of a shift: after and before. Of a drift: at
        its end and at its start. Of a depth trend: in the last and in the first layer. Of an
        outlier layer: its median and the median of all layers. NaN if that means nothing.
    times
        How many times the noise `value` lies beyond `baseline`; NaN if that means nothing.
    rate
        Of a drift: change per 10⁹ tokens or per step. NaN otherwise.
    correlation
        Of a depth trend: Spearman's rank correlation with depth. NaN otherwise.
    layers, charts
        All layers and all charts that show it.
    importance
        Findings are ranked by it, the largest first: about the decimal logarithm of how many times
        `value - baseline` exceeds the least difference that is worth a word.
    sentence
        All of it in plain words.
    """

    kind: FindingKind
    recipe: str
    chart: str = ""
    layer: int | None = None
    tokens: int | None = None
    step: int | None = None
    value: float = math.nan
    baseline: float = math.nan
    times: float = math.nan
    rate: float = math.nan
    correlation: float = math.nan
    layers: tuple[int, ...] = ()
    charts: tuple[str, ...] = ()
    importance: float = field(default=0.0, compare=False)
    sentence: str = ""


COLUMNS: tuple[str, ...] = tuple(each.name for each in fields(Finding))


def least_difference(metric: str) -> float:
    """The smallest difference of a metric that is worth a word."""
    return _LEAST.get(metric, _LEAST_OF_OTHERS)


def worse(metric: str) -> int:
    """1 if higher values of the metric are worse, -1 if lower ones are."""
    return -1 if BEST.get(metric, 0.0) > 0 else 1


def importance(metric: str, value: float, baseline: float, bonus: float = 0.0) -> float:
    """How much a change from `baseline` to `value` matters; a change for the better one less."""
    change = worse(metric) * (value - baseline)
    size = math.log10(max(abs(change) / least_difference(metric), 1e-3))
    return size + bonus - (change < 0)


def place(table: Series, x: int) -> dict[str, Any]:
    """The field of a finding that says where it is."""
    return {table.x_name: x}


def at(x_name: XName, x: int) -> str:
    """Where something is, in words: `2,500 B tokens`, `step 720`."""
    return f"{amounts.tokens(x)} tokens" if x_name == "tokens" else f"step {x:,}"


def listed(words: list[str]) -> str:
    """Words in a row: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def of_layers(layers: tuple[int, ...]) -> str:
    """Layers in words: `layer 16`, `layers 0-16`."""
    return f"layer{'s' if len(layers) > 1 else ''} {amounts.span(layers)}"
