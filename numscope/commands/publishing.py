"""How `analyze` and `merge` end: all that follows from the tables is written and said.

Nothing here measures or reads dumps.
"""
# ruff: noqa: PLC0415 (`--help` needs none of it)

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numscope.commands.answering import answering
from numscope.commands.ending import exit_code_of
from numscope.errors import NothingToDo

if TYPE_CHECKING:
    from numscope.dumps import Problem
    from numscope.logs import Log
    from numscope.merging import Merged
    from numscope.results import Results
    from numscope.runs import RunPlan


def publish(log: Log, results: Results, plan: RunPlan, merged: Merged, *, has_charts: bool) -> None:
    """Write everything that follows from the tables, say it, and exit.

    Raises
    ------
    NothingToDo
        If no file could be read.
    click.exceptions.Exit
        Else, with the exit code.
    """
    from numscope import amounts, console, scores
    from numscope.findings import find, text, to_csv
    from numscope.gallery import chart_files, tables_of, tradeoff_files
    from numscope.recipe_tables import print_scores
    from numscope.results import FINDINGS, RUN, recorded_tiles
    from numscope.standings import standings
    from numscope.tradeoffs import tradeoffs

    problems = [*plan.problems, *merged.problems]
    log.problems(problems, RUN if merged.layers else None)
    if not merged.layers:
        files = amounts.counted(len(plan.files), "dump file")
        raise NothingToDo(f"nothing could be read of {files}")
    tiles = recorded_tiles(plan.facts)
    charts = tables_of(merged.layers, tiles=tiles)
    results.forget_parts(but=[file.path for file in plan.files])
    results.forget_leftovers()
    found = find(charts, merged.layers, tiles)
    results.keep_findings(text(found, charts), to_csv(found))
    standing = standings(merged.layers, tiles)
    compared = scores.scores(standing)
    results.keep_recipes(scores.to_csv(compared))
    drawn = chart_files(charts) | tradeoff_files(tradeoffs(standing)) if has_charts else {}
    listed = results.listed_charts()
    # So that a run after one that is killed here knows which charts are numscope's.
    known = list(dict.fromkeys([*listed, *drawn]))
    results.keep_run({**plan.facts, "finished": False, "charts": known})
    pictures = results.keep_charts(drawn)
    results.forget_charts(name for name in listed if name not in drawn)
    results.keep_run(
        {
            **plan.facts,
            "finished": True,
            "tensors": merged.tensors,
            "charts": list(drawn),
            "skipped": [_problem(each) for each in problems if each.failure],
            "warnings": [_problem(each) for each in problems if not each.failure],
        }
    )
    if not log.is_quiet:
        with answering() as answer:
            has_choice = len({each.recipe for each in compared}) > 1
            if not has_choice:
                console.print_table(answer, console.summary(charts))
                answer.print()
            console.print_findings(answer, found, charts, FINDINGS)
            answer.print()
            console.print_written(answer, [*results.tables, *pictures])
            if has_choice:
                print_scores(answer, compared)
    raise click.exceptions.Exit(exit_code_of(problems))


def _problem(problem: Problem) -> Mapping[str, str]:
    return {"where": problem.where, "message": problem.message}
