"""Progress in a log file, on a terminal, and not at all."""

from __future__ import annotations

import io
import threading
from typing import Any

import numba
import pytest
from rich.console import Console

from numscope import compiling
from numscope.progress import State, describe, progress, waiting


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def console_of(*, is_terminal: bool, width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, force_terminal=is_terminal, _environ={}), file


def test_a_log_gets_a_line_when_both_30_seconds_and_a_twentieth_have_passed() -> None:
    console, file = console_of(is_terminal=False)
    clock = Clock()
    with progress(console, 1000, 1000, clock=clock) as job:
        for _ in range(1000):
            clock.now += 1.0
            job.advance(bytes=1)
    lines = file.getvalue().splitlines()
    assert len(lines) == 20
    assert lines[0] == "50/1,000 files, 50 B of 1 kB, 1 B/s, 15:50 left"
    assert lines[-1] == "1,000/1,000 files, 1 kB of 1 kB, 1 B/s"


def test_a_short_job_logs_its_end_only() -> None:
    console, file = console_of(is_terminal=False)
    clock = Clock()
    with progress(console, 4_000_000, 4, clock=clock) as job:
        for failures in (0, 1, 0, 1):
            clock.now += 0.5
            job.advance(bytes=1_000_000, failures=failures)
    assert file.getvalue() == "4/4 files, 4 MB of 4 MB, 2 MB/s, 2 failed\n"


def test_a_slow_job_does_not_fall_silent() -> None:
    console, file = console_of(is_terminal=False)
    clock = Clock()
    with progress(console, 10**9, 1000, clock=clock) as job:
        for _ in range(10):
            clock.now += 300.0
            job.advance(bytes=1)
    assert len(file.getvalue().splitlines()) == 6


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quiet_shows_nothing(is_terminal: bool) -> None:
    console, file = console_of(is_terminal=is_terminal)
    with progress(console, 10, 10, quiet=True) as job:
        job.advance(files=10, bytes=10)
    assert file.getvalue() == ""


@pytest.mark.parametrize("width", [80, 40])
def test_a_terminal_gets_a_bar_with_what_fits_beside_it(width: int) -> None:
    console, file = console_of(is_terminal=True, width=width)
    with progress(console, 4_000_000, 4) as job:
        job.advance(files=4, bytes=4_000_000, failures=1)
    last = file.getvalue().rpartition("4/4 files")
    assert "\u2501" in last[0]
    assert "1 failed" in last[2]
    assert ("4 MB of 4 MB" in last[2]) is (width == 80)


def test_nothing_is_lost_between_threads() -> None:
    console, file = console_of(is_terminal=False)
    with progress(console, 4000, 4000, clock=lambda: 1.0) as job:

        def work() -> None:
            for _ in range(1000):
                job.advance(bytes=1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert file.getvalue().startswith("4,000/4,000 files, 4 kB of 4 kB")


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (80, "3/13 files, 250 MB of 1 GB, 25 MB/s, 0:30 left, 2 failed"),
        (50, "3/13 files, 250 MB of 1 GB, 0:30 left, 2 failed"),
        (31, "3/13 files, 0:30 left, 2 failed"),
        (10, "3/13 files, 0:30 left, 2 failed"),
    ],
)
def test_narrow_terminals_go_without_the_rate_then_without_the_bytes(width: int, text: str) -> None:
    state = State(13, 10**9, files=3, bytes=250 * 10**6, failures=2, seconds=10.0)
    assert describe(state, width) == text


def test_a_job_of_nothing_is_done() -> None:
    assert State(0, 0).share == 1
    assert State(4, 0, files=1).share == 0.25
    assert State(4, 100).seconds_left is None


def test_a_terminal_is_told_what_is_waited_for_when_the_waiting_begins() -> None:
    console, file = console_of(is_terminal=True)
    with waiting(console, "compiling") as begin:
        assert file.getvalue() == ""
        begin()
        begin()
    assert "compiling ..." in file.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_is_said_of_a_waiting_that_does_not_begin(is_terminal: bool) -> None:
    console, file = console_of(is_terminal=is_terminal)
    with waiting(console, "compiling"):
        pass
    assert file.getvalue() == ""


def test_compiling_is_noticed_where_it_happens_and_only_there() -> None:
    noticed: list[None] = []

    twice: Any = numba.njit(lambda x: 2 * x)
    with compiling.noticed(lambda: noticed.append(None)):
        assert twice(2) == 4
        assert len(noticed) == 1
        assert twice(3) == 6
    twice(1.5)  # compiled again, for another type
    assert len(noticed) == 1
