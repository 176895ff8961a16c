"""`numscope export`: the charts' lines in the format of another tool."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from pathlib import Path

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.errors import NothingToDo, UsageError
from numscope.options import Command, LocalPath, results_argument, verbosity


@click.command(cls=Command)
@results_argument
@click.option(
    "--tensorboard",
    type=LocalPath(),
    metavar="DIR",
    help="Write scalars for TensorBoard into this folder.",
)
@verbosity()
def export(
    results: Path,
    tensorboard: Path | None,
    *,
    quiet: bool,
    verbose: bool,  # noqa: ARG001 (all commands take it)
) -> None:
    """Write the lines of RESULTS for another tool to show.

    In TensorBoard tokens are the step, so that the lines stand beside the loss of the training run
    if that counts tokens too. Needs tensorboard, from the extra `tensorboard`.

    \b
    Examples:
      numscope export --tensorboard runs/numscope
      numscope export results --tensorboard runs/numscope
    """
    from numscope import console
    from numscope.gallery import tables_of
    from numscope.tensorboard import write

    if tensorboard is None:
        raise UsageError("say what to export to: --tensorboard DIR")
    folder = reading(results, quiet=quiet)
    rows = folder.layer_rows()
    charts = tables_of(rows, tiles=folder.own_tiles(rows))
    if not charts:
        raise NothingToDo(f"{results} has no tensor with a layer number: nothing to export")
    written = write(tensorboard, charts)
    if not quiet:
        with answering() as answer:
            console.print_written(answer, written)
