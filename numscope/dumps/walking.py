"""The files under a folder, in a fixed order, each once, whatever links there are."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from numscope.dumps.files import format_by_name
from numscope.dumps.folders import Folder, LocalFolder, is_address
from numscope.dumps.refs import Problem
from numscope.errors import NothingToDo


def walk(place: str | os.PathLike[str]) -> tuple[Folder, list[str], list[Problem]]:
    """List the files of a dump.

    Hidden files and folders are left out. Links to folders are followed after everything else, and
    no folder is entered twice, so that links in a circle end. A link to a file that is there under
    its own name is left out.

    Returns
    -------
    tuple
        The dump folder (that of the file if `place` is one), sorted paths relative to it, with `/`,
        and what could not be listed.

    Raises
    ------
    NothingToDo
        If `place` does not exist or cannot be listed.
    """
    if is_address(place):
        from numscope.dumps.remote import RemoteFolder  # noqa: PLC0415 (needs an extra)

        return *RemoteFolder(os.fspath(place)).walk(), []
    given = Path(place)
    try:
        is_folder = stat.S_ISDIR(os.stat(place).st_mode)  # noqa: PTH116 (Path makes '' the working folder)
    except OSError as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else error.strerror
        name = os.fspath(place) or "''"
        raise NothingToDo(f"{name} {reason}; a dump folder or a dump file was expected") from error
    if not is_folder:
        return LocalFolder(given.parent), [given.name], []
    return LocalFolder(given), *_files_below(given)


def _files_below(given: Path) -> tuple[list[str], list[Problem]]:
    """The sorted paths of the files below a folder, and what could not be listed."""
    paths: list[str] = []
    inodes: dict[int, str] = {}
    file_links: list[str] = []
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
                if entry.is_symlink():
                    file_links.append(name)
                else:
                    paths.append(name)
                    inodes[entry.inode()] = name
                continue
            if format_by_name(entry.name):
                problems.append(Problem(name, "is a folder, not a file"))
            (links if entry.is_symlink() else folders).append(f"{name}/")
    paths += [link for link in file_links if not _is_there(given / link, given, inodes)]
    return sorted(paths), problems


def _is_there(link: Path, root: Path, inodes: dict[int, str]) -> bool:
    """Whether a link leads to one of the files, given by their inodes, whose paths are relative."""
    try:
        target = link.stat()
        name = inodes.get(target.st_ino)
        return name is not None and os.path.samestat(target, (root / name).stat())
    except OSError:
        return False


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
