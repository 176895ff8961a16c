"""`numscope compare`: two results folders or more, side by side."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.commands.rows import of_recipe
from numscope.errors import NothingToDo, ResultsError, UsageError
from numscope.options import Command, LocalPath, verbosity

if TYPE_CHECKING:
    from numscope.comparison import Run
    from numscope.styles import Format


@click.command(cls=Command)
@click.argument("results", type=LocalPath(), nargs=-1, required=True)
@click.option(
    "-o",
    "--out",
    type=LocalPath(),
    default="numscope-compare",
    show_default=True,
    help="Folder for the differences and charts.",
)
@click.option("--recipe", help="Only this recipe; needed where a folder has several, not the same.")
@click.option(
    "--tolerance",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many tokens apart points may be; half of the usual step by default.",
)
@click.option(
    "--format",
    "suffix",
    type=click.Choice(["png", "svg", "pdf"]),
    default="png",
    show_default=True,
    help="Format of the pictures.",
)
@verbosity()
def compare(
    results: Sequence[Path],
    out: Path,
    recipe: str | None,
    tolerance: int | None,
    suffix: Format,
    *,
    quiet: bool,
    verbose: bool,  # noqa: ARG001 (all commands take it)
) -> None:
    """Compare two RESULTS folders or more with the first: runs, recipes, before and after.

    Points are aligned by the nearest tokens, and layers by their number. Written are
    differences.csv, compare.md and charts side by side with equal axes.

    \b
    Examples:
      numscope compare before after
      numscope compare run1 run2 run3 -o comparison --tolerance 1000000000
    """
    from numscope import comparison, console, writing
    from numscope.authorship import is_own
    from numscope.gallery import comparison_files

    if len(results) < 2:
        raise UsageError("there is one folder; compare it with what?")
    runs = _runs(results, recipe, quiet=quiet)
    found = comparison.pairs(runs, tolerance)
    if not any(pair.points and pair.layers for pair in found):
        raise NothingToDo("the results have no chart, layer and tokens in common")
    said = comparison.text(runs, found)
    files = {
        "differences.csv": comparison.to_csv(found).encode(errors="backslashreplace"),
        "compare.md": said.encode(errors="backslashreplace"),
        **{f"charts/{name}": each for name, each in comparison_files(runs, suffix=suffix).items()},
    }
    written = [out / name for name in files]
    for path in written:
        if path.exists() and not is_own(path):
            raise ResultsError(
                f"{path} was not written by numscope; choose another folder with --out"
            )
    for path, content in zip(written, files.values(), strict=True):
        writing.write_bytes(path, content)
    if not quiet:
        with answering() as answer:
            console.print_lines(answer, [*said.splitlines()[2:], ""])
            console.print_written(answer, written)


def _runs(results: Sequence[Path], recipe: str | None, *, quiet: bool) -> list[Run]:
    """Each folder's charts and findings; only of one recipe each."""
    from numscope.comparison import Run
    from numscope.findings import find
    from numscope.gallery import tables_of

    runs = []
    for name, folder in zip(_names(results), results, strict=True):
        held = reading(folder, quiet=quiet)
        rows = held.layer_rows()
        tiles = held.own_tiles(rows)
        labels = sorted({row.recipe for row in rows})
        if recipe is not None:
            rows = of_recipe(rows, recipe, held)
        elif len(labels) > 1:
            raise UsageError(
                f"{folder} has the recipes {', '.join(labels)}; choose one with --recipe"
            )
        found = tables_of(rows, tiles=tiles)
        left_out = tuple(label for label in labels if label not in {row.recipe for row in rows})
        runs.append(Run(name, tuple(found), tuple(find(found, rows, tiles)), left_out))
    return runs


def _names(results: Sequence[Path]) -> list[str]:
    """What the folders are called; one that is given again is numbered."""
    names = list(map(str, results))
    counts = [names[: i + 1].count(name) for i, name in enumerate(names)]
    return [
        f"{name} ({count})" if count > 1 else name
        for name, count in zip(names, counts, strict=True)
    ]
