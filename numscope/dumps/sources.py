"""Bytes that can be read at any place, by several threads at once, without a file position.

Every reader of the package takes its bytes from a `Source`. Nothing here maps a file into memory:
a mapped file that shrinks kills the process, and mapped pages count as memory.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from numscope.dumps import unfinished
from numscope.errors import CutShort, DumpError, NotOpened

if TYPE_CHECKING:
    from pathlib import Path

_CUT_SHORT = "the file was cut short while being read"


class Source(Protocol):
    """Something of `size` bytes that `read_into` can fill a buffer from, starting at any offset."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill the whole of `target`, a writable view of bytes, from `offset` on."""


class Stamp(NamedTuple):
    """What tells a file's content from an earlier or later one: its size and when it was changed.

    `mtime_ns` is in nanoseconds since 1970.
    """

    size: int
    mtime_ns: int


class OpenFile(Source, Protocol):
    """A file that is open: a source of bytes that is closed in the end."""

    @property
    def opened(self) -> Stamp:
        """The stamp that it had when it was opened."""

    @property
    def stamp(self) -> Stamp:
        """The stamp that it has now.

        Raises
        ------
        DumpError
            If that cannot be told any more.
        """

    @property
    def has_writer(self) -> bool:
        """Whether somebody is known to have it open to write to it."""

    def close(self) -> None:
        """Close it; nothing can be read any more."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """An open file; whoever opened it closes it."""

    descriptor: int
    size: int
    mtime_ns: int = 0

    @property
    def opened(self) -> Stamp:
        """Size and time of the last change when it was opened."""
        return Stamp(self.size, self.mtime_ns)

    @property
    def stamp(self) -> Stamp:
        """Size and time of the last change as they are now.

        Raises
        ------
        DumpError
            If the file system can no longer tell.
        """
        try:
            return _stamp(os.fstat(self.descriptor))
        except OSError as error:
            raise DumpError(f"cannot be read: {error.strerror}") from error

    @property
    def has_writer(self) -> bool:
        """Whether a process of this machine has the file open to write to it."""
        return unfinished.has_writer(self.descriptor)

    def close(self) -> None:
        """Close the file; nothing can be read any more."""
        os.close(self.descriptor)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        CutShort
            If the file ends before `target` is full.
        DumpError
            If it cannot be read.
        """
        while len(target):
            try:
                count = os.preadv(self.descriptor, [target], offset)
            except OSError as error:
                raise DumpError(f"cannot be read: {error.strerror}") from error
            if count == 0:
                raise CutShort(_CUT_SHORT)
            target = target[count:]
            offset += count


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Bytes in memory, such as an unpacked member of a compressed archive."""

    data: bytes | bytearray

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        CutShort
            If the data ends before `target` is full.
        """
        part = memoryview(self.data)[offset : offset + len(target)]
        if len(part) < len(target):
            raise CutShort(_CUT_SHORT)
        target[:] = part


@dataclass(frozen=True, slots=True)
class PartSource:
    """A stretch of another source, such as one member of an archive."""

    whole: Source
    start: int
    size: int

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        CutShort
            If the part ends before `target` is full.
        """
        if offset + len(target) > self.size:
            raise CutShort(_CUT_SHORT)
        self.whole.read_into(target, self.start + offset)


def read_bytes(source: Source, offset: int, count: int) -> bytes:
    """Up to `count` bytes from `offset` on, fewer only where the source ends."""
    target = bytearray(max(0, min(count, source.size - offset)))
    source.read_into(memoryview(target), offset)
    return bytes(target)


def open_source(path: Path) -> FileSource:
    """Open a regular file for reading at any offset.

    Raises
    ------
    NotOpened
        If it does not exist, may not be read, or is a folder, a pipe or a device.
    """
    try:
        # Without O_NONBLOCK a pipe that happens to lie in the folder would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise NotOpened(f"cannot be opened: {error.strerror}") from error
    try:
        return FileSource(descriptor, *_stamp_of_file(descriptor))
    except BaseException:
        os.close(descriptor)
        raise


def _stamp_of_file(descriptor: int) -> Stamp:
    """Give the size of an open file and when it was changed.

    Raises
    ------
    NotOpened
        If it is no regular file, or has gone.
    """
    try:
        status = os.fstat(descriptor)
    except OSError as error:
        raise NotOpened(f"cannot be read: {error.strerror}") from error
    if stat.S_ISREG(status.st_mode):
        return _stamp(status)
    what = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
    raise NotOpened(f"is {what}, not a file")


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of a file that need not be readable, `None` if it is not there."""
    try:
        return _stamp(path.stat())
    except (OSError, ValueError):
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_size, status.st_mtime_ns)
