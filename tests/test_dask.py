"""On a Dask cluster a run gives the same tables, and a dead worker costs only what it was doing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from numscope.cli import run
from numscope.clusters import connected
from numscope.errors import EngineError
from tests.batches import contents, small_dump, start
from tests.examples import REPOSITORY

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")  # which it needs


def _wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "has not come about"
        time.sleep(0.02)


class Running(NamedTuple):
    """A cluster of processes on this machine."""

    address: str
    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


def _begin(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def _worker(file: Path) -> subprocess.Popen[bytes]:
    options = ("--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    return _begin("distributed.cli.dask_worker", "--scheduler-file", str(file), *options)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Running]:
    """A scheduler and two workers, each a process."""
    file = tmp_path / "scheduler.json"
    options = ("--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--no-show")
    scheduler = _begin("distributed.cli.dask_scheduler", "--scheduler-file", str(file), *options)
    workers = [_worker(file) for _ in range(2)]
    try:
        _wait_for(file.exists)
        yield Running(json.loads(file.read_text())["address"], file, scheduler, workers)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@contextmanager
def _watching(cluster: Running) -> Iterator[Any]:
    """A client that asks what the cluster is at."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump, not to be changed."""
    return small_dump(tmp_path_factory.mktemp("dask") / "dump")


