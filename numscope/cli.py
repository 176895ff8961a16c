"""The command line: parse, wire, write. The only place that prints, exits and knows exit codes.

0 done, 1 nothing could be done, 2 wrong usage, 3 done but some inputs could not be read. What a
notebook would want is not here but in the modules that this calls; each command imports those that
it needs.
"""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numscope import __version__
from numscope.catalogue import FAMILIES
from numscope.commands.check import check
from numscope.commands.compare import compare
from numscope.commands.export import export
from numscope.commands.findings import findings
from numscope.commands.plot import plot
from numscope.commands.report import report
from numscope.errors import NothingToDo, NumscopeError, UsageError
from numscope.options import (
    Commands,
    Kinds,
    Numbers,
    RecipeType,
    TileType,
    reading,
    verbosity,
)

if TYPE_CHECKING:
    from rich.console import Console

    from numscope.dumps import Kind, Problem, Scan
    from numscope.findings import Finding
    from numscope.recipes import Recipe, Tile
    from numscope.series import Series
    from numscope.tables import Row

NOTHING_DONE, WRONG_USAGE, INCOMPLETE, INTERRUPTED = 1, 2, 3, 130


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="Every option can be set by the environment: NUMSCOPE_ANALYZE_OUT=results.",
)
@click.version_option(__version__, prog_name="numscope")
def cli() -> None:
    """What FP8 and MX block quantization lose in a training run's activations and gradients.

    \b
    numscope scan DUMP_DIR       what is in there and how it was understood
    numscope analyze DUMP_DIR    the main job: tables and charts
    """


