"""A run over many dump files that may end at any time and be started again.

What has a part is not measured again, and what is measured becomes a part at once. Nothing here
knows how to measure or what the tables hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numscope import parts, runs
from numscope.analysis import FileResult
from numscope.dumps import Problem
from numscope.merging import Merged, merge
from numscope.parts import Origin, Part
from numscope.plans import FileWork
from numscope.results import Results
from numscope.runs import RunPlan
from numscope.shards import Shard


@dataclass(slots=True)
class Batch:
    """One shard of a run.

    Attributes
    ----------
    results
        Where everything goes.
    plan
        Of the whole run.
    work
        What this shard has to measure.
    shard
        Which one it is.
    finished
        How many of its files are.
    """

    results: Results
    plan: RunPlan
    work: list[FileWork]
    shard: Shard
    finished: int = 0

    def todo(self) -> list[FileWork]:
        """The files that have no finished part."""
        folder = self.results.parts
        todo = [file for file in self.work if not parts.is_finished(folder, parts.origin(file))]
        self.finished = len(self.work) - len(todo)
        return todo

    def keep(self, result: FileResult) -> FileResult:
        """Keep what was measured in a file; safe from any thread.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        part = Part(result.rows, result.problems)
        parts.write_part(self.results.parts, parts.origin(result.work), part)
        return result

    def end(self, problems: Sequence[Problem]) -> None:
        """Note what is known of the dump by now, for whoever merges the shards."""
        if tuple(problems) != self.plan.problems:
            self.plan = replace(self.plan, problems=tuple(problems))
            runs.begin(self.results.plans, self.plan, self.shard)

    def merge(self) -> tuple[Merged, list[FileWork]]:
        """The tables of all files; and those of this shard whose part was lost meanwhile."""
        merged = merge(self.results, self.plan.files)
        lost = {each.path for each in merged.missing}
        return merged, [file for file in self.work if file.path in lost]

    def advice(self) -> str:
        """How to go on after a stop."""
        return (
            f"{self.finished} of {len(self.work)} dump files are finished and kept in"
            f" {self.results.parts}; the same command goes on from there"
        )


def begin(
    results: Results,
    plan: RunPlan,
    work: Sequence[FileWork],
    shard: Shard,
) -> Batch:
    """Begin a shard of a run, or go on with it.

    Parameters
    ----------
    plan
        Of the whole run; its files are those of `work`.
    work
        What is to be measured in the files of the whole run.
    """
    runs.begin(results.plans, plan, shard)
    own = shard.takes([file.bytes for file in plan.files])
    return Batch(results, plan, [work[at] for at in own], shard)


def origins(work: Sequence[FileWork]) -> tuple[Origin, ...]:
    """What the parts of this work will be made from."""
    return tuple(parts.origin(file) for file in work)
