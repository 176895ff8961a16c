"""What the shards of a run are to do together: what the last one to begin says, and who is missing.

The dump is not looked at, and nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numscope import amounts, shards
from numscope.dumps import Problem
from numscope.errors import ResultsError
from numscope.parts import Origin
from numscope.runs import Begun, RunPlan, begun
from numscope.shards import Shard


@dataclass(frozen=True, slots=True)
class WholeRun:
    """What all shards together are to do, by the one that began last, which knows the dump best.

    Attributes
    ----------
    plan, shard
        Of the one that began last.
    missing
        The shards that never began.
    owners
        By path, which shard is to measure a file.
    gone
        What a shard before has found in the dump and that one has not.
    """

    plan: RunPlan
    shard: Shard
    missing: tuple[Shard, ...]
    owners: Mapping[str, Shard]
    gone: tuple[Problem, ...] = ()


def whole_run(folder: Path) -> WholeRun:
    """What the shards that have begun are to do together.

    Raises
    ------
    ResultsError
        If none has begun, or they were begun with different options or on different dumps.
    """
    all_begun = begun(folder)
    if not all_begun:
        raise ResultsError(f"no run has begun in {folder.parent}: there is nothing to merge")
    latest = all_begun[-1]
    count = latest.shard.count
    all_begun = [each for each in all_begun if each.shard.count == count]
    for each in all_begun:
        _refuse_others(each, latest)
    present = {each.shard.index for each in all_begun}
    return WholeRun(
        latest.plan,
        latest.shard,
        tuple(Shard(index, count) for index in range(1, count + 1) if index not in present),
        _owners(latest.plan.files, count),
        _gone(all_begun[:-1], latest),
    )


def _gone(before: Sequence[Begun], latest: Begun) -> tuple[Problem, ...]:
    """A remark for each file that `latest` has no longer found, if it does not say why itself."""
    lists = {id(each.plan.files): each.plan.files for each in before}  # most share theirs
    found = {file.path for files in lists.values() for file in files}
    known = {file.path for file in latest.plan.files} | {
        each.where for each in latest.plan.problems
    }
    message = f"was no longer in the dump when shard {latest.shard} began: its rows are left out"
    return tuple(Problem(path, message, failure=False) for path in sorted(found - known))


def absent(run: WholeRun, missing: Sequence[Origin]) -> list[Problem]:
    """A failure for each shard that has not begun, and for each that is not finished."""
    folder = run.plan.dump
    found = [
        Problem(folder, f"shard {shard} has not been run: its files are missing")
        for shard in run.missing
    ]
    by_shard: dict[Shard, list[Origin]] = {}
    for file in missing:
        by_shard.setdefault(run.owners[file.path], []).append(file)
    for shard, files in by_shard.items():
        if shard not in run.missing:
            others = amounts.others(len(files) - 1, "file")
            found.append(Problem(files[0].path, f"has no part{others}: run shard {shard} again"))
    return found


def _owners(files: Sequence[Origin], count: int) -> dict[str, Shard]:
    split = shards.split([file.bytes for file in files], count)
    return {file.path: Shard(index, count) for file, index in zip(files, split, strict=True)}


def _refuse_others(one: Begun, latest: Begun) -> None:
    if one.plan.dump != latest.plan.dump:
        raise ResultsError(
            f"shard {one.shard} was run on {one.plan.dump}, shard {latest.shard} on"
            f" {latest.plan.dump}: run all shards on the same dump"
        )
    for name in {**one.plan.settings, **latest.plan.settings}:
        before, now = (each.plan.settings.get(name) for each in (one, latest))
        if before != now:
            raise ResultsError(
                f"shard {one.shard} was run {_with(name, before)}, shard {latest.shard}"
                f" {_with(name, now)}: run the shards again with the same options"
            )


def _with(name: str, value: str | None) -> str:
    return f"without {name}" if value is None else f"with {name} {value}"
