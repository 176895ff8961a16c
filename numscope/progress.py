"""How far a long job is: a live bar on a terminal, now and then a plain line in a log file.

Nothing here knows what is being done; it is told how many files and bytes there are and are done.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from rich.progress import Progress as Bar
from rich.progress import ProgressColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from numscope import amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType
    from rich.progress import Task

    #: Called with how many were done, and how many there are.
    Count = Callable[[int, int], None]

#: A log gets a line when both have passed: seconds, and the share of the job.
_LOG_SECONDS = 30.0
_LOG_SHARE = 0.05
#: And in any case after so many seconds, lest a slow job look dead.
_LOG_SILENCE = 600.0
#: A wait of so many seconds is worth a line.
_LONG_SECONDS = 2.0
#: Characters that a terminal keeps for the bar and the space behind it.
_LEAST_BAR = 9


@dataclass(frozen=True, slots=True)
class State:
    """How far a job is: files and bytes done and in all, failures, seconds since its start."""

    total_files: int
    total_bytes: int
    files: int = 0
    bytes: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """The share of the bytes that is done, 0 to 1; of the files if they have no bytes."""
        done, total = self.bytes, self.total_bytes
        if not total:
            done, total = self.files, self.total_files
        return min(done / total, 1.0) if total else 1.0

    @property
    def rate(self) -> float:
        """Bytes per second so far."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds to go at the rate so far; `None` as long as nothing is done."""
        return self.seconds * (1 / self.share - 1) if self.share else None


class Progress(Protocol):
    """What the job reports to."""

    def advance(self, *, files: int = 1, bytes: int = 0, failures: int = 0) -> None:  # noqa: A002
        """Add to what is done; safe from any thread."""


def describe(state: State, width: int = 1000) -> str:
    """The state in one line, `3/13 files, 12 MB of 25 MB, 1.2 GB/s, 0:04 left, 2 failed`.

    If it would be longer than `width`, first the rate and then the bytes are left out.
    """
    left = state.seconds_left
    parts = {
        "files": f"{state.files:,}/{state.total_files:,} files",
        "bytes": f"{amounts.size(state.bytes)} of {amounts.size(state.total_bytes)}",
        "rate": f"{amounts.size(round(state.rate))}/s",
        "left": f"{amounts.duration(left)} left" if left and state.share < 1 else "",
        "failures": f"{state.failures:,} failed" if state.failures else "",
    }
    for dispensable in ("", "rate", "bytes"):
        parts.pop(dispensable, "")
        text = ", ".join(part for part in parts.values() if part)
        if len(text) <= width:
            break
    return text


@contextmanager
def progress(
    console: Console,
    total_bytes: int,
    total_files: int,
    quiet: bool = False,  # noqa: FBT001, FBT002
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Progress]:
    """Show on `console`, as long as the context lasts, how far the job is.

    Parameters
    ----------
    console
        Of stderr. If it is a terminal, a bar; if not, a line whenever 30 s and 5 % of the job have
        passed since the last one, and one at the end.
    total_bytes, total_files
        What there is to do.
    quiet
        Show nothing.
    clock
        Seconds, for tests.
    """
    meter = Meter(State(total_files, total_bytes), clock)
    if quiet:
        yield meter
    elif console.is_terminal and not console.is_dumb_terminal:
        with _bar(console, meter):
            yield meter
    else:
        with now_and_then(meter, partial(_print_state, console)) as log:
            yield log


def meter_of(
    total_bytes: int, total_files: int, clock: Callable[[], float] = time.monotonic
) -> Meter:
    """A meter that shows nothing by itself, as `progress` makes one."""
    return Meter(State(total_files, total_bytes), clock)


@contextmanager
def now_and_then(meter: Meter, show: Callable[[State], object]) -> Iterator[Progress]:
    """Call `show` when a log is to get a line: now and then, and at the end."""
    log = _Log(meter, show)
    yield log
    log.show()


def _print_state(console: Console, state: State) -> None:
    console.print(Text(describe(state)), soft_wrap=True)


