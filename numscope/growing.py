"""Files that cannot be read because they are still being written: not a failure, only too early.

A file that was changed lately is looked at once more. Nothing here reads one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from numscope.dumps import Problem, Scan
from numscope.dumps.folders import Folder, folder_at
from numscope.dumps.sources import Stamp

#: A file that was changed before is taken to be as its writer left it.
RECENT_SECONDS = 60.0
#: Whoever is writing a file changes it at least so often.
PAUSE_SECONDS = 1.0


class Growing:
    """The problems of a scan, which are looked at again when other work is done."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._scanned = time.time()

    def settled(self) -> list[Problem]:
        """The problems, as `settle` gives them."""
        found = self._found
        return settle(found.problems, folder_at(found.folder), found.stamps, self._scanned)


def settle(
    problems: Sequence[Problem],
    folder: Folder,
    stamps: Mapping[str, Stamp],
    scanned: float,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
) -> list[Problem]:
    """The problems, with a remark in place of the failure of a file that is still being written.

    Parameters
    ----------
    problems, folder, stamps
        As the scan of the folder gave them.
    scanned
        When the scan ended, in seconds since 1970.
    clock, sleep
        Seconds since 1970, and waiting for some, for tests.
    """
    recent = {
        each.where
        for each in problems
        if each.failure
        and each.where in stamps
        and scanned - stamps[each.where].mtime_ns / 1e9 < RECENT_SECONDS
    }
    if not recent:
        return list(problems)
    sleep(max(0.0, scanned + PAUSE_SECONDS - clock()))
    growing = {where for where in recent if _has_changed(folder, where, stamps[where])}
    return [
        Problem(each.where, "is still being written; left for the next run", failure=False)
        if each.failure and each.where in growing
        else each
        for each in problems
    ]


def _has_changed(folder: Folder, path: str, stamp: Stamp) -> bool:
    now = folder.stamp(path)
    return now is not None and now != stamp
