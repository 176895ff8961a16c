"""How `analyze` and `merge` end: all that follows from the tables is written and said.

Nothing here measures or reads dumps.
"""
# ruff: noqa: PLC0415 (`--help` needs none of it)

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
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


def publish(
    log: Log,
    results: Results,
    plan: RunPlan,
    merged: Merged,
    *,
    gone: Sequence[Problem] = (),
    has_charts: bool,
    fresh: bool = False,
) -> None:
    """Write everything that follows from the tables, say it, and exit.

    Parameters
    ----------
    gone
        What is told of files that are not in the plan; their parts are kept all the same.

    fresh
        Whether charts take the place of somebody else's files that are called alike.

    Raises
    ------
    NothingToDo
        If no file could be read.
    ResultsError
        If something cannot be written, or the folder is this run's no more.
    click.exceptions.Exit
        Else, with the exit code.
    """
    from numscope import amounts, console, scores
    from numscope.findings import find, text, to_csv
    from numscope.gallery import chart_files, tables_of, tradeoff_files
    from numscope.recipe_tables import print_scores
    from numscope.results import CHARTS, FINDINGS, RUN, recorded_tiles
    from numscope.standings import standings
    from numscope.tradeoffs import tradeoffs

    left = results.other_parts(
        but=[*(file.path for file in plan.files), *(each.where for each in gone)]
    )
    problems = [*plan.problems, *merged.problems, *gone]
    problems += _left_out(left, {each.where for each in problems})
    if not merged.layers:
        log.problems(problems)
        files = amounts.counted(len(plan.files), "dump file")
        raise NothingToDo(f"nothing could be read of {files}")
    tiles = recorded_tiles(plan.facts)
    charts = tables_of(merged.layers, tiles=tiles)
    found = find(charts, merged.layers, tiles)
    standing = standings(merged.layers, tiles)
    compared = scores.scores(standing)
    drawn = chart_files(charts) | tradeoff_files(tradeoffs(standing)) if has_charts else {}
    foreign = [] if fresh else results.foreign_charts(drawn)
    problems += _not_ours(results.folder / CHARTS, foreign)
    drawn = {name: content for name, content in drawn.items() if name not in foreign}
    log.problems(problems, RUN)
    results.forget_parts(left)
    results.forget_leftovers()
    results.keep_findings(text(found, charts), to_csv(found))
    results.keep_recipes(scores.to_csv(compared))
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


def _left_out(left: Iterable[Path], told: Collection[str]) -> list[Problem]:
    """A remark for each dump file whose part is in the tables no more, unless that is told."""
    from numscope.dumps import Problem
    from numscope.parts import dump_file

    message = (
        "was measured before, and is no longer in the dump or no longer asked for:"
        " its rows are left out"
    )
    paths = sorted({path for path in map(dump_file, left) if path} - {*told})
    return [Problem(path, message, failure=False) for path in paths]


def _not_ours(charts: Path, foreign: Iterable[str]) -> list[Problem]:
    """A remark for each file that stays where a chart would be."""
    from numscope.dumps import Problem

    message = "was not written by numscope and stays: move it away for the chart of that name"
    return [Problem(str(charts / name), message, failure=False) for name in foreign]


def _problem(problem: Problem) -> Mapping[str, str]:
    return {"where": problem.where, "message": problem.message}
