"""Dumps behind an address that fsspec understands: `s3://bucket/run/dumps`, `memory://run`.

Files are listed once and read by ranges, no more than is asked for. Credentials are fsspec's
affair. fsspec and what it needs for an address are imported here only.
"""

from __future__ import annotations

import posixpath
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from numscope.dumps.servers import server_of
from numscope.dumps.sources import Stamp
from numscope.errors import CutShort, DumpError, NothingToDo

#: So many bytes at the beginning of a file are asked for at once: most headers need no more.
HEAD_BYTES = 1 << 15

#: Of so many files.
_HEADS_AT_ONCE = 64

#: A listing takes many questions, which the file system asks one after the other.
_LISTING_SECONDS = 3600.0

#: Protocols of file servers; object stores show a file when all of it is there.
_PIECEWISE = frozenset(("ftp", "hdfs", "sftp", "smb", "ssh", "webhdfs"))

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class RemoteFolder:
    """A folder behind an address.

    Raises
    ------
    NothingToDo
        If there is no such kind of address, or what it needs is not installed.
    """

    def __init__(self, address: str) -> None:
        self.name = address.rstrip("/")
        self._files, self._root = _connect(address)
        self._server = server_of(self._files)
        self._stamps: dict[str, Stamp] = {}
        self._heads: dict[str, bytes] = {}
        self._refused: set[str] = set()

    @property
    def context(self) -> Sequence[str]:
        """The parts of the address behind its `//`."""
        return [part for part in self._root.split("/") if part]

    def open(self, path: str) -> RemoteSource:
        """Open a file; of files that were listed, many are asked for their beginnings at once.

        Raises
        ------
        DumpError
            If it is not there.
        """
        place = self._place(path)
        if path in self._stamps and path not in self._heads and path not in self._refused:
            self._fetch_heads(path)
        stamp = self._stamps.get(path) or _stamp_now(self._files, place)
        return RemoteSource(self._files, place, stamp, self._heads.pop(path, None))

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of a file as it is now."""
        try:
            return _stamp_now(self._files, self._place(path))
        except DumpError:
            return None

    def has_writer(self, path: str) -> bool:  # noqa: ARG002 (no server tells)
        """Not that anybody knew."""
        return False

    def is_shared(self, path: str) -> bool:  # noqa: ARG002 (files of a server are alike)
        """Whether files appear piece by piece."""
        return not _PIECEWISE.isdisjoint(_names(self._files.protocol))

    def walk(self) -> tuple[RemoteFolder, list[str]]:
        """The folder (that of the file if this is one) and the paths of its files, sorted.

        Hidden files and folders are left out.

        Raises
        ------
        NothingToDo
            If there is nothing at the address, or it cannot be listed.
        """
        try:
            self._files.invalidate_cache()
            found = self._server.ask(
                self._files.find, self._root, detail=True, patience=_LISTING_SECONDS
            )
            stamps = {place: _stamp(info) for place, info in found.items()}
        except Exception as error:
            raise NothingToDo(f"{self.name} cannot be listed: {_words(error)}") from error
        if not found:
            raise NothingToDo(f"{self.name} holds nothing; a dump folder or a file was expected")
        if list(found) == [self._root]:
            parent, _, name = self.name.rpartition("/")
            return RemoteFolder(parent), [name]
        for place, stamp in sorted(stamps.items()):
            path = place.removeprefix(self._root).lstrip("/")
            if "/." not in f"/{path}":
                self._stamps[path] = stamp
        return self, sorted(self._stamps)

    def _fetch_heads(self, path: str) -> None:
        """Fetch the beginnings of a file and of those like it that were listed behind it."""
        _, _, suffix = path.rpartition(".")
        alike = (each for each in self._stamps if each >= path and each.endswith(suffix))
        paths = list(islice((each for each in alike if each not in self._refused), _HEADS_AT_ONCE))
        try:
            heads = self._server.ask(self._read_heads, paths)
        except Exception:  # noqa: BLE001
            heads = {}  # whoever reads one of them will be told
        self._heads = heads
        self._refused.update(each for each in paths if each not in heads)

    def _read_heads(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The beginnings of the files that can be read; an error if there is none."""
        heads = self._files.cat_ranges(
            [self._place(each) for each in paths],
            [0] * len(paths),
            [min(HEAD_BYTES, self._stamps[each].size) for each in paths],
            on_error="return",
        )
        errors = [each for each in heads if isinstance(each, Exception)]
        if len(errors) == len(paths):
            raise errors[0]
        return {
            each: bytes(head)
            for each, head in zip(paths, heads, strict=True)
            if not isinstance(head, Exception)
        }

    def _place(self, path: str) -> str:
        return posixpath.normpath(f"{self._root}/{path}") if ".." in path else self._join(path)

    def _join(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"


@dataclass(slots=True)
class RemoteSource:
    """A file that is read by ranges; `head` is its beginning if that is known."""

    files: Any
    place: str
    opened: Stamp
    head: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        """How many bytes there were when it was opened."""
        return self.opened.size

    @property
    def stamp(self) -> Stamp:
        """Size and time of the last change as they are now.

        Raises
        ------
        DumpError
            If that cannot be asked.
        """
        return _stamp_now(self.files, self.place)

    @property
    def has_writer(self) -> bool:
        """Not that anybody knew."""
        return False

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        DumpError
            If the file ends before `target` is full, or cannot be read.
        """
        stop = offset + len(target)
        if stop <= min(HEAD_BYTES, self.size):
            with self._lock:
                if self.head is None:
                    self.head = self._read(0, min(HEAD_BYTES, self.size))
            target[:] = self.head[offset:stop]
        elif len(target):
            target[:] = self._read(offset, stop)

    def close(self) -> None:
        """Forget the beginning; nothing else is held."""
        self.head = None

    def _read(self, start: int, stop: int) -> bytes:
        try:
            ask = server_of(self.files).ask
            data: bytes = ask(self.files.cat_file, self.place, start=start, end=stop)
        except Exception as error:
            raise DumpError(f"cannot be read: {_words(error)}") from error
        if len(data) != stop - start:
            raise CutShort("the file was cut short while being read")
        return data


def _connect(address: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise NothingToDo(
            f"{address} needs fsspec; install it with pip install 'numscope[remote]'"
        ) from error
    try:
        files, root = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise NothingToDo(f"{address} cannot be read: {_words(error)}") from error
    return files, str(root)


def _names(protocol: str | Sequence[str]) -> Sequence[str]:
    return [protocol] if isinstance(protocol, str) else protocol


def _stamp_now(files: Any, place: str) -> Stamp:
    try:
        files.invalidate_cache(files._parent(place))  # noqa: SLF001 (fsspec has no other name)
        return _stamp(server_of(files).ask(files.info, place))
    except Exception as error:
        raise DumpError(f"cannot be read: {_words(error)}") from error


def _stamp(info: Mapping[str, Any]) -> Stamp:
    """Size, and seconds of the last change with a mark of the content in place of nanoseconds.

    Listings and single files tell times to different fractions of a second.
    """
    if info.get("type") == "directory":
        raise DumpError("is a folder, not a file")
    changed = next((info[name] for name in _TIMES if info.get(name) is not None), 0.0)
    seconds = changed.timestamp() if isinstance(changed, datetime) else float(changed)
    mark = zlib.crc32(str(info.get("ETag") or info.get("etag") or "").encode()) % 10**9
    return Stamp(int(info["size"]), int(seconds) * 10**9 + mark)


def _words(error: Exception) -> str:
    """What went wrong, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