@pytest.fixture(scope="module")
def whole(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables that threads make."""
    results = tmp_path_factory.mktemp("whole") / "out"
    assert run(["analyze", str(dump), "-o", str(results), "--no-charts", "-q"]) == 0
    return contents(results)


def test_a_cluster_makes_the_tables_that_threads_make_even_if_a_worker_dies(
    cluster: Running, dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    command = ["analyze", str(dump), "--no-charts", "--engine", "dask"]
    by_address = start(*command, "-o", tmp_path / "a", "--scheduler", cluster.address)
    parts = tmp_path / "a" / "parts"
    _wait_for(lambda: list(parts.glob("*.csv")))
    cluster.workers[0].send_signal(signal.SIGKILL)
    _, err = by_address.communicate(timeout=120)
    assert by_address.returncode == 0, err
    assert err.splitlines()[-1].startswith("12/12 files")
    assert contents(tmp_path / "a") == whole
    by_file = start(*command, "-o", tmp_path / "b", "--scheduler-file", cluster.file)
    _, err = by_file.communicate(timeout=120)
    assert by_file.returncode == 0, err
    assert contents(tmp_path / "b") == whole


def test_workers_read_the_dump_that_is_named_where_the_command_is(
    cluster: Running, dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    command = ["analyze", dump.name, "-o", tmp_path / "out", "--no-charts", "--engine", "dask"]
    process = start(*command, "--scheduler", cluster.address, cwd=dump.parent)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert contents(tmp_path / "out") == whole


def test_a_result_that_is_lost_with_its_worker_is_computed_anew(
    cluster: Running, dump: Path
) -> None:
    def instead(_item: str, message: str) -> str:
        raise AssertionError(message)

    keeps_running, dies = cluster.workers
    with _watching(cluster) as client, connected(cluster.address, None, 1) as team:
        _wait_for(lambda: len(client.nthreads()) == 2)
        found = team.map(os.path.dirname, [str(dump / "x")] * 12, instead)
        first = next(found)
        _wait_for(lambda: sum(map(len, client.has_what().values())) >= 11)
        assert all(client.has_what().values())  # each worker holds some of the others
        keeps_running.send_signal(signal.SIGSTOP)
        dies.kill()
        dies.wait()
        _wait_for(lambda: len(client.nthreads()) == 1)
        keeps_running.send_signal(signal.SIGCONT)
        assert [first, *found] == [str(dump)] * 12


def test_a_scheduler_that_goes_away_ends_the_run_which_then_goes_on(
    cluster: Running, dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    command = ["analyze", dump, "-o", out, "--no-charts"]
    with _watching(cluster) as client:
        _wait_for(lambda: len(client.nthreads()) == 2)
        for worker in cluster.workers:
            worker.send_signal(signal.SIGSTOP)
        process = start(*command, "--engine", "dask", "--scheduler", cluster.address)
        _wait_for(lambda: any(client.processing().values()))
    cluster.scheduler.kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("numscope: ")
    assert "Dask scheduler" in err.splitlines()[-1]
    assert run([*map(str, command), "-q"]) == 0
    assert contents(out) == whole


def test_only_references_travel(dump: Path) -> None:
    import pickle

    from numscope import dumps
    from numscope.analysis import measure_file
    from numscope.plans import Selection, plan, schemes

    work, _ = plan(dumps.scan(dump), Selection(), schemes(["ling"]))
    size = max(path.stat().st_size for path in dump.rglob("*.safetensors"))
    for file in work:
        assert len(pickle.dumps(file)) < size
        assert len(pickle.dumps(measure_file(file))) < size


def test_a_file_that_fails_is_tried_once_more_and_then_reported(dump: Path) -> None:
    from collections.abc import Iterable

    from numscope import dumps
    from numscope.analysis import measure_apart
    from numscope.outcomes import FileResult
    from numscope.plans import FileWork, Selection, plan, schemes

    work, _ = plan(dumps.scan(dump), Selection(), schemes(["ling"]))
    tried: list[str] = []

    def over(
        measure: Callable[[FileWork], FileResult],
        items: Iterable[FileWork],
        instead: Callable[[FileWork, str], FileResult],
    ) -> Iterator[FileResult]:
        for item in items:
            tried.append(item.path)
            is_lost = item is work[0] or (item is work[3] and tried.count(item.path) == 1)
            yield instead(item, "no worker") if is_lost else measure(item)

    results = list(measure_apart(work, over))
    assert [tried.count(file.path) for file in work] == [2, 1, 1, 2, *[1] * 8]
    assert sorted(each.work.path for each in results) == [file.path for file in work]
    (failed,) = [each for each in results if each.problems]
    assert (failed.work, failed.problems[0].message) == (work[0], "no worker")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (["--scheduler-file", "/no/file"], "no Dask scheduler has written its address to /no/file"),
    ],
)
def test_a_scheduler_that_is_not_there_is_one_line(
    options: list[str], line: str, dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    command = ["analyze", str(dump), "-o", str(tmp_path), "--engine", "dask", *options]
    assert run(command) == 1
    assert capsys.readouterr().err == f"numscope: {line}\n"
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--scheduler", "tcp://127.0.0.1:9", "--scheduler-file", "s.json"],
            "--scheduler tcp://127.0.0.1:9 and --scheduler-file s.json both name a scheduler; give",
        ),
        (["--scheduler", "tcp://127.0.0.1:9", "--jobs", "2"], "--jobs is for threads of this"),
        (["--scheduler-file", "s.json", "--jobs", "2"], "--jobs is for threads of this machine"),
        (["--memory", "1G"], "--memory is for --engine threads; a Dask worker has its own"),
    ],
)
def test_what_a_cluster_cannot_follow_is_refused(
    options: list[str], line: str, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", str(dump), "--engine", "dask", *options]) == 2
    assert capsys.readouterr().err.startswith(f"numscope: {line}")


def test_that_there_is_no_worker_is_said_and_the_run_goes_on_with_the_next(
    cluster: Running, dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    options = ("--engine", "dask", "--scheduler", cluster.address, "--no-charts")
    process = start("analyze", dump, "-o", tmp_path / "out", *options)
    assert process.stderr
    said = process.stderr.readline()
    assert said == (
        f"numscope: no worker is at the Dask scheduler at {cluster.address}: waiting for one\n"
    )
    cluster.workers.append(_worker(cluster.file))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert err.count("\n") == 1
    assert contents(tmp_path / "out") == whole


def test_a_scheduler_needs_the_engine(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", str(dump), "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert "need --engine dask" in capsys.readouterr().err


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(EngineError, match=r"pip install 'numscope\[dask\]'"),
        connected(None, None, 1),
    ):
        pass


def test_an_item_that_a_worker_fails_at_costs_no_other() -> None:
    def work(item: int) -> int:
        if item == 3:
            raise MemoryError
        if item == 5:
            raise RuntimeError("too\nhot")
        return item * item

    def instead(item: int, message: str) -> int:
        said[item] = message
        return -item

    said: dict[int, str] = {}
    with connected(None, None, 1) as cluster:
        results = sorted(cluster.map(work, range(40), instead))
    assert results == sorted([-3, -5, *(n * n for n in range(40) if n not in {3, 5})])
    assert said == {
        3: "a Dask worker failed at it: MemoryError",
        5: "a Dask worker failed at it: RuntimeError: too hot",
    }


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n"])
def test_what_listens_and_is_no_scheduler_is_one_line(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    talk, _ = server.accept()
                    talks.append(talk)
                    talk.sendall(answer)

        talks: list[socket.socket] = []
        threading.Thread(target=listen, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        with (
            pytest.raises(EngineError, match=f"no Dask scheduler answers at {address}$"),
            connected(address, None, 1),
        ):
            pass
        assert time.monotonic() - begun < 12
        server.shutdown(socket.SHUT_RDWR)
        for talk in talks:
            talk.close()


def test_another_cluster_on_the_machine_is_in_nobodys_way() -> None:
    with socket.socket() as other:
        with suppress(OSError):  # there is another one indeed
            other.bind(("", 8787))
            other.listen()
        with connected(None, None, 1) as cluster:
            assert list(cluster.map(abs, [-1], lambda *_: 0)) == [1]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EngineError("another version"), "another version"),
        (ModuleNotFoundError("No module named 'x'"), "lack numscope: No module named 'x'; install"),
    ],
)
def test_what_all_workers_fail_at_ends_the_map(error: Exception, message: str) -> None:
    def work(_: int) -> int:
        raise error

    def instead(_item: int, _message: str) -> int:
        raise AssertionError

    with connected(None, None, 1) as cluster, pytest.raises(EngineError, match=message):
        list(cluster.map(work, range(4), instead))


def test_a_local_cluster_is_started_if_none_is_named(
    dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    local = start("analyze", dump, "-o", tmp_path, "--no-charts", "--engine", "dask", "--jobs", 2)
    _, err = local.communicate(timeout=120)
    assert local.returncode == 0, err
    assert err.splitlines()[-1].startswith("12/12 files")
    assert contents(tmp_path) == whole


def test_workers_leave_what_is_being_written_and_report_what_is_damaged(tmp_path: Path) -> None:
    dump = small_dump(tmp_path / "dump", 4)
    late, cut = (dump / f"rank{rank}" / "step_0.safetensors" for rank in (0, 1))
    command = ["analyze", dump, "-o", tmp_path / "out", "--no-charts", "--engine", "dask"]
    os.truncate(cut, 700)
    with late.open("r+b"):  # whole by its looks
        process = start(*command, "--jobs", 2)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert "warning: rank0/step_0.safetensors: is still being written; left for the next" in err
    assert "error: rank1/step_0.safetensors: is cut short: " in err


# Being stopped.


def _workers_of(process: subprocess.Popen[str]) -> list[Any]:
    """The workers that the local cluster of a process has begun to start."""
    own = psutil.Process(process.pid).children(recursive=True)
    return [each for each in own if "multiprocessing.spawn" in " ".join(each.cmdline())]


@pytest.mark.parametrize("moment", ["starting", "measuring"])
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("SIGTERM", 143, "stopped by SIGTERM"), ("SIGINT", 130, "interrupted")],
)
def test_a_signal_stops_a_local_cluster_at_once_and_quietly(
    moment: str, name: str, code: int, said: str, tmp_path: Path
) -> None:
    from tests.benchmarks.memory import write_hollow_dump

    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    write_hollow_dump(dump / "rank1" / "step_9.safetensors", 8192 * 10**6)
    command = ["analyze", dump, "-o", out, "--no-charts", "--engine", "dask", "--jobs", 2]
    process = start(*command, start_new_session=True)
    _wait_for(lambda: len(_workers_of(process)) == 2)
    if moment == "measuring":
        _wait_for(lambda: len(list((out / "parts").glob("*.csv"))) == 4)
    workers = _workers_of(process)
    sent = time.monotonic()
    os.killpg(process.pid, getattr(signal, name))  # as a terminal does, and many a scheduler
    _, err = process.communicate(timeout=60)  # until nobody can say anything any more
    assert time.monotonic() - sent < 2
    assert process.returncode == code
    count = 4 if moment == "measuring" else 0
    assert err == (
        f"numscope: {said}; {count} of 5 dump files are finished and kept in {out}/parts;"
        " the same command goes on from there\n"
    )
    _wait_for(lambda: not any(each.is_running() for each in workers))
