"""A file that is still being written is left for the next run; one that is damaged is a failure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numscope import analysis, dumps
from numscope.analysis import measure_file
from numscope.dumps import Problem
from numscope.dumps.folders import LocalFolder
from numscope.dumps.refs import Unread
from numscope.dumps.sources import Stamp, stamp_of
from numscope.dumps.unfinished import is_shared
from numscope.growing import settle
from numscope.plans import FileWork, Selection, plan, schemes
from tests.batches import small_dump
from tests.examples import Call

CUT = Problem("new.npy", "is cut short")
LEFT = Problem("new.npy", "is still being written; left for the next run", failure=False)
LATE = "rank1/step_0.safetensors"


class Settled:
    """What becomes of failures in a file that was changed `age` seconds before, and the waits."""

    def __init__(
        self,
        path: Path,
        *problems: Problem,
        age: float = 3.0,
        meanwhile: Callable[[Path], object] = lambda _: None,
        is_cut_short: bool = True,
        is_shared: bool = False,
    ) -> None:
        class Folder(LocalFolder):
            def is_shared(self, path: str) -> bool:  # noqa: ARG002
                return is_shared

        now = time.time()
        os.utime(path, (now - age, now - age))
        stamp = stamp_of(path)
        assert stamp is not None
        self.waits: list[float] = []

        def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            meanwhile(path)

        self.problems = settle(
            problems or (CUT,),
            Folder(path.parent),
            {each.where: Unread(path.name, stamp, is_cut_short) for each in problems or (CUT,)},
            now,
            clock=lambda: now,
            sleep=sleep,
        )


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A file that nobody writes."""
    path = tmp_path / "new.npy"
    path.write_bytes(b"head")
    return path


def _grow(path: Path) -> None:
    path.write_bytes(b"head and more")


def test_a_file_that_grows_is_left(new: Path) -> None:
    settled = Settled(new, meanwhile=_grow)
    assert (settled.problems, settled.waits) == ([LEFT], [1.0])


def test_a_new_file_that_does_not_grow_has_failed(new: Path) -> None:
    settled = Settled(new)
    assert (settled.problems, settled.waits) == ([CUT], [1.0])


def test_for_an_old_file_nobody_waits(new: Path) -> None:
    settled = Settled(new, age=90, meanwhile=_grow)
    assert (settled.problems, settled.waits) == ([CUT], [])


def test_a_file_that_is_open_to_be_written_is_left_without_waiting(new: Path) -> None:
    with new.open("ab"):
        settled = Settled(new, age=50)
    assert (settled.problems, settled.waits) == ([LEFT], [])
    with new.open("rb"):
        assert Settled(new).problems == [CUT]


def test_a_file_that_was_opened_long_ago_and_never_finished_has_failed(new: Path) -> None:
    with new.open("ab"):
        assert Settled(new, age=90).problems == [CUT]


def test_where_other_machines_may_write_a_new_file_that_ends_too_early_is_left(new: Path) -> None:
    settled = Settled(new, age=50, is_shared=True)
    (remark,) = settled.problems
    assert not remark.failure
    assert "probably still being written; left for the next run" in remark.message
    assert settled.waits == []
    assert Settled(new, is_shared=True, is_cut_short=False).problems == [CUT]
    assert Settled(new, age=90, is_shared=True).problems == [CUT]


def test_tensors_of_a_file_that_grows_are_left_together(new: Path) -> None:
    tensors = [Problem(f"new.npy:{n}", "is in a storage that is cut short") for n in range(3)]
    assert Settled(new, *tensors, meanwhile=_grow).problems == [LEFT]
    assert Settled(new, *tensors).problems == tensors


@pytest.mark.parametrize(
    "problem", [Problem("new.npy", "V2 taken as bfloat16", failure=False), Problem("b.npy", "x")]
)
def test_remarks_and_other_files_are_as_they_were(problem: Problem, tmp_path: Path) -> None:
    unread = {"new.npy": Unread("new.npy", Stamp(1, time.time_ns()))}
    waits: list[float] = []
    assert settle([problem], LocalFolder(tmp_path), unread, time.time(), sleep=waits.append) == [
        problem
    ]
    assert waits == []


def test_a_file_that_is_gone_has_failed(tmp_path: Path) -> None:
    unread = {"new.npy": Unread("new.npy", Stamp(1, time.time_ns()))}
    assert settle([CUT], LocalFolder(tmp_path), unread, 0.0, sleep=lambda _: None) == [CUT]


