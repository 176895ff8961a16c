"""From a dump folder to references: walk, open headers, identify, report what was not understood.

No values are read here, and nothing is printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from numscope.dumps import sharded
from numscope.dumps.bounds import SIZE_LIMIT
from numscope.dumps.files import DumpFile, format_by_name, open_if_known, stem_of
from numscope.dumps.folders import Folder
from numscope.dumps.foreign import foreign_by_name
from numscope.dumps.gathering import Gathered
from numscope.dumps.layouts import Layout, identify, layouts_with
from numscope.dumps.places import Place
from numscope.dumps.refs import Problem, Scan, TensorRef
from numscope.dumps.settling import Numbering, settle
from numscope.dumps.sidecars import Sidecars
from numscope.dumps.sources import Stamp
from numscope.dumps.walking import walk
from numscope.errors import DumpError, NotOpened, UsageError

CONTEXT_LENGTH = 4
"""How many folders of the dump folder's own path may tell something about its tensors."""

_PROGRESS_STEP = 64
_SHOWN_STEPS = 5

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

    def is_told(self, step: int) -> bool:
        """Whether the options say how many there are at a step as saved."""
        is_listed = self.by_step is not None and step + self.step_offset in self.by_step
        return is_listed or self.per_step is not None

    def at(self, step: int | None, stated: int | None) -> int | None:
        """Tokens trained on at a step as saved, `stated` if no option says otherwise.

        They are not known of a step that the options put before the first.

        Raises
        ------
        UsageError
            If they would be more than can be counted.
        """
        if step is None or (self.per_step is None and self.by_step is None):
            return stated
        counted = step + self.step_offset
        tokens = stated
        if self.by_step is not None and counted in self.by_step:
            tokens = self.by_step[counted]
        elif self.per_step is not None:
            tokens = counted * self.per_step
        if tokens is not None and tokens >= SIZE_LIMIT:
            raise UsageError(
                f"step {step} would be at {tokens:.4g} tokens by --tokens-per-step, --step-offset"
                f" or --tokens-map; numscope counts to {SIZE_LIMIT:.4g}"
            )
        return tokens if tokens is None or tokens >= 0 else None


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
        If `npy_dtype` is no floating-point type, `pattern` cannot be meant, `layer_offset` names a
        layout that there is not, or a step would be at 2^63 tokens or more.
    """
    layouts = layouts_with(pattern)
    offsets = layer_offset if isinstance(layer_offset, Mapping) else {"": layer_offset}
    _check_layouts(offsets, layouts)
    root, paths, problems = walk(path)
    origin = _Origin(
        root=root,
        context=tuple(root.context[-CONTEXT_LENGTH:]),
        layouts=layouts,
        tokens=Tokens(tokens_per_step, tokens_map, step_offset),
        sidecars=Sidecars(root),
        npy_dtype=npy_dtype,
    )
    gathered = Gathered(problems=problems)
    for count, name in enumerate(paths):
        if on_progress is not None and count % _PROGRESS_STEP == 0:
            on_progress(count, len(paths))
        _look_at(gathered, origin, name, is_asked_for=len(paths) == 1)
    if on_progress is not None:
        on_progress(len(paths), len(paths))
    settled = settle(gathered.found, Numbering(layers_per_stage, offsets))
    unknown = _steps_without_tokens(settled.refs, origin.tokens)
    return Scan(
        root=os.fspath(path),
        refs=tuple(settled.refs),
        problems=gathered.all_problems(settled.problems + unknown),
        files=gathered.files,
        bytes=gathered.bytes,
        left_out=tuple(settled.left_out),
        folder=root.name,
        stamps=gathered.stamps,
        unread=gathered.unread,
    )


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where files come from, and how they are read and their tensors named."""

    root: Folder
    context: tuple[str, ...]
    layouts: tuple[Layout, ...]
    tokens: Tokens
    sidecars: Sidecars
    npy_dtype: str | None


