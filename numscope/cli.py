"""The command line: parse, wire, write. The only place that prints, exits and knows exit codes.

0 done, 1 nothing could be done, 2 wrong usage, 3 done but some inputs could not be read. What a
notebook would want is not here but in the modules that this calls; each command imports those that
it needs.
"""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from numscope.batch_options import batch, logging
from numscope.catalogue import FAMILIES
from numscope.commands.advise import advise
from numscope.commands.answering import answering, stop_writing
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
from numscope.version import __version__

if TYPE_CHECKING:
    from numscope.batches import Batch
    from numscope.dumps import Kind, Problem, Scan
    from numscope.logs import Log
    from numscope.merging import Merged
    from numscope.recipes import Recipe, Tile
    from numscope.results import Results
    from numscope.runs import RunPlan
    from numscope.shards import Shard
    from numscope.stopping import Stopping

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
@batch
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
    memory: int | None,
    shard: Shard,
    engine: Literal["threads", "dask"],
    scheduler: str | None,
    scheduler_file: Path | None,
    *,
    fresh: bool,
    no_charts: bool,
    log_json: bool,
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
      numscope analyze dumps/ --shard 3/8
      numscope analyze dumps/ --engine dask --scheduler tcp://node7:8786
    """
    from numscope import batches, parts, workers
    from numscope.dumps.folders import absolute
    from numscope.growing import Growing
    from numscope.plans import Selection, chosen, plan, schemes, settings
    from numscope.results import claim
    from numscope.runs import RunPlan
    from numscope.streaming import warm_up

    if (scheduler or scheduler_file) and engine != "dask":
        raise UsageError("--scheduler and --scheduler-file need --engine dask")
    with _logging(quiet=quiet, verbose=verbose, log_json=log_json) as (log, stopping):
        found = _scan(log, dump, **scan_options)
        growing = Growing(found)
        wanted = schemes(chosen(recipes, families), tiles)
        selection = Selection(kinds, layers, steps, module)
        try:
            work, remarks = plan(found, selection, wanted, npy_dtype=scan_options["npy_dtype"])
        except NothingToDo:
            log.problems(growing.settled())
            raise
        run_plan = RunPlan(
            dump=absolute(dump),
            command=tuple(ctx.obj),
            settings=settings(selection, wanted, scan_options),
            recipes={each.label: _facts(each.recipe) for each in wanted},
            files=parts.origins(work),
            problems=(*found.problems, *remarks),
        )
        results = claim(out, run_plan.dump, fresh=fresh)
        run = batches.begin(results, run_plan, work, shard, fresh=fresh)
        stopping.advice = run.advice
        with log.waiting("compiling the loops, once per installation,"):
            warm_up(wanted[0].recipe)
        team = (
            workers.dask(scheduler, scheduler_file, jobs)
            if engine == "dask"
            else workers.threads(jobs, memory, work)
        )
        with team as hands:
            failed = run.measure(hands, log)
            run.end(problems=[*growing.settled(), *remarks])
            if shard.count > 1:
                _end_shard(log, run, failed)
            else:
                _publish(log, results, run.plan, run.merge(hands, log), has_charts=not no_charts)


@cli.command()
@click.argument("results", type=click.Path(path_type=Path), default="numscope-out")
@click.option("--no-charts", is_flag=True, help="Write the tables only.")
@logging
@verbosity
def merge(results: Path, *, no_charts: bool, log_json: bool, quiet: bool, verbose: bool) -> None:
    """Make the tables and charts of RESULTS from what the shards of a run have measured.

    The dumps are not read. Shards and files that are missing are named.

    \b
    Examples:
      numscope merge
      numscope merge results --no-charts
    """
    from numscope import runs
    from numscope.merging import merge as merge_parts
    from numscope.results import Results

    folder = Results(results)
    with _logging(quiet=quiet, verbose=verbose, log_json=log_json) as (log, _):
        standing = runs.standing(folder.plans)
        merged = merge_parts(folder, standing.plan.files)
        problems = runs.absent(standing, merged.missing)
        merged = replace(merged, missing=[], problems=[*merged.problems, *problems])
        _publish(log, folder, standing.plan, merged, has_charts=not no_charts)


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
def scan(
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
    from numscope import inventory

    with _logging(quiet=quiet, verbose=verbose) as (log, _):
        found = _scan(log, dump, **scan_options)
        log.problems(found.problems)
        with answering() as answer:
            if as_json:
                facts = inventory.scan_json(found, has_tensors=has_tensors)
                click.echo(json.dumps(facts, indent=2))
            elif has_tensors:
                for line in inventory.tensor_lines(found):
                    click.echo(line)
            elif found.refs:
                answer.print(inventory.scan_table(found))
        _require(found.refs, f"no tensor was found in {dump}")
        raise click.exceptions.Exit(_done(found.problems))


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
    from numscope.recipe_pages import recipe_page, recipe_table

    with answering() as answer:
        answer.print(recipe_table(has_sources=verbose) if recipe is None else recipe_page(recipe))


for _command in (advise, check, compare, export, findings, plot, report):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # our threads are enough; NumPy reads this when imported
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Every error is one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(words, prog_name="numscope", standalone_mode=False, obj=words)
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("numscope: interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # click exits for a broken pipe
        if not _has_reader(sys.stdout):  # a help that was read far enough
            stop_writing(sys.stdout)
            return 0
        stop_writing(sys.stderr)  # there is nobody left to complain to
        return NOTHING_DONE
    except (NumscopeError, OSError) as error:
        click.echo(f"numscope: {error}", err=True)
        return _exit_code(error)
    return code if isinstance(code, int) else 0


def _has_reader(stream: TextIO) -> bool:
    """Whether the other end of a pipe is still open; so it is for what is no pipe."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))