@pytest.mark.parametrize(
    ("kind", "expected"), [("nfs4", True), ("lustre", True), ("ext4", False), ("overlay", False)]
)
def test_whether_other_machines_write_there_follows_from_the_file_system(
    kind: str, *, expected: bool
) -> None:
    mounts = [
        "22 27 0:21 / /proc rw,relatime - proc proc rw",
        f"36 35 98:7 /a\\040b /data rw,noatime shared:1 - {kind} server:/export rw",
    ]
    assert is_shared(os.makedev(98, 7), mounts) is expected
    assert not is_shared(os.makedev(98, 8), mounts)


# Whole runs.


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Path]:
    """A dump with a file that somebody has open to write to it, half done."""
    dump = small_dump(tmp_path / "dump", 4)
    whole = (dump / LATE).read_bytes()
    with (dump / LATE).open("wb") as file:
        file.write(whole[: len(whole) // 2])
        file.flush()
        yield dump


@pytest.mark.parametrize("options", [[], ["--jobs", 1], ["--shard", "1/1"]])
def test_a_slow_writer_is_waited_for_by_the_next_run(
    options: list[object], writer: Path, tmp_path: Path, call: Call
) -> None:
    code, _, err = call("analyze", writer, "-o", tmp_path / "out", "--no-charts", *options)
    assert code == 0
    assert f"warning: {LATE}: {LEFT.message}\n" in err
    assert "error" not in err


def test_scan_and_python_know_a_slow_writer_too(writer: Path, call: Call) -> None:
    code, _, err = call("scan", writer)
    assert (code, err) == (0, f"warning: {LATE}: {LEFT.message}\n")
    assert {row.path for row in analysis.analyze(str(writer))} == {
        f"rank{rank}/step_{step}.safetensors" for rank, step in ((0, 0), (0, 1), (1, 1))
    }


def test_an_empty_file_that_is_about_to_be_written_is_left(tmp_path: Path, call: Call) -> None:
    dump = small_dump(tmp_path / "dump", 2)
    with (dump / "new.npy").open("wb"):
        code, _, err = call("analyze", dump, "-o", tmp_path / "out", "--no-charts", "-v")
    assert code == 0
    assert f"warning: new.npy: {LEFT.message}\n" in err


def test_an_index_that_is_being_written_is_left(tmp_path: Path, call: Call) -> None:
    dump = small_dump(tmp_path / "dump", 2)
    index = "model.safetensors.index.json"
    with (dump / index).open("w") as file:
        file.write('{"weight_map": {"layers')
        file.flush()
        assert call("scan", dump)[::2] == (0, f"warning: {index}: {LEFT.message}\n")
    assert call("scan", dump)[::2] == (3, f"error: {index}: is no JSON\n")


def _work(dump: Path) -> FileWork:
    work, _ = plan(dumps.scan(dump), Selection(), schemes(["ling"]))
    (late,) = [file for file in work if file.path == LATE]
    return late


def test_a_file_that_is_begun_anew_during_the_run_is_left(tmp_path: Path) -> None:
    dump = small_dump(tmp_path / "dump", 4)
    work = _work(dump)
    with (dump / LATE).open("r+b") as file:
        file.truncate(700)
        result = measure_file(work)
        assert (result.rows, result.problems) == (
            (),
            (Problem(LATE, LEFT.message, failure=False),),
        )
    assert [each.failure for each in measure_file(work).problems] == [True]


def test_a_file_that_looks_whole_but_is_open_to_be_written_is_left(tmp_path: Path) -> None:
    dump = small_dump(tmp_path / "dump", 4)
    with (dump / LATE).open("r+b"):
        result = measure_file(_work(dump))
        assert (result.rows, result.problems) == (
            (),
            (Problem(LATE, LEFT.message, failure=False),),
        )
    assert measure_file(_work(dump)).problems == ()
    with (dump / LATE).open("r+b"):
        os.utime(dump / LATE, (1e9, 1e9))
        assert measure_file(_work(dump)).problems == ()


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_file_that_was_replaced_by_one_like_it_is_a_failure_each_time(
    attempt: int, tmp_path: Path
) -> None:
    dump = small_dump(tmp_path / "dump", 4)
    work = _work(dump)
    os.utime(dump / "rank0" / "step_0.safetensors", (1e9, 1e9))
    (dump / "rank0" / "step_0.safetensors").replace(dump / LATE)
    for _ in range(attempt):
        result = measure_file(work)
    assert result.rows == ()
    assert result.problems == (
        Problem(LATE, "was replaced since it was scanned; the next run measures it"),
    )