@cli.command()
@click.argument("dump")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default="numscope-out",
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--recipe",
    "recipes",
    type=RecipeType(),
    multiple=True,
    show_default="ling",
    help="How to quantize, by name or written form; can be repeated.",
)
@click.option(
    "--recipes",
    "families",
    envvar="NUMSCOPE_ANALYZE_RECIPES",
    type=click.Choice(FAMILIES),
    multiple=True,
    help="All recipes of a family; can be repeated.",
)
@click.option(
    "--tile",
    "tiles",
    type=TileType(),
    multiple=True,
    help="Tile shape instead of the recipes' own, such as 1x64 or 128x128; can be repeated.",
)
@click.option("--layers", type=Numbers(), help="Only these layers, such as 0,4,8 or 0-16.")
@click.option("--steps", type=Numbers(), help="Only these steps.")
@click.option(
    "--kinds",
    type=Kinds(),
    default="activation,gradient",
    show_default=True,
    help="Kinds of tensors; also weight, output, input_gradient and weight_gradient.",
)
@click.option("--module", metavar="TEXT", help="Only modules whose name contains or matches this.")
@reading
@click.option("--jobs", type=click.IntRange(min=1), help="Threads; all usable CPUs by default.")
@click.option("--fresh", is_flag=True, help="Replace whatever results the folder holds.")
@click.option("--no-charts", is_flag=True, help="Write the tables only.")
@verbosity
@click.pass_context
def analyze(
    ctx: click.Context,
    /,
    dump: str,
    out: Path,
    recipes: Sequence[Recipe],
    families: Sequence[str],
    tiles: Sequence[Tile],
    layers: frozenset[int] | None,
    steps: frozenset[int] | None,
    kinds: tuple[Kind, ...],
    module: str | None,
    jobs: int | None,
    *,
    fresh: bool,
    no_charts: bool,
    quiet: bool,
    verbose: bool,
    **scan_options: Any,
) -> None:
    """Measure a folder of dumps, or a single file: tables and charts.

    \b
    Examples:
      numscope analyze dumps/
      numscope analyze dumps/ -o results --layers 0,4,8,12,16 --tokens-per-step 4194304
      numscope analyze dumps/ --recipe ling --recipe e5m2:1x128 --jobs 8
      numscope analyze dumps/ --kinds weight
    """
    from rich.console import Console

    from numscope import tables
    from numscope.analysis import measure_files
    from numscope.engines import Threads, usable_cpus
    from numscope.findings import find, text, to_csv
    from numscope.gallery import chart_files, tables_of
    from numscope.plans import Selection, chosen, plan, schemes
    from numscope.progress import progress, waiting
    from numscope.results import claim
    from numscope.streaming import warm_up

    err = Console(stderr=True)
    found = _scan(err, dump, quiet=quiet, **scan_options)
    try:
        wanted = schemes(chosen(recipes, families), tiles)
        work, remarks = plan(
            found,
            Selection(kinds, layers, steps, module),
            wanted,
            npy_dtype=scan_options["npy_dtype"],
        )
    except NothingToDo:
        _say(err, found.problems, quiet=quiet, verbose=verbose)
        raise
    run_facts: dict[str, Any] = {
        "numscope": __version__,
        "command": ctx.obj,
        "dump": str(Path(dump).resolve()),
        "recipes": {each.label: _facts(each.recipe) for each in wanted},
        "files": len(work),
    }
    results = claim(out, run_facts["dump"], fresh=fresh)
    results.keep_run({**run_facts, "finished": False})  # whose folder it is if this is killed

    with waiting(err, "compiling the loops, once per installation,", quiet=quiet):
        warm_up(wanted[0].recipe)

    rows: list[Row] = []
    problems = [*found.problems, *remarks]
    total = sum(file.bytes for file in work)
    with (
        Threads(jobs or usable_cpus()) as engine,
        progress(err, total, len(work), quiet) as meter,
    ):
        for result in measure_files(work, engine.map, lambda n: meter.advance(files=0, bytes=n)):
            results.keep_part(result.work.path, result.rows)
            rows.extend(result.rows)
            problems.extend(result.problems)
            meter.advance(failures=len(result.problems))
    problems.extend(_not_finite(rows))
    _say(err, problems, quiet=quiet, verbose=verbose)
    if not rows:
        raise NothingToDo(f"none of the {len(work)} dump files in {dump} could be read")

    rows = tables.sort_rows(rows)
    layer_rows = tables.merge_layers(rows)
    charts = tables_of(layer_rows)
    results.keep_tables(rows, layer_rows)
    results.forget_parts(but=[file.path for file in work])
    standing_out = find(charts, layer_rows)
    results.keep_findings(text(standing_out, charts), to_csv(standing_out))
    pictures = results.keep_charts({} if no_charts else chart_files(charts))
    results.forget_charts(but=pictures)
    results.keep_run(
        {
            **run_facts,
            "finished": True,
            "tensors": len({(row.path, row.key) for row in rows}),
            "skipped": [_problem(each) for each in problems if each.failure],
            "warnings": [_problem(each) for each in problems if not each.failure],
        }
    )
    if not quiet:
        _answer(charts, standing_out, [*results.tables, *pictures])
    ctx.exit(INCOMPLETE if any(each.failure for each in problems) else 0)


@cli.command()
@click.argument("dump")
@reading
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    envvar="NUMSCOPE_SCAN_JSON",
    help="Answer as JSON, for scripts.",
)
@click.option(
    "--list",
    "has_tensors",
    is_flag=True,
    envvar="NUMSCOPE_SCAN_LIST",
    help="Every tensor, a line or object each.",
)
@verbosity
@click.pass_context
def scan(
    ctx: click.Context,
    /,
    dump: str,
    *,
    as_json: bool,
    has_tensors: bool,
    quiet: bool,
    verbose: bool,
    **scan_options: Any,
) -> None:
    """Show what a folder of dumps holds and how it was understood; nothing is computed.

    \b
    Examples:
      numscope scan dumps/
      numscope scan dumps/step_000120.safetensors --list
      numscope scan dumps/ --layers-per-stage 9 --layer-offset transformer_engine=-1
      numscope scan dumps/ --pattern 'run/{step}/L{layer}_{kind}.npy' --json
    """
    from rich.console import Console

    from numscope import inventory

    err = Console(stderr=True)
    found = _scan(err, dump, quiet=quiet, **scan_options)
    _say(err, found.problems, quiet=quiet, verbose=verbose)
    if as_json:
        click.echo(json.dumps(inventory.scan_json(found, has_tensors=has_tensors), indent=2))
    _require(found.refs, f"no tensor was found in {dump}")
    if has_tensors and not as_json:
        for line in inventory.tensor_lines(found):
            click.echo(line)
    elif not as_json:
        Console().print(inventory.scan_table(found))
    ctx.exit(INCOMPLETE if any(each.failure for each in found.problems) else 0)


