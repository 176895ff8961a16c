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
_DAMAGED = (ValueError, TypeError, LookupError, RecursionError)
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


def begin(folder: Path, plan: RunPlan, shard: Shard) -> None:
    """Note that a shard of a plan begins; earlier runs of other splits are forgotten.

    Raises
    ------
    ResultsError
        If that cannot be written.
    """
    _keep_note(folder, plan, shard)
    for path, other in _notes(folder):
        if other.count != shard.count:
            path.unlink(missing_ok=True)
    _forget_plans(folder)


def amend(folder: Path, plan: RunPlan, shard: Shard) -> None:
    """Put a plan in the place of the one that a shard has begun with, which began when it did.

    Raises
    ------
    ResultsError
        If that cannot be written.
    """
    try:
        began = note_path(folder, shard).stat().st_mtime_ns
    except FileNotFoundError:
        return  # the same run has been split otherwise
    _keep_note(folder, plan, shard, began)


def begun(folder: Path) -> list[Begun]:
    """The shards that have begun, the latest last; what is damaged has not begun.

    Raises
    ------
    ResultsError
        If something in the folder must not be read, or the disk fails.
    """
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
        except FileNotFoundError:  # another process has begun
            continue
        except OSError as error:
            raise _unreadable(Path(error.filename or path), error) from error
        except _DAMAGED:
            continue
    return sorted(found, key=lambda each: each.mtime_ns)


def other(folder: Path, plan: RunPlan, shard: Shard) -> RunPlan | None:
    """The run with other options, or of another dump, that stands in the place of this one, if any.

    That is the one which has begun the same shard, or another split, last.

    Raises
    ------
    ResultsError
        If that cannot be read.
    """
    places = [
        each.plan
        for each in begun(folder)
        if each.shard == shard or each.shard.count != shard.count
    ]
    return places[-1] if places and _differ(places[-1], plan) else None


def note_path(folder: Path, shard: Shard) -> Path:
    """Where it is noted that a shard has begun."""
    return folder / f"shard-{shard.index}-of-{shard.count}.json"


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


def _differ(one: RunPlan, other: RunPlan) -> bool:
    """Whether two runs make different tables of the same state of a dump, or are of two dumps."""
    return (one.dump, dict(one.settings)) != (other.dump, dict(other.settings))


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


def _keep_note(folder: Path, plan: RunPlan, shard: Shard, began: int | None = None) -> None:
    """Write a plan and the note that a shard of it began, now or then in nanoseconds since 1970."""
    content = _written(plan)
    name = f"{digest(content)}.json"
    _keep_plan(folder / name, content)
    note = json_text.text({"plan": name, "command": plan.command}).encode()
    path = note_path(folder, shard)
    with writing.replacing(path, durable=True, inside=folder.parent) as file:
        file.write(note)
        if began is not None:
            file.flush()
            os.utime(file.fileno(), ns=(began, began))


def _keep_plan(path: Path, content: bytes) -> None:
    """Write a plan, or mark the one that is there as used again."""
    try:
        if path.read_bytes() == content:
            os.utime(path)
            return
    except OSError:
        pass  # there is none, or it is somebody else's, and then ours takes its place
    writing.write_bytes(path, content, durable=True, inside=path.parent.parent)


def _notes(folder: Path) -> Iterator[tuple[Path, Shard]]:
    """The notes of shards that have begun."""
    for path in _listed(folder):
        if match := _NOTE.fullmatch(path.name):
            with suppress(UsageError):
                yield path, Shard(int(match[1]), int(match[2]))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _unreadable(path: Path, error: OSError) -> ResultsError:
    return ResultsError(f"{path} cannot be read: {error.strerror or error}")


def _forget_plans(folder: Path) -> None:
    """Remove plans that no shard refers to any more."""
    used = set(_used(folder))
    for path in _listed(folder):
        if path.name in used or not _PLAN.fullmatch(path.name):
            continue
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


def _used(folder: Path) -> Iterator[str]:
    for path, _ in _notes(folder):
        with suppress(OSError, *_DAMAGED):
            yield str(json.loads(path.read_bytes())["plan"])
