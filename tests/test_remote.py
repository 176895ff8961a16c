"""Dumps behind addresses: found, read by ranges, and measured as if they were here."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from numscope import batches, dumps
from numscope.cli import run
from numscope.dumps import servers
from numscope.dumps.remote import HEAD_BYTES
from numscope.errors import DumpError, NothingToDo
from tests.batches import contents, small_dump, start
from tests.examples import Call, gradient, save_dump

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A dump on this machine."""
    return small_dump(tmp_path / "run" / "dump", 4)


def _copy(local: Path, address: str, **options: Any) -> str:
    files, root = fsspec.core.url_to_fs(address, **options)
    for path in local.rglob("*.safetensors"):
        files.pipe_file(f"{root}/{path.relative_to(local)}", path.read_bytes())
    return address


@pytest.fixture
def memory(local: Path) -> Iterator[str]:
    """A copy of it in memory."""
    yield _copy(local, "memory://bucket/run/dump")
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


@pytest.mark.parametrize("end", ["", "/"])
def test_an_address_holds_what_the_folder_holds(local: Path, memory: str, end: str) -> None:
    here, there = dumps.scan(local), dumps.scan(memory + end)
    assert [(ref.path, ref.key, ref.step, ref.rank, ref.shape) for ref in there] == [
        (ref.path, ref.key, ref.step, ref.rank, ref.shape) for ref in here
    ]
    assert (there.files, there.bytes, there.problems) == (here.files, here.bytes, here.problems)
    for ours, theirs in zip(here, there, strict=True):
        assert (dumps.load(theirs) == dumps.load(ours)).all()


def test_a_file_address_of_this_machine(local: Path) -> None:
    assert len(dumps.scan(f"file://{local}")) == len(dumps.scan(local))


def test_a_single_remote_file(local: Path, memory: str) -> None:
    path = "rank1/step_1.safetensors"
    found = dumps.scan(f"{memory}/{path}")
    assert [ref.key for ref in found] == [ref.key for ref in dumps.scan(local / path)]


def test_tables_are_those_of_the_local_dump(local: Path, memory: str, tmp_path: Path) -> None:
    for dump, out in ((str(local), "here"), (memory, "there"), (memory, "there")):
        assert run(["analyze", dump, "-o", str(tmp_path / out), "--no-charts", "-q"]) == 0
    assert contents(tmp_path / "here") == contents(tmp_path / "there")
    assert f'"dump": "{memory}"' in (tmp_path / "there" / "run.json").read_text()


def test_what_is_finished_is_not_read_again_until_it_changes(
    memory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["analyze", memory, "-o", str(tmp_path / "out"), "--no-charts"]
    assert run(command) == 0
    capsys.readouterr()
    assert run(command) == 0
    assert "4 of 4 dump files were finished before" in capsys.readouterr().err
    new = save_dump(tmp_path / "new.safetensors", {"layers.0.fc.gradient": gradient(3, 8)})
    fsspec.filesystem("memory").pipe_file(
        "/bucket/run/dump/rank0/step_0.safetensors", new.read_bytes()
    )
    assert run(command) == 0
    assert "3 of 4 dump files were finished before" in capsys.readouterr().err


def test_only_what_is_needed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"layers.{layer}.fc.activation" for layer in range(8)]
    local = tmp_path / "dump"
    save_dump(local / "step_1.safetensors", {name: gradient(512, 512) for name in names})
    address = _copy(local, "memory://bucket/large")
    kind = type(fsspec.filesystem("memory"))
    read: list[int] = []
    cat_file = kind.cat_file

    def counted(
        self: Any, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        data: bytes = cat_file(self, path, start=start, end=end)
        read.append(len(data))
        return data

    monkeypatch.setattr(kind, "cat_file", counted)
    found = dumps.scan(address)
    assert sum(read) == HEAD_BYTES
    read.clear()
    command = ["analyze", address, "-o", str(tmp_path / "out"), "--layers", "3", "--no-charts"]
    assert run([*command, "-q"]) == 0
    tensor = 512 * 512 * 4
    assert found.bytes > 8 * tensor
    assert sum(read) == tensor + 2 * HEAD_BYTES


def test_a_remote_file_that_is_gone_is_a_failure(memory: str) -> None:
    (ref, *_) = dumps.scan(memory)
    fsspec.filesystem("memory").rm("/bucket/run/dump/rank0/step_0.safetensors")
    with pytest.raises(DumpError, match="cannot be"):
        dumps.load(ref)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory://nothing/here", "holds nothing; a dump folder or a file was expected"),
        ("nosuch://bucket/x", "cannot be read: Protocol not known: nosuch"),
    ],
)
def test_an_address_with_nothing_behind_it_is_one_line(
    address: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", address, "-o", str(tmp_path / "out")]) == 1
    assert re.fullmatch(f"numscope: {address} {words}.*\n", capsys.readouterr().err)


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(NothingToDo, match=r"pip install 'numscope\[remote\]'"):
        dumps.scan("s3://bucket/run")


# A server.


class Server(NamedTuple):
    """A server in a process of its own."""

    address: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def server() -> Iterator[Server]:
    """An S3 server."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield Server(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.wait()


def _set_credentials(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    # As users set them; fsspec and its S3 client take them from the environment.
    credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    environment = {
        **credentials,
        "AWS_ENDPOINT_URL": address,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(server: Server, local: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a dump on that server, with what it takes to read it in the environment."""
    _set_credentials(monkeypatch, server.address)
    upload = (
        "import sys, s3fs; files = s3fs.S3FileSystem(); files.mkdir('bucket');"
        "files.put(sys.argv[1], 'bucket/run/dump', recursive=True)"
    )
    subprocess.run([sys.executable, "-c", upload, str(local)], check=True)  # noqa: S603
    return "s3://bucket/run/dump"


def test_a_dump_in_s3(bucket: str, local: Path, tmp_path: Path) -> None:
    for expected in ("4/4 files", "4 of 4 dump files were finished before"):
        process = start("analyze", bucket, "-o", tmp_path / "there", "--no-charts")
        _, err = process.communicate(timeout=120)
        assert (process.returncode, expected in err) == (0, True), err
    assert run(["analyze", str(local), "-o", str(tmp_path / "here"), "--no-charts", "-q"]) == 0
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_server_that_falls_silent_costs_the_files_that_are_left_and_the_run_ends(
    server: Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(servers, "_ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(servers, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr("s3fs.S3FileSystem.cachable", False)  # the server's address is a new one
    begin = batches.begin

    def begin_and_fall_silent(*arguments: Any, **options: Any) -> batches.Batch:
        server.process.send_signal(signal.SIGSTOP)
        return begin(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(batches, "begin", begin_and_fall_silent)
        sent = time.monotonic()
        code, _, err = call("analyze", bucket, "-o", tmp_path / "out", "--jobs", 1, "--no-charts")
    assert time.monotonic() - sent < 30
    assert code == 1  # nothing has been read
    failures = [line for line in err.splitlines() if line.startswith("error: rank")]
    assert len(failures) == 4
    assert all(": cannot be read: " in line for line in failures)
    assert sum("no answer within 2 s" in line for line in failures) >= 1
    assert sum("the server has not answered for" in line for line in failures) >= 1


def test_a_signal_stops_a_run_that_waits_for_a_silent_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _set_credentials(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        process = start("analyze", "s3://bucket/run", "-o", tmp_path / "out", "--no-charts")
        silent.settimeout(60)
        talk, _ = silent.accept()
        with talk:
            sent = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < 2
    assert (process.returncode, err) == (143, "numscope: stopped by SIGTERM\n")
