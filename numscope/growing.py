"""Files that cannot be read because they are still being written: not a failure, only too early.

A file that was changed lately is left for the next run if it changes once more, if somebody has it
open to write to it, or if it ends too early where nobody here can know who has. Nothing here reads
one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from numscope.dumps import Problem, Scan
from numscope.dumps.folders import Folder, folder_at
from numscope.dumps.refs import Unread
from numscope.dumps.sources import Stamp

#: A file that was changed before is taken to be as its writer left it.
RECENT_SECONDS = 60.0
#: Who writes a file that is not seen to be open is given so long to change it.
PAUSE_SECONDS = 1.0

UNFINISHED = "is still being written; left for the next run"
_PROBABLY_UNFINISHED = (
    "is empty or cut short and was changed within the last minute, so probably still being written;"
    " left for the next run"
)


class Growing:
    """The failures of a scan, which are looked at again when other work is done."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._scanned = time.time()

    def settled(self) -> list[Problem]:
        """The problems, as `settle` gives them."""
        found = self._found
        return settle(found.problems, folder_at(found.folder), found.unread, self._scanned)


def settle(
    problems: Sequence[Problem],
    folder: Folder,
    unread: Mapping[str, Unread],
    scanned: float,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> list[Problem]:
    """The problems, with a remark in place of the failures of a file that is still being written.

    Parameters
    ----------
    problems, folder, unread
        As the scan of the folder gave them.
    scanned
        When the scan ended, in seconds since 1970.
    clock, sleep
        Seconds since 1970, and waiting for some, for tests.
    """
    files = {
        each.where: unread[each.where] for each in problems if each.failure and each.where in unread
    }
    remarks = _remarks(files.values(), folder, scanned)
    waiting = [each for each in files.values() if is_recent(each.stamp, scanned)]
    if any(each.path not in remarks for each in waiting):
        sleep(max(0.0, scanned + PAUSE_SECONDS - clock()))
        remarks |= _remarks(waiting, folder, scanned)
    settled = (
        remarks.get(files[each.where].path, each) if each.where in files and each.failure else each
        for each in problems
    )
    return list(dict.fromkeys(settled))


def evident(file: Unread, folder: Folder, now: float) -> Problem | None:
    """The remark about a file that is seen to be unfinished at once, `None` about any other."""
    if not is_recent(file.stamp, now):
        return None
    if folder.has_writer(file.path):
        return Problem(file.path, UNFINISHED, failure=False)
    if file.is_cut_short and folder.is_shared(file.path):
        return Problem(file.path, _PROBABLY_UNFINISHED, failure=False)
    return None


def is_recent(stamp: Stamp, now: float) -> bool:
    """Whether a file was changed so lately that somebody may go on writing it."""
    return now - stamp.mtime_ns / 1e9 < RECENT_SECONDS


def _remarks(files: Iterable[Unread], folder: Folder, scanned: float) -> dict[str, Problem]:
    """By path, the remarks about those files that are unfinished."""
    remarks = {}
    for file in files:
        now = folder.stamp(file.path)
        if now is not None and now != file.stamp:
            remarks[file.path] = Problem(file.path, UNFINISHED, failure=False)
        elif remark := evident(file, folder, scanned):
            remarks[file.path] = remark
    return remarks
