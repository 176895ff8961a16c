"""`numscope report`: the results as one HTML page."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from pathlib import Path

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.errors import NothingToDo
from numscope.options import Command, LocalPath, results_argument, verbosity

#: Of the pictures in the page.
_DPI = 110


@click.command(cls=Command)
@results_argument
@click.option(
    "-o",
    "--out",
    type=LocalPath(),
    metavar="FILE.html",
    help="The page, report.html in RESULTS by default.",
)
@verbosity()
def report(results: Path, out: Path | None, *, quiet: bool, verbose: bool) -> None:  # noqa: ARG001
    """Write RESULTS as one HTML page: interactive charts, findings, heatmaps, tables, provenance.

    It needs no network and no server: open it from wherever it lies. Needs plotly, from the extra
    `report`.

    \b
    Examples:
      numscope report
      numscope report results -o run42.html
    """
    from numscope import console, writing
    from numscope.findings import find
    from numscope.gallery import tables_of, tradeoff_files
    from numscope.report import page
    from numscope.results import REPORT
    from numscope.standings import standings
    from numscope.tradeoffs import tradeoffs

    folder = reading(results, quiet=quiet)
    written = folder.beside_tables(out, REPORT)
    rows = folder.layer_rows()
    tiles = folder.own_tiles(rows)
    charts = tables_of(rows, tiles=tiles)
    if not charts:
        raise NothingToDo(f"{results} has no tensor with a layer number: nothing to report")
    beside = tradeoffs(standings(rows, tiles))
    files = tradeoff_files(beside, dpi=_DPI)
    pictures = {each.subject: files[f"{each.name}.png"] for each in beside}
    text = page(charts, find(charts, rows, tiles), folder.run_facts(), pictures)
    writing.write_text(written, text)
    if not quiet:
        with answering() as answer:
            console.print_written(answer, [written])
