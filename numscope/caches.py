"""Where libraries keep what they make for later: a folder that can be written, and can be trusted.

Their own places are used wherever that is possible. Nothing here imports a library, or knows what
it keeps.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def personal(variable: str, below_home: str) -> Path | None:
    """A folder of the user's as the XDG specification has it; `None` for a user without a home."""
    chosen = os.environ.get(variable)
    try:
        return Path(chosen) if chosen else Path.home() / below_home
    except RuntimeError:
        return None


def is_writable(folder: Path) -> bool:
    """Whether files can be put into the folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def private_folder(parent: Path) -> Path:
    """A folder of this user's alone below `parent`: what is kept there is loaded and executed.

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


def prepare_matplotlib() -> None:
    """Point matplotlib to a temporary folder if its own places cannot be written.

    It would make a new one each time, and complain. To be called before it is imported.
    """
    chosen = os.environ.get("MPLCONFIGDIR")
    places = [("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")]
    parents = [Path(chosen)] if chosen else [personal(*place) for place in places]
    folders = [parent if chosen or not parent else parent / "matplotlib" for parent in parents]
    if not all(folder and is_writable(folder) for folder in folders):
        folder = private_folder(Path(tempfile.gettempdir())) / "matplotlib"
        os.environ["MPLCONFIGDIR"] = str(folder)
