"""A file that is still being written is left for the next run; one that is damaged is a failure."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from numscope.dumps import Problem
from numscope.dumps.folders import LocalFolder
from numscope.dumps.sources import Stamp, stamp_of
from numscope.growing import settle

CUT = Problem("new.npy", "is cut short")
LEFT = Problem("new.npy", "is still being written; left for the next run", failure=False)


def _settled(path: Path, *, age: float, grows: bool) -> tuple[list[Problem], list[float]]:
    """What becomes of the failure of a file changed `age` seconds before; and the waits."""
    now = time.time()
    path.write_bytes(b"head")
    os.utime(path, (now - age, now - age))
    stamp = stamp_of(path)
    assert stamp is not None
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if grows:
            path.write_bytes(b"head and more")

    settled = settle(
        [CUT], LocalFolder(path.parent), {path.name: stamp}, now, clock=lambda: now, sleep=sleep
    )
    return settled, waits


def test_a_file_that_grows_is_left(tmp_path: Path) -> None:
    assert _settled(tmp_path / "new.npy", age=3, grows=True) == ([LEFT], [1.0])


def test_a_new_file_that_does_not_grow_has_failed(tmp_path: Path) -> None:
    assert _settled(tmp_path / "new.npy", age=3, grows=False) == ([CUT], [1.0])


def test_for_an_old_file_nobody_waits(tmp_path: Path) -> None:
    assert _settled(tmp_path / "new.npy", age=90, grows=True) == ([CUT], [])


@pytest.mark.parametrize(
    "problem", [Problem("new.npy", "V2 taken as bfloat16", failure=False), Problem("b.npy", "x")]
)
def test_remarks_and_other_files_are_as_they_were(problem: Problem, tmp_path: Path) -> None:
    stamps = {"new.npy": Stamp(1, time.time_ns())}
    waits: list[float] = []
    assert settle([problem], LocalFolder(tmp_path), stamps, time.time(), sleep=waits.append) == [
        problem
    ]
    assert waits == []


def test_a_file_that_is_gone_has_failed(tmp_path: Path) -> None:
    stamps = {"new.npy": Stamp(1, time.time_ns())}
    assert settle([CUT], LocalFolder(tmp_path), stamps, 0.0, sleep=lambda _: None) == [CUT]
