"""From a dump folder to references: walk, open headers, identify, report what was not understood.

No values are read here, and nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from numscope.dumps import sharded
from numscope.dumps.files import DumpFile, format_by_name, open_if_known, stem_of
from numscope.dumps.foreign import foreign_by_name
from numscope.dumps.layouts import Layout, identify, layouts_with
from numscope.dumps.places import Identity, Place
from numscope.dumps.refs import Key, Problem, Scan, TensorRef
from numscope.dumps.settling import Numbering, settle
from numscope.dumps.sidecars import Sidecars
from numscope.dumps.walking import walk
from numscope.errors import DumpError, NothingToDo

if TYPE_CHECKING:
    from numscope.dumps.arrays import StoredArray
    from numscope.dumps.contents import Remark

CONTEXT_LENGTH = 4
"""How many folders of the dump folder's own path may tell something about its tensors."""

Progress = Callable[[int, int], None]
"""Called with the number of files looked at, and of all files."""

_IGNORED = (
    *(".json", ".jsonl", ".txt", ".md", ".rst", ".log", ".csv", ".tsv", ".yaml", ".yml", ".toml"),
    *(".ini", ".cfg", ".py", ".sh", ".png", ".jpg", ".svg", ".pdf", ".html", ".xml", ".ipynb"),
    *(".lock", ".tmp", ".parquet", ".zst"),
)
"""Suffixes of files that lie beside dumps and are none, so that they need not be opened."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """How steps become tokens: an explicit table, else a number of tokens for each step."""

    per_step: int | None = None
    by_step: Mapping[int, int] | None = None
    step_offset: int = 0

    def at(self, step: int | None, stated: int | None) -> int | None:
        """Tokens trained on at a step as saved, `stated` if no option says otherwise."""
        if step is None or (self.per_step is None and self.by_step is None):
            return stated
        step += self.step_offset
        if self.by_step is not None and step in self.by_step:
            return self.by_step[step]
        return step * self.per_step if self.per_step is not None else stated


@dataclass(slots=True)
class _Findings:
    """What a scan has come across so far."""

    found: list[tuple[TensorRef, Identity]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    files: int = 0
    bytes: int = 0

    def add_failure(self, where: str, message: str) -> None:
        """Note that something could not be read."""
        self.problems.append(Problem(where, " ".join(message.split())))

    def add_foreign(self, where: str, message: str) -> None:
        """Note, once for each place, what is there instead of a dump."""
        if where not in self.foreign:
            self.foreign.add(where)
            self.add_failure(where, message)

    def add_remark(self, path: str, remark: Remark) -> None:
        """Note what a file's reader remarked; remarks that only count are put together."""
        if remark.count and not remark.failure:
            self.remarks.setdefault(remark.message, []).append((path, remark.count))
            return
        where = path if remark.key is None else f"{path}:{'/'.join(map(str, remark.key))}"
        self.problems.append(Problem(where, remark.message, failure=remark.failure))

    def all_problems(self, others: list[Problem]) -> tuple[Problem, ...]:
        """Give all failures and remarks, one for each kind of counting remark."""
        counted = []
        for message, places in self.remarks.items():
            total = sum(count for _, count in places)
            where, more = places[0][0], len(places) - 1
            tail = f", in this and {more} more files" if more else ""
            counted.append(Problem(where, f"{message}: {total}{tail}", failure=False))
        return tuple(sorted([*self.problems, *counted, *others], key=lambda problem: problem.where))


