"""`numscope findings`: what stands out in the results, for people and for scripts."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from pathlib import Path

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.errors import NothingToDo
from numscope.options import Command, results_argument, verbosity


@click.command(cls=Command)
@results_argument
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Answer as a JSON list of objects, all of them.",
)
@verbosity(
    quiet="Say nothing but the answer and errors.",
    verbose="Show all findings, not the most important ones only.",
)
def findings(results: Path, *, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Say what stands out in RESULTS: peaks, dips, shifts, drifts, odd layers and more.

    The ten most important findings are shown, with --verbose all.

    \b
    Examples:
      numscope findings
      numscope findings results --json
    """
    from numscope import console, json_text
    from numscope.findings import find, to_json
    from numscope.gallery import tables_of

    folder = reading(results, quiet=quiet)
    rows = folder.layer_rows()
    tiles = folder.own_tiles(rows)
    charts = tables_of(rows, tiles=tiles)
    if not charts:
        raise NothingToDo(f"{results} has no tensor with a layer number: nothing to judge")
    found = find(charts, rows, tiles)
    if as_json:
        click.echo(json_text.text([to_json(each) for each in found], indent=2))
    else:
        with answering() as answer:
            if verbose:
                console.print_findings(answer, found, charts, most=None)
            else:
                console.print_findings(answer, found, charts)
