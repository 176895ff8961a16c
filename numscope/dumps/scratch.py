"""Room for what is stored compressed: unpacked once, onto disk, and read from there.

A compressed stream can only be read from its start, so blocks of rows need it unpacked. Memory does
not grow with it; what would unpack to far more than anything that was really saved is refused.
"""

from __future__ import annotations

import os
import tempfile
import threading
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from numscope.dumps.sources import FileSource, MemorySource, PartSource, Source, read_bytes
from numscope.errors import CutShort, DumpError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

SIZE_LIMIT = 1 << 34
"""The most bytes that a stream is unpacked to."""

TOTAL_LIMIT = 1 << 36
"""The most bytes that all streams of a file are unpacked to."""

_SMALL = 1 << 28
_RATIO_LIMIT = 100
"""Above `_SMALL` bytes, how many times its own size a stream or a file may unpack to."""

_CHUNK = 1 << 18
_HEAD = 1 << 12
_FIRST_PIECE = 1 << 12
"""A stream is begun with little of what is there: behind its end all of that is read again."""

RAW, GZIP = -zlib.MAX_WBITS, zlib.MAX_WBITS | 16
"""The kinds of streams: without any header, as in zip archives, and gzip."""

GZIP_MAGIC = b"\x1f\x8b"


def is_too_much(packed_size: int, size: int, limit: int = SIZE_LIMIT) -> bool:
    """Whether so many bytes cannot be what was really saved in so few."""
    return size > limit or (size > _SMALL and size > _RATIO_LIMIT * packed_size)


class Scratch:
    """A temporary file, made when it is first needed, that unpacked streams are appended to.

    It takes no more than what a file of `packed_size` bytes can be expected to unpack to.
    """

    def __init__(self, packed_size: int) -> None:
        self._packed_size = packed_size
        self._descriptor: int | None = None
        self._size = 0
        self._lock = threading.Lock()

    def append(self, chunks: Iterator[bytes], what: str) -> tuple[FileSource, int]:
        """Write chunks behind everything else; give the file and where they begin.

        Raises
        ------
        DumpError
            If there is no room, or the streams together unpack to too much.
        """
        with self._lock:
            start = self._size
            try:
                if self._descriptor is None:
                    self._descriptor = _nameless_file()
                for chunk in chunks:
                    self._write(self._descriptor, chunk, what)
            except OSError as error:
                self._size = start
                raise DumpError(
                    f"cannot be unpacked into {tempfile.gettempdir()}: {error.strerror} ({what})"
                ) from error
            except DumpError:
                self._size = start
                raise
            return FileSource(self._descriptor, self._size), start

    def _write(self, descriptor: int, chunk: bytes, what: str) -> None:
        """Write a chunk behind everything else, if that is not too much."""
        if is_too_much(self._packed_size, self._size + len(chunk), TOTAL_LIMIT):
            raise DumpError(
                f"unpacks from {self._packed_size} to more than {self._size} bytes; refused "
                f"({what})"
            )
        rest = memoryview(chunk)
        while rest:
            count = os.pwrite(descriptor, rest, self._size)
            self._size += count
            rest = rest[count:]

    def close(self) -> None:
        """Give the room back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _nameless_file() -> int:
    """Open a temporary file that is gone when it is closed, even if the process is killed."""
    descriptor, path = tempfile.mkstemp(prefix="numscope-")
    os.unlink(path)  # noqa: PTH108 -- a path from mkstemp, not one that a user gave
    return descriptor


@dataclass(slots=True)
class InflatedSource:
    """A compressed stream as if it were not; unpacked when more than its beginning is read.

    Attributes
    ----------
    packed
        The stream.
    size
        How many bytes it says it unpacks to.
    scratch
        Where they go.
    what
        What to call it in messages.
    """

    packed: Source
    size: int
    scratch: Scratch
    what: str
    kind: int = RAW
    _head: bytes | None = None
    _unpacked: tuple[FileSource, int] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def within_limits(cls, packed: Source, size: int, scratch: Scratch, what: str) -> Self:
        """Describe a stream.

        Raises
        ------
        DumpError
            If it unpacks to too much.
        """
        if is_too_much(packed.size, size):
            raise DumpError(f"{what!r} unpacks from {packed.size} to {size} bytes; refused")
        return cls(packed, size, scratch, what)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        DumpError
            If the stream is damaged or shorter than it says, or there is no room for it.
        """
        with self._lock:
            if offset + len(target) <= _HEAD:
                if self._head is None:
                    self._head = next(inflate(self.packed, self.kind, self.what, _HEAD), b"")
                MemorySource(self._head).read_into(target, offset)
                return
            if self._unpacked is None:
                chunks = _exactly(inflate(self.packed, self.kind, self.what), self.size, self.what)
                self._unpacked = self.scratch.append(chunks, self.what)
        source, start = self._unpacked
        source.read_into(target, start + offset)


