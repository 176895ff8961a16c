"""What the commands show on a terminal: tables, written paths, problems; plain text when piped.

Only how things look is decided here. Everything that came from a dump's names is shown literally:
no markup, no control characters, and nothing that the terminal's encoding does not have.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from numscope import amounts
from numscope.dumps.refs import KINDS
from numscope.findings import is_lossless, worst
from numscope.catalogue import NAMED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rich.console import Console, RenderableType

    from numscope.dumps.refs import Problem, Scan, TensorRef
    from numscope.series import Series

#: So many problems of one sort are shown one by one.
_MOST_ALIKE = 20
_MOST_SHAPES = 3


def summary(tables: Sequence[Series]) -> Table:
    """Per chart the worst layer, its value and where; under their recipe if there are several."""
    recipes = list(dict.fromkeys(table.recipe for table in tables))
    places = dict.fromkeys(table.x_name for table in tables)
    grid = _grid()
    grid.add_column("chart", overflow="fold")
    grid.add_column("layer", justify="right", no_wrap=True)
    grid.add_column("worst", justify="right", no_wrap=True)
    grid.add_column(" or ".join(places) or "tokens", justify="right", no_wrap=True)
    for recipe in recipes:
        if len(recipes) > 1:
            grid.add_row(Text(recipe, style="bold"))
        for table in tables:
            if table.recipe == recipe:
                grid.add_row(Text(table.title), *_worst_cells(table))
    return grid


def print_written(console: Console, paths: Iterable[Path], base: Path | None = None) -> None:
    """Print the files that were written, one a line, those that differ in the suffix as one.

    Paths are relative to `base`, the working folder unless given, where that is shorter.
    """
    suffixes: dict[str, list[str]] = {}
    for path in paths:
        shown = _shorter(path, base or Path.cwd())
        suffixes.setdefault(shown.removesuffix(path.suffix), []).append(path.suffix)
    for stem, found in suffixes.items():
        plain = ",".join(suffix.removeprefix(".") for suffix in found)
        _print_line(console, f"{stem}.{{{plain}}}" if len(found) > 1 else f"{stem}{found[0]}")


def print_problems(
    console: Console,
    problems: Iterable[Problem],
    details: str = "run.json",
    *,
    most: int | None = _MOST_ALIKE,
) -> None:
    """Print a line per problem, `warning: where: message` or `error: …` for a failure.

    Of many that are alike but for names and numbers, the first `most` are shown, all if `None`, and
    the others counted, with `details` as the place where all are listed.
    """
    groups: dict[tuple[bool, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.failure, _sort_of(problem)), []).append(problem)
    for (is_failure, _), alike in groups.items():
        shown = alike[:most]
        for problem in shown:
            _print_problem(console, f"{problem.where}: {problem.message}", is_failure=is_failure)
        more = len(alike) - len(shown)
        if more > 0:
            text = f"{more:,} more like this, all listed in {details}"
            _print_problem(console, text, is_failure=is_failure)


def scan_table(
    scan: Scan, analysed: Collection[str] = ("activation", "gradient")
) -> RenderableType:
    """What a dump folder holds, per layout: how much, of what, and what `analyze` will take.

    Parameters
    ----------
    scan
        Its problems are not shown; see `print_problems`.
    analysed
        The kinds that are analysed unless others are asked for.
    """
    head = Text(
        f"{scan.files:,} {_plural(scan.files, 'file')}, {amounts.size(scan.bytes)}, "
        f"{len(scan):,} {_plural(len(scan), 'tensor')}"
    )
    layouts = dict.fromkeys(ref.layout for ref in scan)
    blocks: list[RenderableType] = [head]
    for layout in layouts:
        refs = [ref for ref in scan if ref.layout == layout]
        blocks += [Text(), _layout(layout, refs, analysed)]
    return Group(*blocks)


def recipe_table(*, has_sources: bool = False) -> Table:
    """The named recipes: what they are made of, and where they come from if that is asked for."""
    grid = _grid()
    for column in ("name", "element", "tile", "scale", "weights", "what it is"):
        grid.add_column(column, overflow="fold")
    for name, entry in NAMED.items():
        recipe = entry.recipe
        weights = replace(recipe, tile=entry.weight_tile).tile_text
        what = f"{entry.summary}. {entry.source}." if has_sources else entry.summary
        grid.add_row(name, recipe.element, recipe.tile_text, recipe.scale, weights, what)
    return grid


def _grid(*, has_header: bool = True) -> Table:
    """A table of columns without any lines, which prints alike everywhere."""
    return Table(box=None, show_header=has_header, pad_edge=False, padding=(0, 2, 0, 0))


def _worst_cells(table: Series) -> tuple[str, str, str]:
    point = worst(table)
    if point is None:
        return "", "no data", ""
    if is_lossless(table.metric, point.value):
        return "", "no loss", ""
    where = amounts.tokens(point.x) if table.x_name == "tokens" else f"{point.x:,}"
    return str(point.layer), amounts.metric(table.metric, point.value), where


def _shorter(path: Path, base: Path) -> str:
    """The path as given or relative to `base`, whichever has fewer characters."""
    try:
        relative = os.path.relpath(path, base)
    except ValueError:  # another drive
        return str(path)
    return min(str(path), relative, key=len)


def _sort_of(problem: Problem) -> str:
    """The message without what differs between problems of one sort: names and numbers."""
    message = problem.message.replace(problem.where, "*") if problem.where else problem.message
    return re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+", "*", message)


def _print_problem(console: Console, text: str, *, is_failure: bool) -> None:
    label, style = ("error: ", "bold red") if is_failure else ("warning: ", "bold yellow")
    console.print(Text.assemble((label, style), _literal(console, text)), soft_wrap=True)


def _print_line(console: Console, text: str) -> None:
    console.print(Text(_literal(console, text)), soft_wrap=True)


def _literal(console: Console, text: str) -> str:
    """The text with escapes for what is not printable or not in the console's encoding."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.encode(console.encoding, "backslashreplace").decode(console.encoding)


