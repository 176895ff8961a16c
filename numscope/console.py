"""What the commands show on a terminal: tables, written paths, problems; plain text when piped.

Only how things look is decided here. Everything that came from a dump's names is shown literally:
no markup, no control characters, and nothing that the terminal's encoding does not have.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from numscope import amounts
from numscope.findings import is_lossless, worst
from numscope.findings.writing import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, RenderableType

    from numscope.dumps.refs import Problem
    from numscope.findings import Finding
    from numscope.series import Series

#: So many findings are shown unless all are asked for.
_MOST_FINDINGS = 10
#: So many problems of one sort are shown one by one.
_MOST_ALIKE = 20
#: So many lines name written files one by one; where it would be more, so many files of a folder.
_MOST_WRITTEN, _MOST_IN_FOLDER = 20, 6
_ALL_SHOWN = "; --verbose shows all"


def summary(tables: Sequence[Series]) -> Table:
    """Per chart the worst layer, its value and where; under their recipe if there are several."""
    recipes = list(dict.fromkeys(table.recipe for table in tables))
    places = dict.fromkeys(table.x_name for table in tables)
    answer = grid()
    answer.add_column("chart", overflow="fold")
    answer.add_column("layer", justify="right", no_wrap=True)
    answer.add_column("worst", justify="right", no_wrap=True)
    answer.add_column(" or ".join(places) or "tokens", justify="right", no_wrap=True)
    for recipe in recipes:
        if len(recipes) > 1:
            answer.add_row(Text(recipe, style="bold"))
        for table in tables:
            if table.recipe == recipe:
                answer.add_row(Text(table.title), *_worst_cells(table))
    return answer


def print_findings(
    console: Console,
    findings: Sequence[Finding],
    charts: Sequence[Series],
    listed: str | None = None,
    *,
    most: int | None = _MOST_FINDINGS,
) -> None:
    """Print a numbered line per finding, the first `most`, all if `None`, and how many more.

    Where `charts`, in which they were found, are of several recipes, a line says whose it is.
    `listed` is a file that has all of them, if there is one.
    """
    has_recipe = len({each.recipe for each in charts}) > 1
    for i, each in enumerate(findings[:most], start=1):
        line = named(each, has_recipe=has_recipe)
        print_sentence(console, f"{i}. {line}" if len(findings) > 1 else line)
    more = len(findings[most:]) if most is not None else 0
    if more:
        print_plain(console, f"{more:,} more{f' in {listed}' if listed else _ALL_SHOWN}")


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print each line, as a sentence."""
    for line in lines:
        print_sentence(console, line)


def print_sentence(console: Console, text: str) -> None:
    """Print a sentence: on a terminal no word is broken, elsewhere it is one line."""
    if console.is_terminal:
        console.print(Text(_literal(console, text)), overflow="fold")
    else:
        print_plain(console, text)


def print_plain(console: Console, text: str) -> None:
    """Print one line as it is, however long."""
    console.print(Text(_literal(console, text)), soft_wrap=True)


def print_table(console: Console, table: RenderableType) -> None:
    """Print a table, or several, without blanks at the ends of lines."""
    for line in console.render_lines(table, pad=False):
        text = Text.assemble(*((part.text, part.style or "") for part in line))
        text.rstrip()
        console.print(text, soft_wrap=True)


def print_written(console: Console, paths: Iterable[Path], base: Path | None = None) -> None:
    """Print the files that were written, one a line, those that differ in the suffix as one.

    Of many files, those of a folder that holds many are counted. Paths are relative to `base`, the
    working folder unless given, where that is shorter.
    """
    folders: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        folder, slash, name = _shorter(path, base or Path.cwd()).rpartition("/")
        stem = name.removesuffix(path.suffix)
        suffixes = folders.setdefault(folder + slash, {}).setdefault(stem, [])
        suffixes.append(path.suffix.removeprefix("."))
    has_room = sum(map(len, folders.values())) <= _MOST_WRITTEN
    for folder, stems in folders.items():
        count = sum(map(len, stems.values()))
        if has_room or count <= _MOST_IN_FOLDER:
            for stem, found in stems.items():
                ends = f".{{{','.join(found)}}}" if len(found) > 1 else f".{found[0]}"
                print_plain(console, f"{folder}{stem}{ends.rstrip('.')}")
        else:
            print_plain(console, f"{folder} ({amounts.counted(count, 'file')})")


def print_problems(
    console: Console,
    problems: Iterable[Problem],
    listed: str | None = None,
    *,
    most: int | None = _MOST_ALIKE,
) -> None:
    """Print a line per problem, `warning: where: message` or `error: …` for a failure.

    Of many that are alike but for names and numbers, the first `most` are shown, all if `None`, and
    the others counted; `listed` is a file that has all of them, if there is one.
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
            where = f", all listed in {listed}" if listed else _ALL_SHOWN
            _print_problem(console, f"{more:,} more like this{where}", is_failure=is_failure)


def grid(*, has_header: bool = True) -> Table:
    """A table of columns without any lines, which prints alike everywhere."""
    return Table(box=None, show_header=has_header, pad_edge=False, padding=(0, 2, 0, 0))


def literal(text: str) -> str:
    r"""The text in one line: what is not printable, such as a tab or a line break, as an escape.

    Examples
    --------
    >>> print(literal("layers.0\tfc\n"))
    layers.0\tfc\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def folded(text: str, width: int, after: Sequence[str] = (":", "=/", "_-")) -> str:
    """The text in lines of that width, which end behind one of the first of these signs.

    A word that is longer than that is broken behind the next ones, and at last anywhere.

    Examples
    --------
    >>> print(folded("float8_e5m2:1x128:rounding=stochastic", 18))
    float8_e5m2:1x128:
    rounding=
    stochastic
    >>> print(folded("0-8,10-13,60", 8, ","))
    0-8,
    10-13,60
    """
    lines = [""]
    for word in _words(text, width, after):
        if len(lines[-1] + word.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def _words(text: str, width: int, after: Sequence[str]) -> Iterator[str]:
    """The text in parts that are at most so long, each with the sign that it ends with."""
    if not after:
        yield from (text[start : start + width] for start in range(0, len(text), width))
        return
    ends = re.escape(after[0])
    for word in re.findall(f"[^{ends}]*[{ends}]|[^{ends}]+", text):
        if len(word.rstrip()) > width:
            yield from _words(word, width, after[1:])
        else:
            yield word


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


def _literal(console: Console, text: str) -> str:
    """The text with escapes for what is not printable or not in the console's encoding."""
    return literal(text).encode(console.encoding, "backslashreplace").decode(console.encoding)