def unpack_gzip(packed: Source, scratch: Scratch) -> Source:
    """Unpack a gzip file.

    Raises
    ------
    DumpError
        If it is damaged, unpacks to too much or to another gzip file, or there is no room for it.
    """
    chunks = _at_most(inflate(packed, GZIP, "the gzip file"), packed.size)
    whole, start = scratch.append(chunks, "the gzip file")
    source = PartSource(whole, start, whole.size - start)
    if read_bytes(source, 0, len(GZIP_MAGIC)) == GZIP_MAGIC:
        raise DumpError("is packed twice; unpack it first")
    return source


def inflate(packed: Source, kind: int, what: str, chunk_size: int = _CHUNK) -> Iterator[bytes]:
    """Unpack a stream chunk by chunk, and with gzip all that follow it.

    Raises
    ------
    DumpError
        If it is damaged or ends too early.
    """
    offset = yield from _inflate_one(packed, 0, kind, what, chunk_size)
    while kind == GZIP and (offset := _behind_padding(packed, offset)) < packed.size:
        offset = yield from _inflate_one(packed, offset, kind, what, chunk_size)


def _behind_padding(packed: Source, offset: int) -> int:
    """Give the place of the first byte that is not 0: tapes and disks fill up gzip files."""
    while offset < packed.size:
        piece = read_bytes(packed, offset, _CHUNK)
        rest = piece.lstrip(b"\0")
        offset += len(piece) - len(rest)
        if rest:
            break
    return offset


def _inflate_one(
    packed: Source, offset: int, kind: int, what: str, chunk_size: int
) -> Generator[bytes, None, int]:
    """Unpack the stream at an offset, and give the offset behind it."""
    stream = zlib.decompressobj(kind)
    size = _FIRST_PIECE
    while not stream.eof:
        piece = stream.unconsumed_tail
        if not piece:
            piece = read_bytes(packed, offset, size)
            offset += len(piece)
            size = min(2 * size, _CHUNK)
        try:
            chunk = stream.decompress(piece, chunk_size)
        except zlib.error as error:
            raise DumpError(f"is damaged: {what!r} cannot be unpacked") from error
        if not piece and not chunk and not stream.eof:
            raise CutShort(f"is cut short: the end of {what!r} is missing")
        if chunk:
            yield chunk
    return offset - len(stream.unused_data)


def _exactly(chunks: Iterator[bytes], size: int, what: str) -> Iterator[bytes]:
    """Pass chunks on, as long as they are as many bytes as was said.

    Raises
    ------
    DumpError
        If there are more or fewer.
    """
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > size:
            break
        yield chunk
    if total != size:
        raise DumpError(f"is damaged: {what!r} does not unpack to the {size} bytes it should")


def _at_most(chunks: Iterator[bytes], packed_size: int) -> Iterator[bytes]:
    """Pass chunks on until they are too many for what they were packed in.

    Raises
    ------
    DumpError
        If they are.
    """
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if is_too_much(packed_size, total):
            raise DumpError(f"unpacks from {packed_size} to more than {total} bytes; refused")
        yield chunk
