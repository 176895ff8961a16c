"""A run over many dump files that may end at any time and be started again.

What has a part is not measured again, and what is measured becomes a part at once. Nothing here
knows how to measure or what the tables hold.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from numscope import parts, runs, writing
from numscope.dumps import Problem
from numscope.logs import Log
from numscope.merging import Merged, merge
from numscope.outcomes import FileResult
from numscope.parts import Origin, Part
from numscope.plans import FileWork
from numscope.results import Results
from numscope.runs import RunPlan
from numscope.shards import Shard
from numscope.tenure import Tenure
from numscope.workers import Workers


@dataclass(slots=True)
class Batch:
    """One shard of a run.

    Attributes
    ----------
    results
        Where everything goes, as long as the run has the folder.
    plan
        Of the whole run.
    work
        What this shard has to measure.
    shard
        Which one it is.
    origins
        By path, what the parts of the whole run are made from.
    tenure
        Whether it still has the folder.
    displaced
        The unfinished run with other options, or of another dump, whose place this one takes.
    finished
        How many of its files are.
    """

    results: Results
    plan: RunPlan
    work: list[FileWork]
    shard: Shard
    origins: Mapping[str, Origin]
    tenure: Tenure
    displaced: RunPlan | None = None
    finished: int = 0

    def todo(self) -> list[FileWork]:
        """The files that have no finished part."""
        todo = [
            file
            for file in self.work
            if not parts.is_finished(self.results.parts, self.origins[file.path])
        ]
        self.finished = len(self.work) - len(todo)
        return todo

    def measure(self, workers: Workers, log: Log) -> list[Problem]:
        """Measure what has no part yet, and keep it; what could not be read."""
        todo = self.todo()
        if self.finished:
            log.note(f"{self.finished} of {len(self.work)} dump files were finished before")
        return self._measure(todo, workers, log) if todo else []

    def _measure(self, todo: Sequence[FileWork], workers: Workers, log: Log) -> list[Problem]:
        problems: list[Problem] = []
        lock = threading.Lock()
        with log.progress(sum(file.bytes for file in todo), len(todo)) as meter:

            def keep(result: FileResult) -> FileResult:
                self.keep(result)
                with lock:
                    problems.extend(result.problems)
                    self.finished += not result.problems
                meter.advance(failures=sum(each.failure for each in result.problems))
                return result

            for _ in workers.results(todo, keep, lambda count: meter.advance(files=0, bytes=count)):
                pass
        return sorted(problems, key=lambda each: each.where)

    def keep(self, result: FileResult) -> None:
        """Keep what was measured in a file; safe from any thread.

        Raises
        ------
        ResultsError
            If it cannot be written, or the folder is this run's no more.
        """
        self.tenure.confirm_now_and_then()
        part = Part(result.rows, result.problems)
        parts.write_part(self.results.parts, self.origins[result.work.path], part)

    def end(self, problems: Sequence[Problem]) -> None:
        """Note what is known of the dump by now, for whoever merges the shards.

        Raises
        ------
        ResultsError
            If it cannot be written, or the folder is this run's no more.
        """
        self.tenure.confirm()
        if tuple(problems) != self.plan.problems:
            self.plan = replace(self.plan, problems=tuple(problems))
            runs.amend(self.results.plans, self.plan, self.shard, self.tenure.confirm)

    def merge(self, workers: Workers, log: Log) -> Merged:
        """Make the tables; parts that somebody has taken away meanwhile are made again, once.

        Raises
        ------
        ResultsError
            If they cannot be written, or the folder is this run's no more.
        """
        merged = merge(self.results, self.plan.files)
        lost = {each.path for each in merged.missing}
        if not lost:
            return merged
        again = [file for file in self.work if file.path in lost]
        self.finished -= len(again)
        self._measure(again, workers, log)
        merged = merge(self.results, self.plan.files)
        message = f"has no part: it was taken away from {self.results.parts} twice"
        merged.problems.extend(Problem(each.path, message) for each in merged.missing)
        return merged

    def advice(self) -> str:
        """How to go on after a stop."""
        if not self.results.folder.is_dir():
            return writing.gone(self.results.folder)
        return (
            f"{self.finished} of {len(self.work)} dump files are finished and kept in"
            f" {self.results.parts}; the same command goes on from there"
        )


def begin(
    results: Results,
    plan: RunPlan,
    work: Sequence[FileWork],
    shard: Shard,
    *,
    fresh: bool = False,
) -> Batch:
    """Begin a shard of a run, or go on with it.

    Parameters
    ----------
    plan
        Of the whole run; its files are those of `work`.
    work
        What is to be measured in the files of the whole run.
    fresh
        Whether nothing of an earlier run is to be used.
    """
    own = [work[at] for at in shard.takes([file.bytes for file in plan.files])]
    charts, is_unfinished = results.listed_charts(), results.is_unfinished
    if fresh:
        results.forget([file.path for file in own] if shard.count > 1 else None)
    # Whose folder it is, if this is killed.
    if fresh or shard.count == 1 or not is_unfinished:
        results.keep_run({**plan.facts, "finished": False, "charts": charts})
    displaced = runs.other(results.plans, plan, shard) if is_unfinished else None
    runs.begin(results.plans, plan, shard)
    origins = {file.path: file for file in plan.files}
    tenure = Tenure(results.plans, plan, shard)
    held = replace(results, confirm=tenure.confirm)
    return Batch(held, plan, own, shard, origins, tenure, displaced)
