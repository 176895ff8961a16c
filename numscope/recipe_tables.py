"""What `analyze` and `advise` show of several recipes: tables side by side, and which one will do.

Only how it looks is decided here; the numbers are those of `scores` and `advice`.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text

from numscope import amounts
from numscope.advice import alike
from numscope.console import folded, grid, print_plain, print_sentence, print_table
from numscope.findings import is_lossless
from numscope.findings.finding import at
from numscope.scores import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

    from numscope.advice import Advice, Point, Trial
    from numscope.scores import Score, Spread

#: A recipe's name is not folded to less where the rest of a table fits beside it.
_LEAST_OF_A_NAME = 12
#: So many metrics have a column of advice; advise.csv has all.
_MOST_METRICS = 3


def print_scores(console: Console, scores: Sequence[Score]) -> None:
    """Print a table per kind, all of the same widths: every recipe's worst and median layer.

    The number of the worst layer stands behind its value, as `L16`. Names too long for their column
    have a line of their own. Below is said what overflows.
    """
    spreads = [
        _spread_cells(name, [each.spreads[i] for each in scores]) for i, name in enumerate(METRICS)
    ]
    beside = sum(2 + max(map(len, head.splitlines())) for head, _ in spreads) + len("  8.25")
    room = console.width - beside
    rows = list(zip(scores, *(cells for _, cells in spreads), strict=True))
    heads = [head for head, _ in spreads]
    for kind, own in groupby(rows, lambda row: row[0].kind):
        console.print()
        if room < _LEAST_OF_A_NAME:
            print_table(console, _folded_scores(kind, heads, own))
            continue
        fitting = [each.recipe for each in scores if len(each.recipe) <= room]
        words = (word for each in scores for word in each.kind.split(" "))
        width = max(map(len, (*fitting, *words)), default=0)
        for line in _score_lines(kind, heads, own, width):
            print_plain(console, line.rstrip())
    for score in scores:
        if score.overflow_count:
            values = amounts.counted(score.overflow_count, "finite value")
            print_sentence(
                console,
                f"{score.recipe} makes {values} of {score.kind} infinite or NaN,"
                " which distortion and SQNR leave out.",
            )


def _score_lines(
    kind: str, heads: Sequence[str], rows: Iterable[tuple[Any, ...]], width: int
) -> Iterator[str]:
    """A table's lines, with names of that width or on a line before."""
    first, _, second = kind.partition(" ")
    columns = [head.splitlines() for head in heads]
    room = [max(map(len, lines)) for lines in columns]
    names = (first, second) if second else ("", first)
    for name, bits, words in zip(names, ("", "bits"), zip(*columns, strict=True), strict=True):
        yield "  ".join([f"{name:{width}}  {bits:>4}", *map(str.ljust, words, room)])
    for score, *cells in rows:
        name = score.recipe
        if len(name) > width:
            yield name
            name = ""
        yield "  ".join([f"{name:{width}}  {score.bits:>4.3g}", *map(str.ljust, cells, room)])


