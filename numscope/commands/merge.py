"""`numscope merge`: tables and charts of what the shards of a run have measured."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from numscope.batch_options import logging
from numscope.commands.publishing import publish
from numscope.commands.working import working
from numscope.options import Command, results_argument, verbosity


@click.command(cls=Command)
@results_argument
@click.option("--no-charts", is_flag=True, help="Write the tables only.")
@logging
@verbosity(verbose="Say every remark and error, however many are alike.")
def merge(results: Path, *, no_charts: bool, log_json: bool, quiet: bool, verbose: bool) -> None:
    """Make the tables and charts of RESULTS from what the shards of a run have measured.

    The dumps are not read. Shards and files that are missing are named.

    \b
    Examples:
      numscope merge
      numscope merge results --no-charts
    """
    from numscope.claims import opened
    from numscope.merging import merge as merge_parts
    from numscope.tenure import Tenure
    from numscope.together import absent, whole_run

    with working(quiet=quiet, verbose=verbose, log_json=log_json) as (log, _):
        folder = opened(results)
        run = whole_run(folder.plans)
        folder = replace(folder, confirm=Tenure(folder.plans, run.plan, run.shard).confirm)
        merged = merge_parts(folder, run.plan.files)
        problems = absent(run, merged.missing)
        merged = replace(merged, missing=[], problems=[*merged.problems, *problems])
        publish(log, folder, run.plan, merged, gone=run.gone, has_charts=not no_charts)
