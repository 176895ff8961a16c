"""`numscope plot`: the charts again, otherwise, from the tables alone."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.commands.rows import chosen_rows, of_recipe
from numscope.errors import NothingToDo, ResultsError
from numscope.options import Command, choosing, results_argument, verbosity

if TYPE_CHECKING:
    from numscope.ranges import Ranges
    from numscope.series import Distortion, ZeroRows


@click.command(cls=Command)
@results_argument
@choosing
@click.option("--recipe", help="Only this recipe, by name or written form.")
@click.option(
    "--distortion",
    type=click.Choice(["distortion", "cosine"]),
    default="distortion",
    show_default=True,
    help="What is called distortion: the mean of tokens' cosines, or the cosine of whole tensors.",
)
@click.option(
    "--zero-rows",
    type=click.Choice(["skip", "zero", "one"]),
    default="skip",
    show_default=True,
    help="How tokens that are all zero enter that mean.",
)
@click.option("--loss", "is_loss", is_flag=True, help="Draw 1 - distortion, on a log axis.")
@click.option(
    "--smooth",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Draw medians of N points, with the values faintly behind.",
)
@click.option("--mark-findings", is_flag=True, help="Number the findings in the charts.")
@click.option("--heatmap", "has_heatmaps", is_flag=True, help="Heatmaps too: layer x tokens.")
@click.option(
    "--all-layers", "has_multiples", is_flag=True, help="A small chart for each layer too."
)
@click.option(
    "--format",
    "suffix",
    type=click.Choice(["png", "svg", "pdf"]),
    default="png",
    show_default=True,
    help="Format of the pictures.",
)
@click.option(
    "--yscale",
    type=click.Choice(["linear", "log"]),
    default="linear",
    show_default=True,
    help="Scale of the y axes; that of distortion stays linear without --loss.",
)
@click.option(
    "--xscale",
    type=click.Choice(["linear", "log"]),
    default="linear",
    show_default=True,
    help="Scale of the x axes.",
)
@click.option(
    "--style",
    type=click.Choice(["screen", "paper"]),
    default="screen",
    show_default=True,
    help="For the screen, or with serifs, framed and of 300 dpi for paper.",
)
@click.option("--dpi", type=click.IntRange(20, 2400), help="Resolution instead of the style's.")
@verbosity(verbose="Show the worst point of each chart, too.")
def plot(
    results: Path,
    layers: Ranges | None,
    kinds: tuple[str, ...] | None,
    recipe: str | None,
    module: str | None,
    distortion: Distortion,
    zero_rows: ZeroRows,
    smooth: int,
    *,
    is_loss: bool,
    mark_findings: bool,
    has_heatmaps: bool,
    has_multiples: bool,
    quiet: bool,
    verbose: bool,
    **look: Any,
) -> None:
    """Draw the charts of RESULTS again, from its tables alone.

    \b
    Examples:
      numscope plot --layers 0,4,8,12,16
      numscope plot results --format pdf --style paper --loss
      numscope plot results --module mlp.fc1 --smooth 9 --mark-findings
      numscope plot results --heatmap --all-layers --yscale log
    """
    from numscope import amounts, console
    from numscope.findings import find
    from numscope.gallery import (
        chart_files,
        folders_of,
        heatmap_files,
        of_module,
        tables_of,
        tradeoff_files,
    )
    from numscope.results import CHARTS
    from numscope.standings import standings
    from numscope.tradeoffs import tradeoffs

    folder = reading(results, quiet=quiet)
    rows, tiles = chosen_rows(folder, module=module, kinds=kinds, layers=layers)
    folders = folders_of(row.recipe for row in rows)
    if recipe is not None:
        rows = of_recipe(rows, recipe, folder)
    meant: dict[str, Any] = {"distortion": distortion, "zero_rows": zero_rows}
    charts = tables_of(rows, tiles=tiles, **meant)
    if not charts:
        raise NothingToDo(f"{results} has no tensor with a layer number: nothing to draw")
    if look["yscale"] == "log" and not is_loss and not quiet:
        click.echo(
            f"numscope: the y axes of {distortion} stay linear: near 1 a logarithm shows the same;"
            " --loss draws what is lost on a logarithmic axis",
            err=True,
        )
    found = find(charts, rows, tiles) if mark_findings else []
    shared: dict[str, Any] = {"folders": folders, "layers": layers, "is_loss": is_loss}
    files = chart_files(charts, smooth=smooth, findings=found, **shared, **look)
    look.pop("xscale")
    if has_heatmaps:
        files |= heatmap_files(charts, "heatmap", **shared, **look)
    if has_multiples:
        files |= heatmap_files(charts, "layers", **shared, **look)
    look.pop("yscale")
    files |= tradeoff_files(tradeoffs(standings(rows, tiles), layers=layers, **meant), **look)
    if module is not None:
        files = of_module(module, files)
    if foreign := folder.foreign_charts(files):
        others = amounts.others(len(foreign) - 1, "file")
        raise ResultsError(
            f"{results / CHARTS / foreign[0]} was not written by numscope{others}: move it away"
        )
    written = folder.keep_charts(files)
    with answering() as answer:
        if verbose:
            console.print_table(answer, console.summary(charts))
        if not quiet:
            console.print_findings(answer, found, charts, most=None)
            console.print_written(answer, written)