def scan(
    path: str | os.PathLike[str],
    *,
    tokens_per_step: int | None = None,
    tokens_map: Mapping[int, int] | None = None,
    step_offset: int = 0,
    layers_per_stage: int | None = None,
    layer_offset: int | Mapping[str, int] = 0,
    pattern: str | None = None,
    npy_dtype: str | None = None,
    on_progress: Progress | None = None,
) -> Scan:
    """Find every floating-point tensor under a folder, or in one file, and say what it is.

    Parameters
    ----------
    path
        A dump folder or a single dump file.
    tokens_per_step, tokens_map, step_offset
        Tokens are `tokens_map[step + step_offset]`, else `(step + step_offset) * tokens_per_step`;
        without either, what the dump itself says.
    layers_per_stage
        How many layers each pipeline stage holds: layers that count within a stage then count
        through the model.
    layer_offset
        What is added to every layer (-1 where they count from 1), or to those of a layout by name.
    pattern
        How names are built, such as `{step}/L{layer}_{kind}.npy`, instead of the generic rule.
    npy_dtype
        What NumPy arrays of raw bytes or 8- and 16-bit integers hold, such as `bfloat16`.
    on_progress
        Called now and then with the number of files looked at and the number of all files.

    Returns
    -------
    Scan
        Tensors sorted by path, in the order of their files, and everything that went wrong: a file
        that cannot be read never ends the scan.

    Raises
    ------
    NothingToDo
        If `path` does not exist or cannot be listed.
    UsageError
        If `npy_dtype` is no floating-point type or `pattern` cannot be meant.
    """
    layouts = layouts_with(pattern)
    given = Path(path)
    if not given.exists():
        raise NothingToDo(f"{given} does not exist; a dump folder or a dump file was expected")
    root, paths, walk_problems = walk(given)
    tokens = Tokens(tokens_per_step, tokens_map, step_offset)
    context = root.resolve().parts[1:][-CONTEXT_LENGTH:]
    findings = _Findings(problems=walk_problems)
    sidecars = Sidecars(root)
    for count, name in enumerate(paths):
        if on_progress is not None and count % 64 == 0:
            on_progress(count, len(paths))
        if name.endswith(sharded.INDEX_SUFFIX):
            findings.problems.extend(sharded.check_index(root, name))
            continue
        if name.lower().endswith(_IGNORED) and format_by_name(name) is None and given.is_dir():
            continue
        foreign = foreign_by_name(name)
        if foreign is not None:
            findings.add_foreign(*foreign)
            continue
        try:
            dump = open_if_known(root, name, npy_dtype=npy_dtype)
        except DumpError as error:
            findings.add_failure(name, str(error))
            continue
        if dump is not None:
            with dump:
                _add_file(
                    findings, dump, _Origin(str(root), name, context, layouts, tokens, sidecars)
                )
    if on_progress is not None:
        on_progress(len(paths), len(paths))
    offsets = layer_offset if isinstance(layer_offset, Mapping) else {"": layer_offset}
    settled = settle(findings.found, Numbering(layers_per_stage, offsets if layer_offset else None))
    return Scan(
        root=os.fspath(path),
        refs=tuple(settled.refs),
        left_out=tuple(settled.left_out),
        problems=findings.all_problems(settled.problems),
        files=findings.files,
        bytes=findings.bytes,
    )


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a file comes from and how its tensors are to be named."""

    root: str
    path: str
    context: tuple[str, ...]
    layouts: tuple[Layout, ...]
    tokens: Tokens
    sidecars: Sidecars


def _add_file(findings: _Findings, dump: DumpFile, origin: _Origin) -> None:
    """Take in everything that one file holds."""
    findings.files += 1
    findings.bytes += dump.size
    for remark in dump.remarks:
        findings.add_remark(origin.path, remark)
    *folders, file_name = origin.path.split("/")
    read_json = partial(origin.sidecars.read, tuple(folders))
    for key, array in dump.items():
        place = Place(
            context=origin.context,
            folders=tuple(folders),
            stem=stem_of(file_name),
            file_name=file_name,
            key=key,
            metadata=dump.metadata,
            read_json=read_json,
        )
        layout, identity = identify(place, origin.layouts)
        findings.found.append((_ref(origin, key, array, layout, identity), identity))


def _ref(
    origin: _Origin, key: Key, array: StoredArray, layout: str, identity: Identity
) -> TensorRef:
    return TensorRef(
        root=origin.root,
        path=origin.path,
        key=key,
        shape=array.shape,
        dtype=str(array.dtype),
        kind=identity.kind,
        layer=identity.layer,
        module=identity.module,
        step=identity.step,
        tokens=origin.tokens.at(identity.step, identity.tokens),
        rank=identity.rank,
        microbatch=identity.microbatch,
        expert=identity.expert,
        slot=identity.slot,
        shard=identity.shard,
        stage=identity.stage,
        layout=layout,
    )
