"""Whether a run still has its results folder: it may be taken away, or another run begin there.

Of two runs with different options, or of two dumps, the one that began last has the folder. No lock
is held, so none can be left behind by a killed process or another machine. Nothing here writes.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from numscope import runs, writing
from numscope.errors import ResultsError
from numscope.runs import RunPlan
from numscope.shards import Shard

#: How often it is looked at while there is much to do.
_EVERY_SECONDS = 1.0


class Tenure:
    """The hold that a shard of a run has on its folder, by the note that it has begun.

    Another process that runs the same command has the same hold.

    Parameters
    ----------
    plans
        The folder of the notes, in that of the results.
    plan, shard
        What is noted to have begun.
    clock
        Seconds from some moment on, for tests.
    """

    def __init__(
        self,
        plans: Path,
        plan: RunPlan,
        shard: Shard,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plans = plans
        self._plan = plan
        self._shard = shard
        self._clock = clock
        self._confirmed = clock()
        self._seen: tuple[int, int] | None = None

    def confirm(self) -> None:
        """Make sure that the run still has the folder.

        Raises
        ------
        ResultsError
            If it was removed or moved away, or another run has begun in it.
        """
        note = self._note()
        if note is None or note != self._seen:
            self._refuse_other(has_note=note is not None)
        self._seen = note
        self._confirmed = self._clock()

    def confirm_now_and_then(self) -> None:
        """Make sure of it unless that was done a moment ago.

        Raises
        ------
        ResultsError
            As for `confirm`.
        """
        if self._clock() - self._confirmed >= _EVERY_SECONDS:
            self.confirm()

    def _note(self) -> tuple[int, int] | None:
        """What tells the note that is there from any other; `None` if there is none."""
        path = runs.note_path(self._plans, self._shard)
        try:
            with path.open("rb") as file:  # on NFS, only what is opened is as it is now
                stat = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ResultsError(f"{path} cannot be read: {error.strerror or error}") from error
        return stat.st_ino, stat.st_mtime_ns

    def _refuse_other(self, *, has_note: bool) -> None:
        folder = self._plans.parent
        other = runs.other(self._plans, self._plan, self._shard)
        if other is not None:
            raise ResultsError(
                f"another run has begun in {folder} meanwhile, and this one ends here:"
                f" {shlex.join(['numscope', *other.command])}; choose another folder with --out"
            )
        if has_note or runs.begun(self._plans):
            return
        if not folder.is_dir():
            raise ResultsError(writing.gone(folder))
        raise ResultsError(f"{self._plans} was emptied meanwhile; the same command goes on")
