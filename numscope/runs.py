"""What a run is to do, kept beside its parts: the plan, and the shard of it each process has taken.

Processes do not talk to each other. Each writes the plan that it has made, under a name that
follows from its content, and a note that its shard of that plan has begun. Nothing here measures.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numscope import amounts, shards, writing
from numscope.dumps import Problem
from numscope.errors import ResultsError
from numscope.parts import Origin
from numscope.shards import Shard
from numscope.version import __version__

#: A plan that no shard refers to may belong to a process that has just begun, but not for so long.
_STALE_SECONDS = 3600.0


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

    @property
    def files(self) -> list[Origin]:
        """What the shard has to measure."""
        sizes = [file.bytes for file in self.plan.files]
        return [self.plan.files[at] for at in self.shard.takes(sizes)]


@dataclass(frozen=True, slots=True)
class Standing:
    """What all shards together are to do, as far as it is known, and those that never began."""

    plan: RunPlan
    missing: tuple[Shard, ...]
    owners: Mapping[str, Shard]


def begin(folder: Path, plan: RunPlan, shard: Shard) -> None:
    """Note that a shard of a plan begins; earlier runs of other splits are forgotten.

    Raises
    ------
    ResultsError
        If that cannot be written.
    """
    text = json.dumps(asdict(plan))
    name = f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.json"
    if not (folder / name).exists():
        writing.write_text(folder / name, text)
    writing.write_text(folder / _note_name(shard), json.dumps({"plan": name}))
    for path in folder.glob("shard-*-of-*.json"):
        if not path.name.endswith(f"-of-{shard.count}.json"):
            path.unlink(missing_ok=True)
    _forget_plans(folder)


def begun(folder: Path) -> list[Begun]:
    """The shards that have begun, the latest last; what cannot be read has not begun."""
    found = []
    plans: dict[str, RunPlan] = {}
    for path in folder.glob("shard-*-of-*.json"):
        try:
            name = json.loads(path.read_bytes())["plan"]
            if name not in plans:
                plans[name] = _plan(json.loads((folder / name).read_bytes()))
            index, count = path.stem.removeprefix("shard-").split("-of-")
            shard = Shard(int(index), int(count))
            found.append(Begun(shard, plans[name], path.stat().st_mtime_ns))
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return sorted(found, key=lambda each: each.mtime_ns)


def standing(folder: Path) -> Standing:
    """What the shards that have begun are to do together.

    Raises
    ------
    ResultsError
        If none has begun, or they were begun with different options.
    """
    all_begun = begun(folder)
    if not all_begun:
        raise ResultsError(f"no run has begun in {folder.parent}: there is nothing to merge")
    latest = all_begun[-1]
    count = latest.shard.count
    all_begun = [each for each in all_begun if each.shard.count == count]
    for each in all_begun:
        _refuse_others(each, latest)
    files = {file.path: file for each in all_begun for file in each.plan.files}
    problems = dict.fromkeys(one for each in all_begun for one in each.plan.problems)
    present = {each.shard.index for each in all_begun}
    plan = RunPlan(
        latest.plan.dump,
        latest.plan.command,
        latest.plan.settings,
        latest.plan.recipes,
        tuple(files[path] for path in sorted(files)),
        tuple(problems),
    )
    return Standing(
        plan,
        tuple(Shard(index, count) for index in range(1, count + 1) if index not in present),
        _owners(latest.plan.files, count),
    )


def absent(standing: Standing, missing: Sequence[Origin]) -> list[Problem]:
    """A failure for each shard that has not begun, and for each that is not finished."""
    folder = standing.plan.dump
    found = [
        Problem(folder, f"shard {shard} has not been run: its files are missing")
        for shard in standing.missing
    ]
    by_shard: dict[Shard | None, list[Origin]] = {}
    for file in missing:
        by_shard.setdefault(standing.owners.get(file.path), []).append(file)
    for shard, files in by_shard.items():
        if shard not in standing.missing:
            others = amounts.others(len(files) - 1, "file")
            found.append(Problem(files[0].path, f"has no part{others}: run shard {shard} again"))
    return found


def _owners(files: Sequence[Origin], count: int) -> dict[str, Shard]:
    split = shards.split([file.bytes for file in files], count)
    return {file.path: Shard(index, count) for file, index in zip(files, split, strict=True)}


def _refuse_others(one: Begun, latest: Begun) -> None:
    for name, value in latest.plan.settings.items():
        other = one.plan.settings.get(name)
        if other != value:
            raise ResultsError(
                f"shard {one.shard} was run with {name} {other}, shard {latest.shard} with"
                f" {value}: run the shards again with the same options"
            )


def _plan(facts: dict[str, Any]) -> RunPlan:
    files = tuple(Origin(**each) for each in facts.pop("files"))
    problems = tuple(Problem(**each) for each in facts.pop("problems"))
    command = tuple(facts.pop("command"))
    return RunPlan(**facts, command=command, files=files, problems=problems)


def _note_name(shard: Shard) -> str:
    return f"shard-{shard.index}-of-{shard.count}.json"


def _forget_plans(folder: Path) -> None:
    """Remove plans that no shard refers to any more."""
    used = set(_used(folder))
    for path in folder.glob("*.json"):
        try:
            is_old = time.time() - path.stat().st_mtime > _STALE_SECONDS
            if is_old and path.name not in used and not path.name.startswith("shard-"):
                path.unlink()
        except OSError:
            continue


def _used(folder: Path) -> Iterable[str]:
    for path in folder.glob("shard-*-of-*.json"):
        try:
            yield str(json.loads(path.read_bytes())["plan"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