def _layout(name: str, refs: Sequence[TensorRef], analysed: Collection[str]) -> Table:
    facts = {
        "layout": name,
        "files": f"{len({ref.path for ref in refs}):,}",
        "tensors": f"{len(refs):,}, {amounts.size(sum(map(_size, refs)))}",
        "layers": _named([ref.layer for ref in refs]),
        "steps": _named([ref.step for ref in refs]),
        "tokens": _token_range([ref.tokens for ref in refs]),
        "ranks": _named([ref.rank for ref in refs]),
        "micro-batches": _named([ref.microbatch for ref in refs]),
    }
    for kind in (*KINDS, None):
        members = [ref for ref in refs if ref.kind == kind]
        if members:
            facts[kind or "of no known kind"] = f"{_what(members)}; {_plan(kind, analysed)}"
    grid = _grid(has_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact, value in facts.items():
        grid.add_row(fact, Text(value))
    return grid


def _plan(kind: str | None, analysed: Collection[str]) -> str:
    if kind is None:
        return "not analysed"
    return "analysed" if kind in analysed else f"not analysed, ask with --kinds {kind}"


def _what(refs: Sequence[TensorRef]) -> str:
    dtypes = ", ".join(sorted({ref.dtype for ref in refs}))
    return f"{len(refs):,} {_plural(len(refs), 'tensor')} {_shapes(refs)} {dtypes}"


def _shapes(refs: Iterable[TensorRef]) -> str:
    shapes = list(dict.fromkeys(ref.shape for ref in refs))
    text = ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes[:_MOST_SHAPES])
    more = len(shapes) - _MOST_SHAPES
    return f"{text} and {more} more" if more > 0 else text


def _named(numbers: Sequence[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    if not known:
        return "not named"
    missing = len(numbers) - len(known)
    return amounts.span(known) + (
        f"; {missing:,} {_plural(missing, 'tensor')} without" if missing else ""
    )


def _token_range(counts: Sequence[int | None]) -> str:
    known = [count for count in counts if count is not None]
    if not known:
        return "not named"
    first, last = min(known), max(known)
    return amounts.tokens(first) + (f" to {amounts.tokens(last)}" if last > first else "")


def _size(ref: TensorRef) -> int:
    """The tensor's bytes."""
    import ml_dtypes  # noqa: PLC0415 (only `scan` needs it)
    import numpy as np  # noqa: PLC0415

    return math.prod(ref.shape) * np.dtype(getattr(ml_dtypes, ref.dtype, ref.dtype)).itemsize


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"
