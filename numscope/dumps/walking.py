"""The files under a folder, in a fixed order, each once, whatever links there are."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from numscope.dumps.files import format_by_name
from numscope.dumps.refs import Problem
from numscope.errors import NothingToDo

if TYPE_CHECKING:
    from pathlib import Path


def walk(given: Path) -> tuple[Path, list[str], list[Problem]]:
    """List the files of a dump.

    Hidden files and folders are left out. Links to folders are followed after everything else, and
    no folder is entered twice, so that links in a circle end.

    Returns
    -------
    tuple
        The dump folder (that of the file if `given` is one), sorted paths relative to it, with `/`,
        and what could not be listed.

    Raises
    ------
    NothingToDo
        If `given` does not exist or cannot be listed.
    """
    try:
        is_folder = stat.S_ISDIR(given.stat().st_mode)
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else error.strerror
        raise NothingToDo(f"{given} {reason}; a dump folder or a dump file was expected") from error
    if not is_folder:
        return given.parent, [given.name], []
    paths: list[str] = []
    problems: list[Problem] = []
    seen: set[tuple[int, int]] = set()
    folders, links = [""], list[str]()
    while folders or links:
        prefix = folders.pop() if folders else links.pop(0)
        try:
            entries = _entries(given / prefix, seen)
        except OSError as error:
            if not prefix:
                raise NothingToDo(f"{given} cannot be listed: {error.strerror}") from error
            problems.append(Problem(prefix.rstrip("/"), f"cannot be listed: {error.strerror}"))
            continue
        for entry in entries:
            name = prefix + entry.name
            if not _is_folder(entry):
                paths.append(name)
                continue
            if format_by_name(entry.name):
                problems.append(Problem(name, "is a folder, not a file"))
            (links if entry.is_symlink() else folders).append(f"{name}/")
    return given, sorted(paths), problems


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether this is a folder or leads to one; a link to itself leads nowhere."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entries(folder: Path, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """List a folder unless it was entered before, by whatever path."""
    status = folder.stat()
    place = (status.st_dev, status.st_ino)
    if place in seen:
        return []
    seen.add(place)
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    return sorted(shown, key=lambda entry: entry.name)
