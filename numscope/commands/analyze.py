"""`numscope analyze`: the main job, from a dump to tables and charts."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from numscope.batch_options import batch, check_engine
from numscope.catalogue import FAMILIES
from numscope.commands.ending import exit_code_of
from numscope.commands.publishing import publish
from numscope.commands.working import scanned, working
from numscope.errors import NothingToDo
from numscope.options import (
    Command,
    DumpPlace,
    Kinds,
    LocalPath,
    Numbers,
    RecipeType,
    TileType,
    reading,
    recipe_files,
    verbosity,
)

if TYPE_CHECKING:
    from numscope.batches import Batch
    from numscope.dumps import Kind, Problem
    from numscope.logs import Log
    from numscope.ranges import Ranges
    from numscope.recipes import Recipe, Tile
    from numscope.shards import Shard


@click.command(cls=Command)
@click.argument("dump", type=DumpPlace())
@click.option(
    "-o",
    "--out",
    type=LocalPath(),
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
    type=click.Choice(FAMILIES),
    multiple=True,
    help="All recipes of a family; can be repeated.",
)
@recipe_files
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
@verbosity(verbose="Say every remark and error, however many are alike.")
@click.pass_context
def analyze(
    ctx: click.Context,
    /,
    dump: str,
    out: Path,
    recipes: Sequence[tuple[str, Recipe]],
    families: Sequence[str],
    own: Mapping[str, Recipe],
    tiles: Sequence[Tile],
    layers: Ranges | None,
    steps: Ranges | None,
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
      numscope analyze dumps/ --recipe-file recipes.toml --recipe ling --recipe mine
      numscope analyze dumps/ --kinds weight
      numscope analyze dumps/ --shard 3/8
      numscope analyze dumps/ --engine dask --scheduler tcp://node7:8786
    """
    from numscope import batches, parts, stacks, workers
    from numscope.claims import claim
    from numscope.dumps.folders import absolute
    from numscope.growing import Growing
    from numscope.plans import Selection, chosen, plan, schemes, settings
    from numscope.runs import RunPlan
    from numscope.streaming import warm_up

    check_engine(engine, scheduler, scheduler_file, jobs, memory)
    with working(quiet=quiet, verbose=verbose, log_json=log_json) as (log, stopping):
        # A worker is in a folder of its own.
        found = scanned(log, absolute(dump) if engine == "dask" else dump, **scan_options)
        growing = Growing(found)
        wanted = schemes(chosen(dict(recipes), families, own), tiles)
        selection = Selection(kinds, layers, steps, module)
        try:
            work, remarks = plan(found, selection, wanted, npy_dtype=scan_options["npy_dtype"])
        except NothingToDo:
            log.problems(growing.settled())
            raise
        remarks += stacks.merged(work)
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
        if run.displaced:
            log.note(
                f"{out} holds an unfinished run, whose place this one takes:"
                f" {shlex.join(['numscope', *run.displaced.command])}"
            )
        with log.waiting("compiling the loops, once per installation,") as begin:
            warm_up(wanted[0].recipe, begin)
        team = (
            workers.dask(scheduler, scheduler_file, jobs, log.note)
            if engine == "dask"
            else workers.threads(jobs, memory, work)
        )
        with team as hands:
            failed = run.measure(hands, log)
            run.end(problems=[*growing.settled(), *remarks])
            if shard.count > 1:
                _end_shard(log, run, failed)
            else:
                merged = run.merge(hands, log)
                publish(log, run.results, run.plan, merged, has_charts=not no_charts, fresh=fresh)


def _end_shard(log: Log, run: Batch, failed: Sequence[Problem]) -> None:
    """Say how a shard went and how to go on."""
    from numscope import amounts

    problems = [*run.plan.problems, *failed]
    log.problems(problems)
    if run.work and not run.finished:
        files = amounts.counted(len(run.work), "dump file")
        raise NothingToDo(f"nothing could be read of {files} of this shard")
    log.note(
        f"shard {run.shard}: {run.finished} of {len(run.work)} dump files are finished;"
        f" when all shards are: numscope merge {run.results.folder}"
    )
    raise click.exceptions.Exit(exit_code_of(problems))


def _facts(recipe: Recipe) -> Mapping[str, str | float]:
    """Every field, with the tile as text."""
    return {**asdict(recipe), "tile": recipe.tile_text}
