"""Where a dump is: a folder of this machine, or an address that fsspec understands.

Everything that reads a dump does so through a `Folder`. Nothing here knows what is in a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from numscope.dumps.sources import OpenFile, Stamp, open_source, read_bytes, stamp_of
from numscope.dumps.unfinished import is_shared
from numscope.errors import DumpError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+::?//")


class Folder(Protocol):
    """Files by their paths relative to the folder, with `/`."""

    @property
    def name(self) -> str:
        """The folder as it was given."""

    @property
    def context(self) -> Sequence[str]:
        """The names of the folders that lead to it, outermost first."""

    def open(self, path: str) -> OpenFile:
        """Open a file.

        Raises
        ------
        DumpError
            If it cannot be opened.
        """

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of a file that need not be readable, `None` if it is not there."""

    def has_writer(self, path: str) -> bool:
        """Whether somebody is known to have a file open to write to it."""

    def is_shared(self, path: str) -> bool:
        """Whether somebody may write to a file without this machine knowing."""


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """Its path as it was given."""
        return str(self._root)

    @property
    def context(self) -> Sequence[str]:
        """The parts of its absolute path."""
        return self._root.resolve().parts[1:]

    def open(self, path: str) -> OpenFile:
        """Open a file."""
        return open_source(self._root / path)

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of a file."""
        return stamp_of(self._root / path)

    def has_writer(self, path: str) -> bool:
        """Whether a process of this machine has a file open to write to it."""
        try:
            file = self.open(path)
        except DumpError:
            return False
        try:
            return file.has_writer
        finally:
            file.close()

    def is_shared(self, path: str) -> bool:
        """Whether other machines may write to a file."""
        try:
            return is_shared((self._root / path).stat().st_dev)
        except OSError:
            return False


def folder_at(root: str | os.PathLike[str] | Folder) -> Folder:
    """The folder at a path or an address."""
    if not isinstance(root, str | os.PathLike):
        return root
    if is_address(root):
        from numscope.dumps.remote import RemoteFolder  # noqa: PLC0415 (needs an extra)

        return RemoteFolder(os.fspath(root))
    return LocalFolder(Path(root))


def is_address(root: str | os.PathLike[str]) -> bool:
    """Whether it is an address such as `s3://bucket/run` rather than a path."""
    return isinstance(root, str) and bool(_ADDRESS.match(root))


def absolute(root: str | os.PathLike[str]) -> str:
    """The name of a folder or file that means the same to every process."""
    return os.fspath(root).rstrip("/") if is_address(root) else str(Path(root).resolve())


def read_whole(folder: Folder, path: str, limit: int) -> bytes:
    """All bytes of a file.

    Raises
    ------
    DumpError
        If it cannot be read or has more than `limit` bytes.
    """
    file = folder.open(path)
    try:
        if file.size > limit:
            raise DumpError(f"is larger than {limit} bytes")
        return read_bytes(file, 0, file.size)
    finally:
        file.close()