@cli.command()
@click.argument("recipe", required=False, type=RecipeType())
@verbosity
def recipes(recipe: Recipe | None, *, quiet: bool, verbose: bool) -> None:  # noqa: ARG001
    """List the named recipes, or tell all about one: its formula, source, fields and neighbours.

    The columns bits and range are the bits per value with its share of the scales, and the bits
    between a tile's largest magnitude and the smallest that is surely kept.

    \b
    A written form is a recipe or an element format, then what differs, separated by colons:
      ling:1x64   e5m2:1x128:power_of_two   mxfp4:rounding=stochastic:seed=1   int8:1x*

    \b
    Examples:
      numscope recipes --verbose
      numscope recipes deepgemm
      numscope analyze dumps/ --recipe ling --recipe e5m2:1x128:power_of_two
    """
    from rich.console import Console

    from numscope.recipe_pages import recipe_page, recipe_table

    table = recipe_table(has_sources=verbose) if recipe is None else recipe_page(recipe)
    Console().print(table)


for _command in (check, compare, export, findings, plot, report):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Every error is one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(words, prog_name="numscope", standalone_mode=False, obj=words)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("numscope: interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (BrokenPipeError, SystemExit):
        # Whoever read our answer has enough, for which click and rich would exit as if we had
        # failed; keep the interpreter from complaining at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (NumscopeError, OSError) as error:
        click.echo(f"numscope: {error}", err=True)
        return WRONG_USAGE if isinstance(error, UsageError) else NOTHING_DONE
    return code if isinstance(code, int) else 0


def _scan(err: Console, dump: str, *, quiet: bool, **scan_options: Any) -> Scan:
    from numscope import dumps
    from numscope.progress import counting

    with counting(err, "scanning", quiet=quiet) as count:
        return dumps.scan(dump, on_progress=count, **scan_options)


def _answer(charts: Sequence[Series], findings: Sequence[Finding], written: list[Path]) -> None:
    """Print the worst points, what stands out, and the files."""
    from rich.console import Console

    from numscope import console

    answer = Console()
    answer.print(console.summary(charts))
    answer.print()
    console.print_findings(answer, findings)
    answer.print()
    console.print_written(answer, written)


def _say(err: Console, problems: Sequence[Problem], *, quiet: bool, verbose: bool) -> None:
    """Print failures always, remarks unless quiet, many that are alike only if verbose."""
    from numscope import console

    said = [each for each in problems if each.failure or not quiet]
    if verbose:
        console.print_problems(err, said, most=None)
    else:
        console.print_problems(err, said)


def _not_finite(rows: Sequence[Row]) -> list[Problem]:
    """One remark if any tensor holds NaN or infinite values."""
    from numscope.dumps import Problem

    tensors = {(row.path, row.key): row for row in rows if row.nan_count or row.inf_count}
    if not tensors:
        return []
    first = next(iter(tensors.values()))
    where = f"{first.path}:{first.key}" if first.key else first.path
    others = f"; so do {len(tensors) - 1} more tensors" if len(tensors) > 1 else ""
    message = (
        f"holds {first.nan_count} NaN and {first.inf_count} infinite values,"
        f" which are counted and left out of every sum{others}"
    )
    return [Problem(where, message, failure=False)]


def _require(something: object, message: str) -> None:
    if not something:
        raise NothingToDo(message)


def _facts(recipe: Recipe) -> Mapping[str, str | float]:
    plain = {"element": recipe.element, "tile": recipe.tile_text, "scale": recipe.scale}
    return plain | recipe.details


def _problem(problem: Problem) -> Mapping[str, str]:
    return {"where": problem.where, "message": problem.message}