@contextmanager
def _logging(
    *, quiet: bool, verbose: bool, log_json: bool = False
) -> Iterator[tuple[Log, Stopping]]:
    """What a long command talks to, and what happens when it is stopped or fails."""
    from rich.console import Console

    from numscope.logs import AsJson, ForPeople
    from numscope.stopping import Stopped, stoppable

    log: Log = (
        AsJson(partial(click.echo, err=True, nl=False), quiet=quiet)
        if log_json
        else ForPeople(Console(stderr=True), quiet=quiet, verbose=verbose)
    )
    try:
        with stoppable(log.failure) as stopping:
            try:
                yield log, stopping
            except Stopped as stopped:
                stopping.speak(stopped)
                raise click.exceptions.Exit(stopped.exit_code) from None
    except (NumscopeError, OSError) as error:
        log.failure(str(error))
        raise click.exceptions.Exit(_exit_code(error)) from error


def _scan(log: Log, dump: str, **scan_options: Any) -> Scan:
    from numscope import dumps

    with log.counting("scanning") as count:
        return dumps.scan(dump, on_progress=count, **scan_options)


def _end_shard(log: Log, run: Batch, failed: Sequence[Problem]) -> None:
    """Say how a shard went and how to go on."""
    problems = [*run.plan.problems, *failed]
    log.problems(problems)
    if run.work and not run.finished:
        raise NothingToDo(f"none of the {len(run.work)} dump files of this shard could be read")
    log.note(
        f"shard {run.shard}: {run.finished} of {len(run.work)} dump files are finished;"
        f" when all shards are: numscope merge {run.results.folder}"
    )
    raise click.exceptions.Exit(_done(problems))


def _publish(
    log: Log, results: Results, plan: RunPlan, merged: Merged, *, has_charts: bool
) -> None:
    """Write everything that follows from the tables, say it, and exit."""
    from numscope import console, scores
    from numscope.findings import find, text, to_csv
    from numscope.gallery import chart_files, tables_of
    from numscope.recipe_tables import print_scores
    from numscope.standings import standings

    problems = [*plan.problems, *merged.problems]
    log.problems(problems)
    _require(merged.layers, f"none of the {len(plan.files)} dump files could be read")
    charts = tables_of(merged.layers)
    results.forget_parts(but=[file.path for file in plan.files])
    found = find(charts, merged.layers)
    results.keep_findings(text(found, charts), to_csv(found))
    compared = scores.scores(standings(merged.layers))
    results.keep_recipes(scores.to_csv(compared))
    pictures = results.keep_charts(chart_files(charts) if has_charts else {})
    results.forget_charts(but=pictures)
    results.keep_run(
        {
            **plan.facts,
            "finished": True,
            "tensors": merged.tensors,
            "skipped": [_problem(each) for each in problems if each.failure],
            "warnings": [_problem(each) for each in problems if not each.failure],
        }
    )
    if not log.is_quiet:
        with answering() as answer:
            answer.print(console.summary(charts))
            answer.print()
            console.print_findings(answer, found)
            answer.print()
            console.print_written(answer, [*results.tables, *pictures])
            if len({each.recipe for each in compared}) > 1:
                print_scores(answer, compared)
    raise click.exceptions.Exit(_done(problems))


def _done(problems: Sequence[Problem]) -> int:
    return INCOMPLETE if any(each.failure for each in problems) else 0


def _exit_code(error: Exception) -> int:
    return WRONG_USAGE if isinstance(error, UsageError) else NOTHING_DONE


def _require(something: object, message: str) -> None:
    if not something:
        raise NothingToDo(message)


def _facts(recipe: Recipe) -> Mapping[str, str | float]:
    plain = {"element": recipe.element, "tile": recipe.tile_text, "scale": recipe.scale}
    return plain | recipe.details


def _problem(problem: Problem) -> Mapping[str, str]:
    return {"where": problem.where, "message": problem.message}
