"""The wide tables behind the charts: tokens × layers, one per chart, chosen from layers.csv.

This is where it is decided which rows belong to which chart and what the chart is called. Nothing
here draws and nothing here measures.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from numscope.dumps.refs import KINDS
from numscope.errors import RecipeError
from numscope.measure import ErrorSums
from numscope.tables import LayerRow, csv_text, sort_rows
from numscope.written import parse, parse_tile

XName = Literal["tokens", "step"]
ZeroRows = Literal["skip", "zero", "one"]
#: Which cosine is called distortion: the mean over tokens, or that of whole tensors.
Distortion = Literal["distortion", "cosine"]

#: What the kinds are called in a chart's title and, with underscores, in its file name.
_SUBJECTS = {
    "activation": "activations",
    "gradient": "gradients",
    "weight": "weights",
    "output": "outputs",
    "input_gradient": "input gradients",
    "weight_gradient": "weight gradients",
}
#: The kinds that are measured with the recipe's own tile alone.
_UPRIGHT = ("activation", "output")


@dataclass(frozen=True, slots=True)
class Series:
    """One chart's numbers: a value per x and layer.

    Attributes
    ----------
    subject
        What is quantized, in the chart's words: `activations`, `gradient transpose`, …
    metric
        The column of layers.csv that is shown: `underflow`, `distortion`, …
    recipe, tile
        As in layers.csv; the tile is written `1x128`.
    x_name
        What `x` counts: `tokens`, or `step` if the dump does not say how many tokens.
    x
        Increasing, each once.
    layers
        Increasing.
    values
        `values[i][j]` belongs to `x[i]` and `layers[j]`; NaN where there is no such tensor.
    """

    subject: str
    metric: str
    recipe: str
    tile: str
    x_name: XName
    x: tuple[int, ...]
    layers: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    @property
    def title(self) -> str:
        """As in the published figure: `gradient transpose underflow (128,1)`."""
        return f"{self.subject} {self.metric.replace('_', ' ')} ({self.tile.replace('x', ',')})"

    @property
    def name(self) -> str:
        """The file name without its suffix: `gradient_transpose_underflow_128x1`."""
        tile = self.tile.replace("*", "all")
        return f"{self.subject} {self.metric} {tile}".replace(" ", "_")

    def column(self, layer: int) -> tuple[float, ...]:
        """The values of one layer, one per x."""
        j = self.layers.index(layer)
        return tuple(values[j] for values in self.values)


def series(
    rows: Iterable[LayerRow],
    metrics: Sequence[str],
    *,
    zero_rows: ZeroRows = "skip",
    tiles: Mapping[str, str] | None = None,
) -> list[Series]:
    """Every chart's table for each metric, per recipe: by kind, row tiles before column tiles.

    Parameters
    ----------
    rows
        Of layers.csv, in any order. Rows without a layer belong to no chart, nor do rows without
        a step and tokens if others have them. Of two steps with the same tokens, as after a
        restart, the later one is shown.
    metrics
        Columns of layers.csv.
    zero_rows
        What rows of nothing but zeros are in the mean that `distortion` is: left out, as in
        layers.csv, or counted as 0, as some published code does, or as 1.
    tiles
        As for `turned_tiles`.
    """
    x_name, known = _dated(sort_rows(row for row in rows if row.layer is not None))
    turned = turned_tiles(known, tiles)
    groups: dict[tuple[str, str, str], list[LayerRow]] = {}
    for row in known:
        groups.setdefault((row.recipe, row.kind, row.tile), []).append(row)
    ordered = sorted(groups, key=lambda key: (key[0], place(key[1]), key in turned, key[2]))
    return [
        _series(groups[key], subject(key[1], is_turned=key in turned), metric, x_name, zero_rows)
        for key in ordered
        for metric in metrics
    ]


def turned_tiles(
    rows: Collection[LayerRow], tiles: Mapping[str, str] | None = None
) -> set[tuple[str, str, str]]:
    """Of which recipe, kind and tile the rows are of gradients, with the recipe's tile turned.

    Parameters
    ----------
    tiles
        The recipes' own tiles, as `own_tiles` has them of all rows of a run, where these are some.
        Where nothing tells the tile of a recipe, it is the one that is wider than high.
    """
    own = own_tiles(rows, tiles)
    keys = {(row.recipe, row.kind, row.tile) for row in rows if row.kind.endswith("gradient")}
    return {
        (recipe, kind, tile)
        for recipe, kind, tile in keys
        if (tile != own[recipe] if recipe in own else _is_high(tile))
    }


def own_tiles(
    rows: Collection[LayerRow], recorded: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The tile that each recipe has itself, by its name in the tables, as far as it can be told.

    Parameters
    ----------
    rows
        Of layers.csv. A recipe under a name of someone's own has the tile that others than
        gradients and weights were measured with; one that `parse` knows, the one it says.
    recorded
        What is known about the run, which comes before what the rows say.
    """
    upright = {row.recipe: row.tile for row in rows if row.kind in _UPRIGHT}
    written = {recipe: _written_tile(recipe) for recipe in {row.recipe for row in rows}}
    known = {recipe: tile for recipe, tile in written.items() if tile is not None}
    return {**upright, **known, **(recorded or {})}


