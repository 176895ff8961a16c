"""What a command says on stderr while it works: to people, or as one JSON object per line.

Both say the same things. Nothing here is an answer: answers go to stdout.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from numscope import amounts, console, json_text, progress
from numscope.progress import Progress, State

if TYPE_CHECKING:
    from rich.console import Console

    from numscope.dumps import Problem


class Log(Protocol):
    """What a command may say."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing but errors is wanted."""

    def note(self, text: str) -> None:
        """Something worth knowing."""

    def failure(self, text: str) -> None:
        """Why the command ends."""

    def problems(self, problems: Sequence[Problem], listed: str | None = None) -> None:
        """What could not be read, and remarks; `listed` is a file that will have all of them."""

    def counting(self, verb: str) -> AbstractContextManager[progress.Count]:
        """Files are being looked at."""

    def waiting(self, what: str) -> AbstractContextManager[Callable[[], object]]:
        """Something takes its time from when what this gives is called."""

    def progress(self, total_bytes: int, total_files: int) -> AbstractContextManager[Progress]:
        """How far a job is."""


class ForPeople:
    """A bar on a terminal, plain lines elsewhere."""

    def __init__(self, err: Console, *, quiet: bool, verbose: bool = False) -> None:
        self._err = err
        self.is_quiet = quiet
        self._is_verbose = verbose

    def note(self, text: str) -> None:
        """Print a line."""
        if not self.is_quiet:
            console.print_plain(self._err, f"numscope: {text}")

    def failure(self, text: str) -> None:
        """Print a line."""
        console.print_plain(self._err, f"numscope: {text}")

    def problems(self, problems: Sequence[Problem], listed: str | None = None) -> None:
        """Print failures always, remarks unless quiet, many that are alike only if verbose."""
        said = [each for each in problems if each.failure or not self.is_quiet]
        if self._is_verbose:
            console.print_problems(self._err, said, most=None)
        else:
            console.print_problems(self._err, said, listed)

    def counting(self, verb: str) -> AbstractContextManager[progress.Count]:
        """Show how many files were looked at."""
        return progress.counting(self._err, verb, quiet=self.is_quiet)

    def waiting(self, what: str) -> AbstractContextManager[Callable[[], object]]:
        """Show what is waited for."""
        return progress.waiting(self._err, what, quiet=self.is_quiet)

    def progress(self, total_bytes: int, total_files: int) -> AbstractContextManager[Progress]:
        """Show how far the job is."""
        return progress.progress(self._err, total_bytes, total_files, self.is_quiet)


class AsJson:
    """One JSON object per line, each with its `event`.

    `write` takes a line with its end.
    """

    def __init__(self, write: Callable[[str], object], *, quiet: bool) -> None:
        self._write = write
        self.is_quiet = quiet

    def note(self, text: str) -> None:
        """`{"event": "note", "message": …}`."""
        self._say("note", message=text)

    def failure(self, text: str) -> None:
        """`{"event": "error", "message": …}`."""
        self._say("error", is_error=True, message=text)

    def problems(
        self,
        problems: Sequence[Problem],
        listed: str | None = None,  # noqa: ARG002 (all are said)
    ) -> None:
        """An `unread` for each that is missing from the tables, a `warning` for each remark."""
        for each in problems:
            event = "unread" if each.failure else "warning"
            self._say(event, is_error=each.failure, where=each.where, message=each.message)

    @contextmanager
    def counting(self, verb: str) -> Iterator[progress.Count]:
        """Say how many files there were to look at, at the end."""
        last = [0, 0]

        def count(done: int, total: int) -> None:
            last[:] = done, total

        yield count
        self._say("note", message=f"{verb}: {amounts.counted(last[0], 'file')}")

    @contextmanager
    def waiting(self, what: str) -> Iterator[Callable[[], object]]:  # noqa: ARG002 (not said)
        """Say nothing."""
        yield lambda: None

    @contextmanager
    def progress(self, total_bytes: int, total_files: int) -> Iterator[Progress]:
        """A `progress` whenever a log would get a line."""
        meter = progress.meter_of(total_bytes, total_files)
        with progress.now_and_then(meter, self._show) as log:
            yield log

    def _show(self, state: State) -> None:
        left = state.seconds_left
        self._say(
            "progress",
            files=state.files,
            total_files=state.total_files,
            bytes=state.bytes,
            total_bytes=state.total_bytes,
            failures=state.failures,
            seconds=round(state.seconds, 3),
            bytes_per_second=round(state.rate),
            seconds_left=None if left is None or math.isinf(left) else round(left, 3),
        )

    def _say(self, event: str, *, is_error: bool = False, **facts: Any) -> None:
        if is_error or not self.is_quiet:
            self._write(_object(event, facts) + "\n")


def as_object(line: str) -> str:
    """The line if it is one of such a log; else what another library has said, as one.

    >>> print(as_object("RuntimeWarning: overflow"))
    {"event": "note", "message": "RuntimeWarning: overflow"}
    """
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    is_ours = isinstance(found, dict) and "event" in found
    return line if is_ours else _object("note", {"message": line})


def _object(event: str, facts: Mapping[str, Any]) -> str:
    return json_text.text({"event": event, **facts})
