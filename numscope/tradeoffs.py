"""The tables behind the charts of recipes: what each loses per layer over the whole run, and costs.

From where the recipes stand; one table per kind. Nothing here draws or decides which recipe is good
enough.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from numscope.series import Distortion, ZeroRows, subject, value_of
from numscope.standings import TRANSPOSE, Standing, middle
from numscope.tables import csv_text
from numscope.views import lost


@dataclass(frozen=True, slots=True)
class Losses:
    """What a recipe loses by one metric: a value per layer of the table, NaN where it has none."""

    values: tuple[float, ...]

    @property
    def worst(self) -> float:
        """That of the layer that loses most; NaN if none has a value."""
        return max(self._known, default=math.nan)

    @property
    def median(self) -> float:
        """That of the layer in the `middle`; NaN if none has a value."""
        known = sorted(self._known, reverse=True)
        return middle(known) if known else math.nan

    @property
    def _known(self) -> list[float]:
        return [value for value in self.values if not math.isnan(value)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One recipe of a table: its bits per value with its share of the scales, and its losses."""

    recipe: str
    tile: str
    bits: float
    loss: Losses
    underflow: Losses


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The recipes that one kind was measured with, side by side.

    Attributes
    ----------
    subject
        In the charts' words: `activations`, `gradient transpose`, …
    metric
        What the entries' `loss` is: `distortion_loss` or `cosine_loss`, 1 − the value.
    layers
        Increasing.
    entries
        Two or more, in the order that they have in the tables of all kinds: see `tradeoffs`.
    """

    subject: str
    metric: str
    layers: tuple[int, ...]
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """The file name without its suffix: `recipes_gradient_transpose`."""
        return f"recipes {self.subject}".replace(" ", "_")


def tradeoffs(
    standings: Iterable[Standing],
    *,
    distortion: Distortion = "distortion",
    zero_rows: ZeroRows = "skip",
    layers: Collection[int] | None = None,
) -> list[Tradeoff]:
    """A table for each kind that was measured with several recipes, in the order of the charts.

    Recipes come in the same order in all of them: by their bits in the first kind that they have,
    then by name. Weights have tiles of their own, and may have another order of bits.

    Parameters
    ----------
    standings
        In the order that `standings.standings` gives. Modules without a layer are in no chart.
    distortion, zero_rows
        As for `gallery.tables_of`.
    layers
        Which layers, all if `None`.
    """
    found = [
        each
        for each in standings
        if each.layer is not None and (layers is None or each.layer in layers)
    ]
    bits: dict[str, float] = {}
    for each in found:
        bits.setdefault(each.recipe, each.bits)
    recipes = sorted(bits, key=lambda recipe: (bits[recipe], recipe))
    by_kind: dict[str, dict[str, list[Standing]]] = {}
    for each in found:
        by_kind.setdefault(each.kind, {}).setdefault(each.recipe, []).append(each)
    return [
        _tradeoff(kind, [own[recipe] for recipe in recipes if recipe in own], distortion, zero_rows)
        for kind, own in by_kind.items()
        if len(own) > 1
    ]


def to_csv(table: Tradeoff) -> str:
    """The table as CSV: a line per metric and recipe, a column per layer; empty where no value."""
    lines: list[tuple[object, ...]] = [
        ("metric", "recipe", "tile", "bits", "median", "worst", *table.layers)
    ]
    for metric in (table.metric, "underflow"):
        for each in table.entries:
            losses = each.underflow if metric == "underflow" else each.loss
            numbers = (losses.median, losses.worst, *losses.values)
            cells = ("" if math.isnan(number) else number for number in numbers)
            lines.append((metric, each.recipe, each.tile, each.bits, *cells))
    return csv_text(lines)


def _tradeoff(
    kind: str, groups: list[list[Standing]], distortion: Distortion, zero_rows: ZeroRows
) -> Tradeoff:
    layers = tuple(sorted({each.layer or 0 for own in groups for each in own}))
    return Tradeoff(
        subject=subject(kind.removesuffix(TRANSPOSE), is_turned=kind.endswith(TRANSPOSE)),
        metric=f"{distortion}_loss",
        layers=layers,
        entries=tuple(_entry(own, layers, distortion, zero_rows) for own in groups),
    )


def _entry(
    own: list[Standing], layers: tuple[int, ...], distortion: Distortion, zero_rows: ZeroRows
) -> Entry:
    kept = {each.layer: value_of(each.sums, distortion, zero_rows) for each in own}
    flushed = {each.layer: each.sums.underflow for each in own}
    return Entry(
        recipe=own[0].recipe,
        tile=own[0].tile,
        bits=own[0].bits,
        loss=Losses(tuple(lost(kept.get(layer, math.nan)) for layer in layers)),
        underflow=Losses(tuple(flushed.get(layer, math.nan) for layer in layers)),
    )