def subject(kind: str, *, is_turned: bool) -> str:
    """What a kind is called in charts, and if its tile is turned."""
    found = _SUBJECTS.get(kind, kind.replace("_", " "))
    return f"{found.removesuffix('s')} transpose" if is_turned else found


def value_of(sums: ErrorSums, metric: str, zero_rows: ZeroRows) -> float:
    """A metric of the record, zero rows counted as is asked for."""
    if metric != "distortion" or zero_rows == "skip" or not sums.row_count:
        return float(getattr(sums, metric))
    ones = sums.zero_rows if zero_rows == "one" else 0
    return (sums.sum_row_cosine + ones) / sums.row_count


def x_name_of(rows: Iterable[LayerRow]) -> XName:
    """What the x of these rows' charts counts."""
    return _dated([row for row in rows if row.layer is not None])[0]


def to_csv(table: Series) -> str:
    """The wide table as CSV: a column for x, one per layer; empty where there is no tensor."""
    lines = (
        (x, *("" if math.isnan(value) else value for value in values))
        for x, values in zip(table.x, table.values, strict=True)
    )
    return csv_text([(table.x_name, *table.layers), *lines])


def place(kind: str) -> tuple[int, str]:
    """Where a kind's charts come; kinds of someone's own, in tables edited by hand, come last."""
    known: tuple[str, ...] = KINDS
    return (known.index(kind) if kind in known else len(known)), kind


def _written_tile(recipe: str) -> str | None:
    """The tile of a recipe by its name or written form; `None` if it is neither."""
    try:
        return parse(recipe).tile_text
    except RecipeError:
        return None


def _is_high(tile: str) -> bool:
    rows, cols = (math.inf if extent is None else extent for extent in parse_tile(tile))
    return rows > cols


def _series(
    rows: Sequence[LayerRow], name: str, metric: str, x_name: XName, zero_rows: ZeroRows
) -> Series:
    values = {key: value_of(sums, metric, zero_rows) for key, sums in _points(rows, x_name).items()}
    xs = tuple(sorted({x for x, _ in values}))
    layers = tuple(sorted({layer for _, layer in values}))
    return Series(
        subject=name,
        metric=metric,
        recipe=rows[0].recipe,
        tile=rows[0].tile,
        x_name=x_name,
        x=xs,
        layers=layers,
        values=tuple(tuple(values.get((x, layer), math.nan) for layer in layers) for x in xs),
    )


def _points(rows: Sequence[LayerRow], x_name: XName) -> dict[tuple[int, int], ErrorSums]:
    """The records by x and layer: rows of one step are added, of two steps the later one stays."""
    points: dict[tuple[int, int], tuple[int | None, ErrorSums]] = {}
    for row in rows:
        key = getattr(row, x_name) or 0, row.layer or 0
        step, sums = points.get(key, (None, None))
        is_same = sums is not None and step == row.step
        points[key] = row.step, (sums + row.sums if sums and is_same else row.sums)
    return {key: sums for key, (_, sums) in points.items()}


def _dated(rows: Sequence[LayerRow]) -> tuple[XName, list[LayerRow]]:
    """What x counts, and the rows that say it; all of them, at 0, if none says anything.

    It counts tokens unless a row knows its step but not its tokens.
    """
    has_tokens = any(row.tokens is not None for row in rows)
    is_mixed = any(row.tokens is None and row.step is not None for row in rows)
    x_name: XName = "tokens" if has_tokens and not is_mixed else "step"
    dated = [row for row in rows if getattr(row, x_name) is not None]
    return x_name, dated or list(rows)
