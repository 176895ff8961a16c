"""The file formats numscope reads, and how a file is opened.

One format is one entry of `FILE_FORMATS` and one module. Nothing here knows what a tensor means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from numscope.dumps import npy, npz, safetensors, torch
from numscope.dumps.arrays import StoredArray
from numscope.dumps.contents import Opened
from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.folders import Folder, folder_at
from numscope.dumps.foreign import refuse_disguise
from numscope.dumps.refs import Key
from numscope.dumps.scratch import GZIP_MAGIC, Scratch, unpack_gzip
from numscope.dumps.sources import MemorySource, OpenFile, Source, Stamp, read_bytes
from numscope.errors import DumpError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from numscope.dumps.contents import Contents, Remark

_SMALL = 1 << 15
"""Files of up to this many bytes are read at once: a dump may have a hundred thousand of them."""

_GZIP_SUFFIX = ".gz"

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
        From an opened file to what it holds.
    """

    name: str
    suffixes: tuple[str, ...]
    looks_like: Callable[[bytes], bool]
    read_contents: Callable[[Opened], Contents]


FILE_FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        name="safetensors",
        suffixes=(".safetensors",),
        looks_like=safetensors.looks_like,
        read_contents=safetensors.read_contents,
    ),
    FileFormat(
        name="npy",
        suffixes=(".npy",),
        looks_like=npy.looks_like,
        read_contents=npy.read_contents,
    ),
    FileFormat(
        name="npz",
        suffixes=(".npz",),
        looks_like=npz.looks_like,
        read_contents=npz.read_contents,
    ),
    FileFormat(
        name="torch",
        suffixes=(".pt", ".pth", ".ckpt"),
        looks_like=torch.looks_like,
        read_contents=torch.read_contents,
    ),
)
"""Tried in this order: first by the bytes of a file, then by its name."""


class DumpFile(Mapping[Key, StoredArray]):
    """An open dump file: its keys, in the order of the file, and the tensors behind them.

    Use it as a context manager; the tensors can be read until it is closed.

    Attributes
    ----------
    format
        The entry of `FILE_FORMATS` that read it.
    size
        Of the file, in bytes.
    stamp
        Its size and when it was changed last, as it was when it was opened.
    metadata
        What the file says about itself, as strings.
    remarks
        What its reader should hear of.
    """

    def __init__(
        self, file: OpenFile, scratch: Scratch, file_format: FileFormat, contents: Contents
    ) -> None:
        self._file = file
        self._scratch = scratch
        self._is_closed = False
        self._arrays = contents.arrays
        self._passed_over = contents.passed_over
        self.format = file_format
        self.size: int = file.size
        self.stamp = file.opened
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

    @property
    def stamp_now(self) -> Stamp:
        """The stamp as it is now: another one if the file has changed since it was opened.

        Raises
        ------
        DumpError
            If the file system can no longer tell.
        """
        return self._file.stamp

    @property
    def has_writer(self) -> bool:
        """Whether somebody is known to have the file open to write to it."""
        return self._file.has_writer

    def close(self) -> None:
        """Close the file, if it is open. The tensors can no longer be read."""
        if not self._is_closed:
            self._is_closed = True
            self._scratch.close()
            self._file.close()


def format_by_name(path: str) -> FileFormat | None:
    """Find the format whose suffix a file has, with or without `.gz` behind it."""
    name = path.lower().removesuffix(_GZIP_SUFFIX)
    return next((entry for entry in FILE_FORMATS if name.endswith(entry.suffixes)), None)


def stem_of(file_name: str) -> str:
    """Take the suffix of its format, and `.gz`, off a file's name."""
    name = file_name.lower().removesuffix(_GZIP_SUFFIX)
    ends = (end for entry in FILE_FORMATS for end in entry.suffixes if name.endswith(end))
    return file_name[: len(name) - max(map(len, ends), default=0)]


def open_file(
    root: str | os.PathLike[str] | Folder, path: str, *, npy_dtype: str | None = None
) -> DumpFile:
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
    root: str | os.PathLike[str] | Folder, path: str, *, npy_dtype: str | None = None
) -> DumpFile | None:
    """Open a dump file, or give `None` if neither its name nor its bytes are those of a format.

    Raises
    ------
    DumpError, UsageError
        As `open_file`.
    """
    if npy_dtype is not None and npy_dtype not in FLOAT_TYPES:
        raise UsageError(f"unknown dtype {npy_dtype!r}; known are {', '.join(FLOAT_TYPES)}")
    file = folder_at(root).open(path)
    scratch = Scratch(file.size)
    dump = None
    try:
        found = _read_or_refuse(file, scratch, format_by_name(path), npy_dtype)
        if found is not None:
            dump = DumpFile(file, scratch, *found)
    except DumpError as error:
        error.opened = file.opened
        raise
    else:
        return dump
    finally:
        if dump is None:
            scratch.close()
            file.close()


_UNEXPECTED = (ValueError, OverflowError, RecursionError, MemoryError)
"""What Python raises when a file asks for too much; readers refuse what they know of themselves."""


def _read_or_refuse(
    file: OpenFile, scratch: Scratch, by_name: FileFormat | None, npy_dtype: str | None
) -> tuple[FileFormat, Contents] | None:
    """Read a file as `_read` does, whatever is in it.

    Raises
    ------
    DumpError
        If it cannot be read, also where its reader did not think of it.
    """
    try:
        return _read(file, scratch, by_name, npy_dtype)
    except _UNEXPECTED as error:
        raise DumpError(f"is damaged in an unknown way ({type(error).__name__})") from error


def _read(
    file: OpenFile, scratch: Scratch, by_name: FileFormat | None, npy_dtype: str | None
) -> tuple[FileFormat, Contents] | None:
    """Recognise a file, by its first bytes rather than by its name, and read what it holds."""
    source: Source = file
    if file.size <= _SMALL:
        source = MemorySource(read_bytes(file, 0, file.size))
    head = read_bytes(source, 0, HEAD_SIZE)
    if by_name is not None and head.startswith(GZIP_MAGIC):
        source = unpack_gzip(file, scratch)
        head = read_bytes(source, 0, HEAD_SIZE)
    by_bytes = next((entry for entry in FILE_FORMATS if entry.looks_like(head)), None)
    file_format = by_bytes or by_name
    if file_format is None:
        return None
    if by_bytes is None:
        refuse_disguise(head)
    return file_format, file_format.read_contents(Opened(source, scratch, npy_dtype))