def _check_layouts(offsets: Mapping[str, int], layouts: Sequence[Layout]) -> None:
    """Refuse an offset for a layout that there is not."""
    known = [layout.name for layout in layouts]
    for name in offsets:
        if name and name not in known:
            raise UsageError(f"--layer-offset: no layout {name!r}; known are {', '.join(known)}")


def _look_at(gathered: Gathered, origin: _Origin, path: str, *, is_asked_for: bool) -> None:
    """Take in one file, if it is a dump; report it, if it should be one and cannot be read."""
    foreign = foreign_by_name(path)
    if foreign is not None:
        gathered.add_foreign(*foreign)
    elif path.endswith(sharded.INDEX_SUFFIX):
        try:
            gathered.problems.extend(sharded.check_index(origin.root, path))
        except DumpError as error:
            gathered.add_unreadable(path, error, _stamp_at(error, origin.root, path))
    elif is_asked_for or not path.lower().endswith(_IGNORED):
        try:
            dump = open_if_known(origin.root, path, npy_dtype=origin.npy_dtype)
        except DumpError as error:
            # A link `latest` that leads nowhere, or a socket, is not missing from any table.
            is_claimed = is_asked_for or format_by_name(path) is not None
            if isinstance(error, NotOpened) and not is_claimed:
                gathered.problems.append(Problem(path, str(error), failure=False))
            else:
                gathered.add_unreadable(path, error, _stamp_at(error, origin.root, path))
            return
        if dump is not None:
            with dump:
                _take_in(gathered, origin, path, dump)


def _stamp_at(error: DumpError, root: Folder, path: str) -> Stamp | None:
    """The stamp of a file when it was opened; as it is now if that has failed."""
    return Stamp(*error.opened) if error.opened else root.stamp(path)


def _take_in(gathered: Gathered, origin: _Origin, path: str, dump: DumpFile) -> None:
    """Take in everything that one file holds."""
    gathered.files += 1
    gathered.bytes += dump.size
    gathered.stamps[path] = dump.stamp
    for remark in dump.remarks:
        gathered.add_remark(path, remark)
    gathered.add_alike(path, dump)
    *folders, file_name = path.split("/")
    place = Place(
        context=origin.context,
        folders=tuple(folders),
        stem=stem_of(file_name),
        file_name=file_name,
        key=(),
        metadata=dump.metadata,
        read_json=partial(origin.sidecars.read, tuple(folders)),
    )
    for key, array in dump.items():
        layout, identity = identify(replace(place, key=key), origin.layouts)
        ref = TensorRef(
            root=origin.root.name,
            path=path,
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
        gathered.found.append((ref, identity))


def _steps_without_tokens(refs: list[TensorRef], tokens: Tokens) -> list[Problem]:
    """Say for which steps the user's options give no tokens, and for which the dump's are taken."""
    if tokens.by_step is None and tokens.per_step is None:
        return []
    dated = [(ref.step, ref) for ref in reversed(refs) if ref.step is not None]
    first = dict(dated)
    lost = sorted({step for step, ref in dated if ref.tokens is None})
    known = {step for step, ref in dated if ref.tokens is not None}
    kept = sorted(step for step in known.difference(lost) if not tokens.is_told(step))
    table = "the table of tokens has no line for"
    below = f"with a step offset of {tokens.step_offset} the tokens are below 0 at"
    return [
        Problem(first[some[0]].path, f"{why} {_some_of_the_steps(some)}{tail}", failure=False)
        for some, why, tail in (
            (lost, table if tokens.per_step is None else below, ""),
            (kept, table, "; taken is what the dump itself says of them"),
        )
        if some
    ]


def _some_of_the_steps(some: Sequence[int]) -> str:
    shown = ", ".join(map(str, some[:_SHOWN_STEPS])) + (" …" if len(some) > _SHOWN_STEPS else "")
    return f"{len(some)} of the steps found: {shown}"
