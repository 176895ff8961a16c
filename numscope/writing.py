"""Files that appear by rename, whole or not at all, whatever happens to the process or the disk.

Nothing here knows what is in them.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from numscope.errors import ResultsError

_SUFFIX = ".numscope"
#: A partial file of another machine so old belongs to no process that is still writing it.
_STALE_SECONDS = 3600.0


@contextmanager
def replacing(
    path: Path,
    *,
    durable: bool = False,
    inside: Path | None = None,
    confirm: Callable[[], object] = lambda: None,
) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end; its folder is made.

    Where `path` is a link, what it points to is replaced.

    Parameters
    ----------
    path
        What it will be called.
    durable
        Whether to wait until it is on the disk, so that it survives the loss of the machine.
    inside
        A folder that must be there already: only folders in it are made.
    confirm
        Called at the last moment before the file takes its place; what it raises keeps it from it.

    Raises
    ------
    ResultsError
        If it cannot be written; then no partial file is left, and what was there stays.
    """
    if not path.name:  # `.` or `/`
        raise ResultsError(f"cannot write {path}: it is a folder")
    path = _replaceable(path)
    partial = path.with_name(partial_name(path.name))
    try:
        with _opened(partial, inside) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        confirm()
        partial.replace(path)
    except OSError as error:
        _discard(partial)
        if inside is not None and not inside.is_dir():
            raise ResultsError(gone(inside)) from error
        raise ResultsError(f"cannot write {path}: {error.strerror or error}") from error
    except BaseException:
        _discard(partial)
        raise


def partial_name(name: str, machine: str | None = None, process: int | None = None) -> str:
    """What a file is called until it is whole; the machine and process are this one's by default.

    Machines are told apart by their names, and containers on one by their process numbers' spaces.
    """
    return f".{name}.{machine or _machine()}.{process or os.getpid()}{_SUFFIX}"


def gone(folder: Path) -> str:
    """What to say where a folder is no longer there that was."""
    return (
        f"{folder} was removed or moved away meanwhile;"
        " put it back, or say where it is with --out, and the same command goes on"
    )


def write_text(path: Path, text: str, **options: Any) -> None:
    r"""Write a text file; surrogates, from names that are no text, as `\udcff`.

    The options are as for `replacing`.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    write_bytes(path, text.encode(errors="backslashreplace"), **options)


def write_bytes(path: Path, content: bytes, **options: Any) -> None:
    """Write a file; the options are as for `replacing`.

    Raises
    ------
    ResultsError
        If it cannot be written; no partial file is left.
    """
    with replacing(path, **options) as file:
        file.write(content)


def remove_leftovers(folder: Path) -> None:
    """Remove the partial files of processes that were killed; those of living ones are left."""
    for path in folder.glob(f".*{_SUFFIX}"):
        if _is_abandoned(path):
            _discard(path)


def _replaceable(path: Path) -> Path:
    """The file itself if it is a link; an error for a device, a pipe, a stream and the like."""
    found, is_stream = path, False
    try:
        if path.is_symlink():
            folders = (path.parent, (path.parent / path.readlink()).parent)
            is_stream = any(each.resolve().is_relative_to("/proc") for each in folders)
            found = path.resolve()
        mode = found.stat().st_mode
    except OSError:
        return found  # there is none yet, or what is wrong shows when it is written
    if is_stream or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ResultsError(f"cannot write {path}: it is no regular file")
    return found


def _opened(path: Path, inside: Path | None) -> BinaryIO:
    try:
        return path.open("wb")
    except FileNotFoundError:
        _make(path.parent, inside)
        return path.open("wb")


def _make(folder: Path, inside: Path | None) -> None:
    """Make a folder with those above it, but neither `inside` nor what is above that."""
    if inside is None:
        folder.mkdir(parents=True, exist_ok=True)
    elif folder.is_relative_to(inside) and folder != inside:
        _make(folder.parent, inside)
        folder.mkdir(exist_ok=True)


def _discard(path: Path) -> None:
    with suppress(OSError):  # if the folder was taken away, there is something worse to say
        path.unlink(missing_ok=True)


@cache
def _machine() -> str:
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    return f"{socket.gethostname()}-{space}"


def _is_abandoned(path: Path) -> bool:
    stem, _, process = path.name.removesuffix(_SUFFIX).rpartition(".")
    if not (process.isdecimal() and "." in stem.lstrip(".")):
        return False  # it is not ours
    try:
        if stem.endswith(f".{_machine()}"):
            os.kill(int(process), 0)
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # there is no process of that number
        return False