@contextmanager
def counting(console: Console, verb: str, *, quiet: bool = False) -> Iterator[Count]:
    """Show on a terminal how many files were looked at; elsewhere a line if it takes long.

    What it gives is called with both numbers.
    """
    if quiet:
        yield lambda _done, _total: None
    elif console.is_terminal and not console.is_dumb_terminal:
        with console.status(f"{verb} ...") as status:
            yield lambda done, total: status.update(f"{verb} {done:,} of {total:,} files")
    else:
        yield _CountLog(console, verb).count


@contextmanager
def waiting(console: Console, what: str, *, quiet: bool = False) -> Iterator[Callable[[], object]]:
    """Say on a terminal what is being waited for; elsewhere afterwards, if it took long.

    What it gives is to be called when the waiting begins; as long as it is not, nothing is said.
    """
    if quiet:
        yield lambda: None
    elif console.is_terminal and not console.is_dumb_terminal:
        status = console.status(f"{what} ...")
        try:
            yield status.start
        finally:
            status.stop()
    else:
        begun: list[float] = []
        yield lambda: begun.append(time.monotonic())
        took = time.monotonic() - begun[0] if begun else 0.0
        if took >= _LONG_SECONDS:
            console.print(f"{what} took {amounts.duration(took)}", highlight=False)


class _CountLog:
    """A line now and then while files are looked at."""

    def __init__(self, console: Console, verb: str) -> None:
        self._console = console
        self._verb = verb
        self._said = time.monotonic()

    def count(self, done: int, total: int) -> None:
        if time.monotonic() - self._said >= _LOG_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"{self._verb} {done:,} of {total:,} files", highlight=False)


class Meter:
    """Counts what a job reports, and knows the time."""

    def __init__(self, state: State, clock: Callable[[], float]) -> None:
        self._done = state
        self._clock = clock
        self._start = clock()
        self._lock = threading.Lock()

    @property
    def state(self) -> State:
        """How far the job is now."""
        return replace(self._done, seconds=self._clock() - self._start)

    def advance(self, *, files: int = 1, bytes: int = 0, failures: int = 0) -> None:  # noqa: A002
        """Add to what is done; safe from any thread."""
        with self._lock:
            done = self._done
            self._done = replace(
                done,
                files=done.files + files,
                bytes=done.bytes + bytes,
                failures=done.failures + failures,
            )


class _Log:
    """A meter that is shown now and then."""

    def __init__(self, meter: Meter, show: Callable[[State], object]) -> None:
        self._meter = meter
        self._show = show
        self._shown = meter.state
        self._lock = threading.Lock()

    def advance(self, *, files: int = 1, bytes: int = 0, failures: int = 0) -> None:  # noqa: A002
        self._meter.advance(files=files, bytes=bytes, failures=failures)
        with self._lock:
            state = self._meter.state
            silence = state.seconds - self._shown.seconds
            is_news = state.share - self._shown.share >= _LOG_SHARE or silence >= _LOG_SILENCE
            if silence >= _LOG_SECONDS and is_news and state.share < 1:
                self.show()

    def show(self) -> None:
        self._shown = self._meter.state
        self._show(self._shown)


class _Bar(ProgressColumn):
    """The bar, drawn from the meter and not from rich's task; as wide as the words leave room."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(Column(ratio=1))
        self._meter = meter

    def render(self, task: Task) -> RenderableType:  # noqa: ARG002
        share = self._meter.state.share
        return ProgressBar(
            total=1.0, completed=share, complete_style="green", finished_style="green"
        )


class _Facts(ProgressColumn):
    """The meter's state in words."""

    def __init__(self, console: Console, meter: Meter) -> None:
        super().__init__(Column(no_wrap=True, overflow="crop"))
        self._console = console
        self._meter = meter

    def render(self, task: Task) -> RenderableType:  # noqa: ARG002
        return Text(describe(self._meter.state, self._console.width - _LEAST_BAR))


def _bar(console: Console, meter: Meter) -> Bar:
    """A live bar with the state beside it."""
    bar = Bar(_Bar(meter), _Facts(console, meter), console=console, expand=True)
    bar.add_task("")
    return bar