def _folded_scores(kind: str, heads: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Table:
    """The same where there is no room: everything is folded until it fits."""
    table = grid()
    table.add_column(Text(kind.replace(" ", "\n")), overflow="fold")
    table.add_column("\nbits", justify="right", no_wrap=True)
    for head in heads:
        table.add_column(head, overflow="fold")
    for score, *cells in rows:
        table.add_row(Text(score.recipe), f"{score.bits:.3g}", *cells)
    return table


def print_advice(
    console: Console,
    found: Sequence[Advice],
    metrics: Iterable[str],
    *,
    is_long: bool = False,
) -> None:
    """Print what to use where, with the values that are hardest to keep, and where nothing will do.

    Layers with the same recipe share a line; if `is_long`, each has its own. `metrics` are the
    columns, of which the first few are shown.
    """
    best = [each.best for each in found] if is_long else alike(found)
    columns = list(dict.fromkeys(metrics))[:_MOST_METRICS]
    lines: dict[tuple[object, ...], list[Trial]] = {}
    for trial in best:
        use = trial.recipe if trial.is_kept else None
        lines.setdefault((trial.kind, use, trial.layers if is_long else ()), []).append(trial)
    rows = [
        (
            trials[0].kind,
            _listed(layer for trial in trials for layer in trial.layers),
            *_use_cells(trials[0], columns),
        )
        for trials in lines.values()
    ]
    print_table(console, _use_table(rows, ("bits", *columns), console.width))
    for trial in best:
        if trial.missed:
            print_sentence(console, _missed(trial, trial.missed))


def print_uniform(console: Console, found: Sequence[Advice]) -> None:
    """Print what to use for each kind if all layers shall have the same."""
    words = [
        f"{best.kind} {f'{best.recipe} ({best.bits:.3g} bits)' if best.is_kept else 'none'}"
        for best in (each.best for each in found)
        if len(best.layers) > 1
    ]
    if words:
        print_sentence(console, f"One recipe for all layers: {', '.join(words)}.")


def _use_cells(trial: Trial, columns: Iterable[str]) -> list[str]:
    """The recipe to use, its bits and its values; that there is none."""
    if not trial.is_kept:
        return ["none"] + [""] * (1 + len(list(columns)))
    values = [
        amounts.brief(name, trial.values[name]) if name in trial.values else "" for name in columns
    ]
    return [trial.recipe, f"{trial.bits:.3g}", *values]


def _use_table(rows: Sequence[Sequence[str]], numbers: Sequence[str], width: int) -> Table:
    """A kind's name once; layers and recipes folded where they would not fit beside the rest."""
    heads = [head.replace("_", "\n") for head in ("kind", "layers", "recipe", *numbers)]
    kind, layers, name, *others = (
        max(len(text) for cell in (head, *cells) for text in cell.splitlines() or [""])
        for head, *cells in zip(heads, *rows, strict=True)
    )
    room = width - sum(2 + each for each in (kind, *others)) - 2
    if room < 2 * _LEAST_OF_A_NAME:
        room += kind
        kind = max(len(word) for row in rows for word in ("kind", *row[0].split(" ")))
        room = max(room - kind, _LEAST_OF_A_NAME)
    layers = min(layers, max(room // 2, room - name))
    table = grid()
    for head in heads[:3]:
        table.add_column(head, overflow="fold")
    for head in heads[3:]:
        table.add_column(head, justify="right", no_wrap=True)
    last = ""
    for row in rows:
        shown = folded(row[1], layers, ","), folded(row[2], room - layers)
        said = "" if row[0] == last else folded(row[0], kind, " ")
        table.add_row(*map(Text, (said, *shown, *row[3:])))
        last = row[0]
    return table


def _missed(trial: Trial, point: Point) -> str:
    """In words which recipe is nearest where none will do, where it misses, and by how much."""
    metric, rule = point.rule.metric, point.rule
    is_many = len(trial.layers) > 1
    words = [amounts.metric(metric, point.value)]
    if is_many:
        words.append(f"in layer {_listed([point.layer])}")
    if point.tokens is not None:
        words.append(f"at {at('tokens', point.tokens)}")
    elif point.step is not None:
        words.append(f"at {at('step', point.step)}")
    return (
        f"None keeps it in {trial.kind}, layer{'s' * is_many} {_listed(trial.layers)}:"
        f" nearest is {trial.recipe} ({trial.bits:.3g} bits), {metric} {' '.join(words)},"
        f" which misses {rule.sign}{rule.limit:g} by {amounts.brief('', point.excess)}."
    )


def _listed(layers: Iterable[int | None]) -> str:
    """The layers' numbers as the options read them, and `none` for modules without a layer."""
    known = list(layers)
    numbers = amounts.ranges(layer for layer in known if layer is not None)
    return ",".join(filter(None, [numbers, "none" if None in known else ""]))


def _spread_cells(metric: str, spreads: Sequence[Spread | None]) -> tuple[str, list[str]]:
    """The header of a metric's column and its cells: the worst value, its layer, the median."""
    parts = [
        (
            amounts.brief(metric, each.worst),
            "" if each.layer is None or is_lossless(metric, each.worst) else f"L{each.layer}",
            amounts.brief(metric, each.median),
        )
        if each
        else ("", "", "")
        for each in spreads
    ]
    wide, layer, median = (max(map(len, column)) for column in zip(*parts, strict=True))
    wide, median = max(wide, len("worst")), max(median, len("median"))
    cells = [f"{a:>{wide}} {b:<{layer}} {c:>{median}}" for a, b, c in parts]
    title = metric.replace("_db", ", dB")
    return f"{title}\n{'worst':>{wide}} {'':{layer}} {'median':>{median}}", cells
