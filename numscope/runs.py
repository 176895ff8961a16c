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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypedDict

from numscope import json_text, writing
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


def amend(
    folder: Path, plan: RunPlan, shard: Shard, confirm: Callable[[], object] = lambda: None
) -> None:
    """Put a plan in the place of the one that a shard has begun with, which began when it did.

    `confirm` is as for `writing.replacing`.

    Raises
    ------
    ResultsError
        If that cannot be written.
    """
    try:
        began = note_path(folder, shard).stat().st_mtime_ns
    except FileNotFoundError:
        return  # the same run has been split otherwise
    _keep_note(folder, plan, shard, began, confirm)


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


def _differ(one: RunPlan, other: RunPlan) -> bool:
    """Whether two runs make different tables of the same state of a dump, or are of two dumps."""
    return (one.dump, dict(one.settings)) != (other.dump, dict(other.settings))


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


def _keep_note(
    folder: Path,
    plan: RunPlan,
    shard: Shard,
    began: int | None = None,
    confirm: Callable[[], object] = lambda: None,
) -> None:
    """Write a plan and the note that a shard of it began, now or then in nanoseconds since 1970."""
    content = _written(plan)
    name = f"{digest(content)}.json"
    _keep_plan(folder / name, content)
    note = json_text.text({"plan": name, "command": plan.command}).encode()
    path = note_path(folder, shard)
    with writing.replacing(path, durable=True, inside=folder.parent, confirm=confirm) as file:
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
