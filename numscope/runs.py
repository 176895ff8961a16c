"""What a run is to do, kept beside its parts: the plan, and the shard of it each process has taken.

Processes do not talk to each other. Each writes the plan that it has made, under a name that
follows from its content, and a note that its shard of that plan has begun: those that have found
the same dump share a plan. Nothing here measures.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypedDict

from numscope import amounts, json_text, shards, writing
from numscope.dumps import Problem
from numscope.errors import ResultsError, UsageError
from numscope.parts import Origin, digest
from numscope.shards import Shard
from numscope.version import __version__

#: A plan that no shard refers to may belong to a process that has just begun, but not for so long.
_STALE_SECONDS = 3600.0

_PLAN = re.compile(r"[0-9a-f]{24}\.json")
_NOTE = re.compile(r"shard-(\d+)-of-(\d+)\.json")
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, RecursionError)
_COLUMNS = tuple(each.name for each in fields(Origin))


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that a run has to do, and what it knows before it measures.

    Attributes
    ----------
    dump
        The dump folder.
    command
        The command line.
    settings
        All options that change a row, as text by name.
    recipes
        The recipes' facts, by label.
    files
        What to measure, in order.
    problems
        What the scan and the selection had to say.
    """

    dump: str
    command: tuple[str, ...]
    settings: Mapping[str, str]
    recipes: Mapping[str, Mapping[str, object]]
    files: tuple[Origin, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """What run.json says before anything is measured."""
        return {
            "numscope": __version__,
            "command": list(self.command),
            "dump": self.dump,
            "recipes": self.recipes,
            "files": len(self.files),
        }


@dataclass(frozen=True, slots=True)
class Begun:
    """A shard that has begun, with its plan."""

    shard: Shard
    plan: RunPlan
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class WholeRun:
    """What all shards together are to do, by the one that began last, which knows the dump best.

    Attributes
    ----------
    plan
        The plan of that shard.
    missing
        The shards that never began.
    owners
        By path, which shard is to measure a file.
    gone
        What a shard before has found in the dump and that one has not.
    """

    plan: RunPlan
    missing: tuple[Shard, ...]
    owners: Mapping[str, Shard]
    gone: tuple[Problem, ...] = ()


def begin(folder: Path, plan: RunPlan, shard: Shard) -> None:
    """Note that a shard of a plan begins; earlier runs of other splits are forgotten.

    Raises
    ------
    ResultsError
        If that cannot be written.
    """
    content = _written(plan)
    name = f"{digest(content)}.json"
    _keep_plan(folder / name, content)
    note = json_text.text({"plan": name, "command": plan.command})
    writing.write_text(folder / f"shard-{shard.index}-of-{shard.count}.json", note)
    for path, other in _notes(folder):
        if other.count != shard.count:
            path.unlink(missing_ok=True)
    _forget_plans(folder)


def begun(folder: Path) -> list[Begun]:
    """The shards that have begun, the latest last; what cannot be read has not begun."""
    found = []
    plans: dict[str, _Plan] = {}
    for path, shard in _notes(folder):
        try:
            note = json.loads(path.read_bytes())
            name, command = str(note["plan"]), tuple(map(str, note["command"]))
            if name not in plans:
                plans[name] = _read(folder / name)
            plan = RunPlan(command=command, **plans[name])
            found.append(Begun(shard, plan, path.stat().st_mtime_ns))
        except _UNREADABLE:
            continue
    return sorted(found, key=lambda each: each.mtime_ns)


def kept(folder: Path) -> list[Path]:
    """All plans and notes in a folder, and nothing else that may be in it."""
    own = (_PLAN, _NOTE)
    names = folder.glob("*.json")
    return [path for path in names if any(each.fullmatch(path.name) for each in own)]


def whole(folder: Path) -> WholeRun:
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


class _Plan(TypedDict):
    """What a plan's file says: all but the command line, in which shards differ."""

    dump: str
    settings: Mapping[str, str]
    recipes: Mapping[str, Mapping[str, object]]
    files: tuple[Origin, ...]
    problems: tuple[Problem, ...]


def _written(plan: RunPlan) -> bytes:
    """The plan's file, with a list for each field of the dump files."""
    facts = {
        "dump": plan.dump,
        "settings": plan.settings,
        "recipes": plan.recipes,
        "files": {name: [getattr(file, name) for file in plan.files] for name in _COLUMNS},
        "problems": [asdict(each) for each in plan.problems],
    }
    return json_text.text(facts).encode()


def _read(path: Path) -> _Plan:
    """The plan in a file; a `ValueError` if it is not the one of that name."""
    content = path.read_bytes()
    if path.name != f"{digest(content)}.json":
        raise ValueError("is damaged")
    facts = json.loads(content)
    columns = [facts["files"][name] for name in _COLUMNS]
    return _Plan(
        dump=facts["dump"],
        settings=facts["settings"],
        recipes=facts["recipes"],
        files=tuple(Origin(*values) for values in zip(*columns, strict=True)),
        problems=tuple(Problem(**each) for each in facts["problems"]),
    )


def _keep_plan(path: Path, content: bytes) -> None:
    """Write a plan, or mark the one that is there as used again."""
    try:
        if path.read_bytes() == content:
            os.utime(path)
            return
    except OSError:
        pass  # there is none, or it is somebody else's, and then ours takes its place
    writing.write_bytes(path, content)


def _notes(folder: Path) -> Iterator[tuple[Path, Shard]]:
    """The notes of shards that have begun."""
    for path in folder.glob("shard-*-of-*.json"):
        if match := _NOTE.fullmatch(path.name):
            with suppress(UsageError):
                yield path, Shard(int(match[1]), int(match[2]))


def _forget_plans(folder: Path) -> None:
    """Remove plans that no shard refers to any more."""
    used = set(_used(folder))
    for path in folder.glob("*.json"):
        try:
            is_old = time.time() - path.stat().st_mtime > _STALE_SECONDS
            if is_old and path.name not in used and _PLAN.fullmatch(path.name):
                path.unlink()
        except OSError:
            continue


def _used(folder: Path) -> Iterator[str]:
    for path, _ in _notes(folder):
        try:
            yield str(json.loads(path.read_bytes())["plan"])
        except _UNREADABLE:
            continue
