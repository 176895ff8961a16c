"""Rules such as `underflow<0.01`, and what breaks them: for jobs that shall stop in time.

A rule is parsed once, into a value; checking is a pure function of the rows. Nothing here reads a
results folder or prints.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numscope import toml_files
from numscope.dumps.refs import KINDS
from numscope.errors import UsageError
from numscope.ranges import parse_range
from numscope.tables import LAYER_COLUMNS, LayerRow
from numscope.written import among

if TYPE_CHECKING:
    from numscope.measure import ErrorSums
    from numscope.series import XName
    from numscope.standings import Standing

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_RULE = re.compile(
    r"\s*(?P<metric>\w+)\s*(?:\[(?P<where>[^\]]*)\])?\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S+)\s*"
)
_TILE = re.compile(r"(\d+|\*)x(\d+|\*)")
_LAYER = re.compile(r"(?:layers?[ =]?)?(\d+(?:-\d+)?)")
#: The columns that hold a number that a rule can be about.
METRICS = LAYER_COLUMNS[LAYER_COLUMNS.index("count") :]


@dataclass(frozen=True, slots=True)
class MetricRule:
    """What must hold for a metric in all rows that match.

    Attributes
    ----------
    text
        As written.
    metric, sign, limit
        `metric` is a number's column of layers.csv, `sign` one of `<`, `<=`, `>` and `>=`.
    kind, tile, recipe
        Which rows it is about; `None` for all.
    layers
        First and last one, `None` for all.
    """

    text: str
    metric: str
    sign: str
    limit: float
    kind: str | None = None
    tile: str | None = None
    recipe: str | None = None
    layers: tuple[int, int] | None = None

    def matches(self, row: LayerRow | Standing) -> bool:
        """Whether the rule is about this row, or about this recipe in this layer."""
        pairs = ((self.kind, row.kind), (self.tile, row.tile), (self.recipe, row.recipe))
        is_in = self.layers is None or (
            row.layer is not None and self.layers[0] <= row.layer <= self.layers[1]
        )
        return is_in and all(wanted in (None, there) for wanted, there in pairs)

    def holds(self, row: LayerRow | ErrorSums) -> bool:
        """Whether the row or record keeps the rule."""
        return _COMPARISONS[self.sign](getattr(row, self.metric), self.limit)

    def excess(self, row: LayerRow | ErrorSums) -> float:
        """How far the row or record is beyond the limit, negative if it is within."""
        beyond = float(getattr(row, self.metric)) - self.limit
        return beyond if self.sign.startswith("<") else -beyond


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one rule fared: how many rows it is about, those that break it, the first, the worst."""

    rule: MetricRule
    rows: int
    failures: int
    first: LayerRow | None
    worst: LayerRow | None

    @property
    def passed(self) -> bool:
        """Whether every row kept it."""
        return self.failures == 0


def parse(text: str, recipes: Sequence[str] = ()) -> MetricRule:
    """The rule that is written so: a metric, in brackets what it is about, a comparison, a number.

    In brackets stand a kind, a tile, layers or one of `recipes` in any spelling, in any order.

    >>> rule = parse("distortion[gradient,128x1]>0.98")
    >>> rule.metric, rule.kind, rule.tile, rule.sign, rule.limit
    ('distortion', 'gradient', '128x1', '>', 0.98)

    Raises
    ------
    UsageError
        If it cannot be understood.
    """
    match = _RULE.fullmatch(text)
    if not match:
        raise UsageError(
            f"rule {text!r} is not written like underflow<0.01 or distortion[gradient,128x1]>0.98"
        )
    if match["metric"] not in METRICS:
        raise UsageError(f"rule {text!r}: no metric {match['metric']!r}; {_known()}")
    try:
        limit = float(match["limit"])
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise UsageError(f"rule {text!r}: {match['limit']!r} is no number")
    where: dict[str, Any] = {}
    for word in filter(None, map(str.strip, (match["where"] or "").split(","))):
        name, value = _condition(word, recipes)
        if name in where:
            raise UsageError(f"rule {text!r} names two of {name}: {where[name]} and {value}")
        where[name] = value
    return MetricRule(text.strip(), match["metric"], match["sign"], limit, **where)


def parse_all(text: str, recipes: Sequence[str] = ()) -> list[MetricRule]:
    """The rules that are written one after the other, with commas between them; as for `parse`.

    >>> [rule.text for rule in parse_all("mse<1, underflow[gradient,0-3]<=0.001")]
    ['mse<1', 'underflow[gradient,0-3]<=0.001']

    Raises
    ------
    UsageError
        If one of them cannot be understood, or there is none.
    """
    found = [parse(each, recipes) for each in re.split(r",(?![^\[\]]*\])", text) if each.strip()]
    if not found:
        raise UsageError(f"there is no rule in {text!r}; write it like distortion>=0.999,mse<1")
    return found


def read(path: Path) -> list[str]:
    """The rules of a TOML file: the texts of its list `rules`.

    Raises
    ------
    UsageError
        If there is no such file, or no such list in it.
    """
    found = toml_files.read(path).get("rules")
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UsageError(f'{path} has no list of rules: rules = ["underflow<0.01", ...]')
    return found


def check(rule: MetricRule, rows: Sequence[LayerRow], x_name: XName = "tokens") -> Outcome:
    """How the rule fares; rows whose value is not known (NaN) are none of its.

    Raises
    ------
    UsageError
        If it is about none of the rows: a rule that checks nothing must not pass.
    """
    own = [row for row in rows if rule.matches(row) and not math.isnan(getattr(row, rule.metric))]
    if not own:
        raise UsageError(f"rule {rule.text!r} matches nothing in the results")
    broken = [row for row in own if not rule.holds(row)]
    return Outcome(
        rule=rule,
        rows=len(own),
        failures=len(broken),
        first=min(broken, key=lambda row: getattr(row, x_name) or 0, default=None),
        worst=max(broken, key=rule.excess, default=None),
    )


def is_condition(word: str) -> bool:
    """Whether a word in brackets means a kind, a tile or layers, whatever its case.

    >>> [is_condition(word) for word in ("gradients", "128x1", "Layer4", "ling")]
    [True, True, True, False]
    """
    plain = word.lower()
    is_kind = plain.removesuffix("s") in KINDS
    return is_kind or any(each.fullmatch(plain) for each in (_TILE, _LAYER))


def _condition(word: str, recipes: Sequence[str]) -> tuple[str, Any]:
    """What a word in brackets narrows, and to what; a word of letters is a kind."""
    if word in recipes:
        return "recipe", word
    if _TILE.fullmatch(word):
        return "tile", word
    layers = _LAYER.fullmatch(word)
    if layers:
        span = parse_range(layers[1])
        return "layers", (span[0], span[-1])
    recipe = among(word, recipes)
    return ("recipe", recipe) if recipe else ("kind", word.removesuffix("s"))


def _known() -> str:
    return f"known are {', '.join(METRICS)}"
