"""The file formats numscope reads, and how a file is opened.

One format is one entry of `FILE_FORMATS` and one module. Nothing here knows what a tensor means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from numscope.dumps import npy, safetensors
from numscope.dumps.arrays import StoredArray
from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.refs import Key
from numscope.dumps.sources import FileSource, Source, open_source, read_bytes
from numscope.errors import DumpError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from numscope.dumps.contents import Contents, Remark

HEAD_SIZE = 512
"""How many of the first bytes a format may look at to recognise its files."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A kind of file.

    Attributes
    ----------
    name
        As people call it.
    suffixes
        Lower-case ends of file names. A file with such a name that cannot be read is a failure.
    looks_like
        Whether the first `HEAD_SIZE` bytes are those of such a file, whatever it is called.
    read_contents
        From the bytes of a file and the type that ambiguous NumPy arrays hold, to its contents.
    """

    name: str
    suffixes: tuple[str, ...]
    looks_like: Callable[[bytes], bool]
    read_contents: Callable[[Source, str | None], Contents]


FILE_FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        name="safetensors",
        suffixes=(".safetensors",),
        looks_like=safetensors.looks_like,
        read_contents=lambda source, _: safetensors.read_contents(source),
    ),
    FileFormat(
        name="npy",
        suffixes=(".npy",),
        looks_like=npy.looks_like,
        read_contents=npy.read_contents,
    ),
)
"""Tried in this order: first by the bytes of a file, then by its name."""


@dataclass(frozen=True, slots=True)
class _Disguise:
    """Something that is often found under the name of a tensor file, by how it begins."""

    prefixes: tuple[bytes, ...]
    message: str


_DISGUISES = (
    _Disguise(
        (b"version https://git-lfs", b"version https://hawser"),
        "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
    ),
    _Disguise((b"<!doctype html", b"<html", b"<?xml"), "is a web page; download the file again"),
)


class DumpFile(Mapping[Key, StoredArray]):
    """An open dump file: its keys, in the order of the file, and the tensors behind them.

    Use it as a context manager; the tensors can be read until it is closed.

    Attributes
    ----------
    format
        The entry of `FILE_FORMATS` that read it.
    size
        Of the file, in bytes.
    metadata
        What the file says about itself, as strings.
    remarks
        What its reader should hear of.
    """

    def __init__(self, source: FileSource, file_format: FileFormat, contents: Contents) -> None:
        self._source = source
        self._arrays = contents.arrays
        self._passed_over = contents.passed_over
        self.format = file_format
        self.size: int = source.size
        self.metadata: Mapping[str, str] = contents.metadata
        self.remarks: tuple[Remark, ...] = contents.remarks

    def __getitem__(self, key: Key) -> StoredArray:
        return self._arrays[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def names(self) -> frozenset[Key]:
        """The keys of all tensors, also of those that are passed over."""
        return frozenset(self._arrays) | self._passed_over

    def close(self) -> None:
        """Close the file. The tensors can no longer be read."""
        os.close(self._source.descriptor)


def format_by_name(path: str) -> FileFormat | None:
    """Find the format whose suffix a file has."""
    name = path.lower()
    return next((entry for entry in FILE_FORMATS if name.endswith(entry.suffixes)), None)


def stem_of(file_name: str) -> str:
    """Take the suffix of its format off a file's name."""
    name = file_name.lower()
    ends = (end for entry in FILE_FORMATS for end in entry.suffixes if name.endswith(end))
    return file_name[: len(file_name) - max(map(len, ends), default=0)]


def open_file(root: str | os.PathLike[str], path: str, *, npy_dtype: str | None = None) -> DumpFile:
    """Open a dump file of any known format, reading no more than its header.

    Parameters
    ----------
    root, path
        The dump folder and the file in it, as in a `TensorRef`.
    npy_dtype
        What NumPy arrays of raw bytes or 8- and 16-bit integers hold, such as `bfloat16`.

    Raises
    ------
    DumpError
        If the file is damaged, refused, or of no known format.
    UsageError
        If `npy_dtype` is no floating-point type.
    """
    dump = open_if_known(root, path, npy_dtype=npy_dtype)
    if dump is None:
        names = ", ".join(entry.name for entry in FILE_FORMATS)
        raise DumpError(f"is of no known format; known are {names}")
    return dump


def open_if_known(
    root: str | os.PathLike[str], path: str, *, npy_dtype: str | None = None
) -> DumpFile | None:
    """Open a dump file, or give `None` if neither its name nor its bytes are those of a format.

    Raises
    ------
    DumpError, UsageError
        As `open_file`.
    """
    if npy_dtype is not None and npy_dtype not in FLOAT_TYPES:
        raise UsageError(f"unknown dtype {npy_dtype!r}; known are {', '.join(FLOAT_TYPES)}")
    source = open_source(Path(root, path))
    dump = None
    try:
        head = read_bytes(source, 0, HEAD_SIZE)
        by_bytes = next((entry for entry in FILE_FORMATS if entry.looks_like(head)), None)
        file_format = by_bytes or format_by_name(path)
        if file_format is not None:
            if by_bytes is None:
                _refuse_disguise(head)
            contents = file_format.read_contents(source, npy_dtype)
            dump = DumpFile(source, file_format, contents)
        return dump
    finally:
        if dump is None:
            os.close(source.descriptor)


def _refuse_disguise(head: bytes) -> None:
    """Say what a file is that has the name of a format but not its first bytes.

    Raises
    ------
    DumpError
        If it is one of the things that are often found instead.
    """
    if not head:
        raise DumpError("is empty")
    start = head.lstrip().lower()
    for disguise in _DISGUISES:
        if start.startswith(disguise.prefixes):
            raise DumpError(disguise.message)
    if all(byte >= 32 or byte in b"\t\n\r" for byte in head[:64]):
        raise DumpError("is a text file, not a file of tensors")
