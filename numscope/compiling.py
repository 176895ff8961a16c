"""How loops are compiled: once per installation, cached in a folder that can be written.

numba keeps its cache beside the source, or else in the user's cache folder, and gives up if it can
write neither: a read-only installation under a read-only home. Then a private temporary folder is
used.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

config: Any = numba.core.config  # untyped: its settings are not declared

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function compiled at its first call, without the interpreter's lock, cached on disk."""
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The function as a part of the compiled functions that call it."""
    return cast("Callable[P, R]", numba.njit(nogil=True, error_model="numpy")(function))


def private_folder(parent: Path) -> Path:
    """A folder of this user's alone below `parent`: compiled code is loaded from it and executed.

    It is kept for the next process if it can be trusted, else a new one is made.
    """
    folder = parent / f"numscope-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if (
            stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.getuid()
            and not found.st_mode & 0o077
        ):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="numscope-"))


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_cache() -> None:
    """Point numba to a temporary folder if none of its own places can be written."""
    if config.CACHE_DIR:
        return
    places = [Path(__file__).parent / "__pycache__"]
    with contextlib.suppress(RuntimeError):  # a user without a home
        personal = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        places.append(Path(personal, "numba"))
    if not any(_is_writable(place) for place in places):
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


_choose_cache()
