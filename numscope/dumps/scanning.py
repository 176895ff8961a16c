"""From a dump folder to references: walk, open headers, identify, report what was not understood.

No values are read here, and nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from numscope.dumps import sharded
from numscope.dumps.files import DumpFile, format_by_name, open_if_known, stem_of
from numscope.dumps.layouts import LAYOUTS, Layout, identify
from numscope.dumps.places import Place
from numscope.dumps.refs import Key, Problem, Scan, TensorRef
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

    refs: list[TensorRef] = field(default_factory=list)
    duplicates: list[TensorRef] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    places: dict[tuple[object, ...], str] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0

    def add_failure(self, where: str, message: str) -> None:
        """Note that something could not be read."""
        self.problems.append(Problem(where, " ".join(message.split())))

    def add_remark(self, path: str, remark: Remark) -> None:
        """Note what a file's reader remarked; remarks that only count are put together."""
        if remark.count and not remark.failure:
            self.remarks.setdefault(remark.message, []).append((path, remark.count))
            return
        where = path if remark.key is None else f"{path}:{'/'.join(map(str, remark.key))}"
        self.problems.append(Problem(where, remark.message, failure=remark.failure))

    def add_ref(self, ref: TensorRef) -> None:
        """Take a tensor in, unless it claims to be one that was found before."""
        if ref.kind is not None:
            first = self.places.setdefault(ref.identity, ref.name)
            if first != ref.name:
                self.add_failure(
                    ref.name,
                    f"is the same tensor as {first} (step {ref.step}, layer {ref.layer}, "
                    f"{ref.module} {ref.kind}); left out, move one of the two away",
                )
                self.duplicates.append(ref)
                return
        self.refs.append(ref)

    def all_problems(self) -> tuple[Problem, ...]:
        """All failures and remarks, one for each kind of counting remark."""
        counted = []
        for message, places in self.remarks.items():
            total = sum(count for _, count in places)
            where, more = places[0][0], len(places) - 1
            tail = f", in this and {more} more files" if more else ""
            counted.append(Problem(where, f"{total} {message}{tail}", failure=False))
        return tuple(sorted([*self.problems, *counted], key=lambda problem: problem.where))


def scan(
    path: str | os.PathLike[str],
    *,
    tokens_per_step: int | None = None,
    tokens_map: Mapping[int, int] | None = None,
    step_offset: int = 0,
    npy_dtype: str | None = None,
    layouts: tuple[Layout, ...] = LAYOUTS,
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
    npy_dtype
        What NumPy arrays of raw bytes or 8- and 16-bit integers hold, such as `bfloat16`.
    layouts
        The layouts to try, in this order.
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
        If `npy_dtype` is no floating-point type.
    """
    given = Path(path)
    if not given.exists():
        raise NothingToDo(f"{given} does not exist; a dump folder or a dump file was expected")
    root, paths, walk_problems = walk(given)
    tokens = Tokens(tokens_per_step, tokens_map, step_offset)
    context = root.resolve().parts[1:][-CONTEXT_LENGTH:]
    findings = _Findings(problems=walk_problems)
    for count, name in enumerate(paths):
        if on_progress is not None and count % 64 == 0:
            on_progress(count, len(paths))
        if name.endswith(sharded.INDEX_SUFFIX):
            findings.problems.extend(sharded.check_index(root, name))
            continue
        if name.lower().endswith(_IGNORED) and format_by_name(name) is None and given.is_dir():
            continue
        try:
            dump = open_if_known(root, name, npy_dtype=npy_dtype)
        except DumpError as error:
            findings.add_failure(name, str(error))
            continue
        if dump is not None:
            with dump:
                _add_file(findings, dump, _Origin(str(root), name, context, layouts, tokens))
    if on_progress is not None:
        on_progress(len(paths), len(paths))
    return Scan(
        root=os.fspath(path),
        refs=tuple(findings.refs),
        duplicates=tuple(findings.duplicates),
        problems=findings.all_problems(),
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


def _add_file(findings: _Findings, dump: DumpFile, origin: _Origin) -> None:
    """Take in everything that one file holds."""
    findings.files += 1
    findings.bytes += dump.size
    for remark in dump.remarks:
        findings.add_remark(origin.path, remark)
    *folders, file_name = origin.path.split("/")
    for key, array in dump.items():
        place = Place(origin.context, tuple(folders), stem_of(file_name), key, dump.metadata)
        findings.add_ref(_ref(origin, place, key, array))


def _ref(origin: _Origin, place: Place, key: Key, array: StoredArray) -> TensorRef:
    layout, identity = identify(place, origin.layouts)
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
        layout=layout.name,
    )
