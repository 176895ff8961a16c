"""Captures in whole runs: full disks, ends without notice, compiled and distributed models."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import numscope
from numscope.capture import Capture, CaptureWarning, writing
from numscope.capture.writing import StepFile, Writer
from numscope.writing import partial_name
from tests.examples import REPOSITORY
from tests.torch_models import hooks_of, loss_of, model, tokens
from tests.torch_ranks import WORLD_SIZE

torch.set_num_threads(1)

SCRIPT = """
import resource, sys
import torch
from numscope.capture import Capture
from tests.torch_models import hooks_of, loss_of, model, tokens

torch.set_num_threads(1)
limit, steps = map(int, sys.argv[2:])
trained = model()
capture = Capture(trained, sys.argv[1], every=1)
for step in range(steps):
    if step == 3 and limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    loss_of(trained(tokens(step)), tokens(step)).backward()
    capture.step()
print("trained", steps, "steps,", hooks_of(trained) if limit else "some", "hooks")
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        found: dict[str, str] = file.metadata()
        return found


def test_all_is_written_when_a_script_ends_without_saying_so(tmp_path: Path) -> None:
    out, err = start("-c", SCRIPT, tmp_path, 0, 5).communicate(timeout=120)
    assert (out, err) == ("trained 5 steps, some hooks\n", "")
    assert names(tmp_path) == [f"step_{step:06}.safetensors" for step in range(5)]
    assert len({path.stat().st_size for path in tmp_path.iterdir()}) == 1


def test_a_full_disk_ends_the_capture_and_not_the_training(tmp_path: Path) -> None:
    out, err = start("-c", SCRIPT, tmp_path, 4096, 40).communicate(timeout=120)
    assert out == "trained 40 steps, 0 hooks\n"
    assert err.count("CaptureWarning") == 1
    assert "capturing has stopped, training goes on: " in err
    assert re.search(r"cannot write \S+\.safetensors: File too large", err)
    whole = names(tmp_path)
    assert 1 <= len(whole) <= 3
    assert whole == [f"step_{step:06}.safetensors" for step in range(len(whole))]
    assert len({path.stat().st_size for path in tmp_path.iterdir()}) == 1


def test_a_failure_between_captured_steps_ends_the_capture_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trained = model()
    capture = Capture(trained, tmp_path / "file", every=1000)
    loss_of(trained(tokens(0)), tokens(0)).backward()
    with pytest.warns(CaptureWarning, match="cannot write .*/file/step_000000.safetensors: Not"):
        _steps_until(capture, lambda: capture._session.due > 10**9)
    capture.close()


def _steps_until(capture: Capture, is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(900):
        capture.step()
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError


# The writer.


def step_file(folder: Path, step: int) -> StepFile:
    return StepFile(folder / f"{step}.safetensors", {"a": torch.full((4,), float(step))}, {})


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Lets the writer write a file for each release."""
    gate = threading.Semaphore(0)
    write = writing.write

    def write_if_let(*arguments: Any) -> None:
        gate.acquire()
        write(*arguments)

    monkeypatch.setattr(writing, "write", write_if_let)
    yield gate
    gate.release(100)


def test_the_writer_is_at_most_two_files_behind(tmp_path: Path, gate: threading.Semaphore) -> None:
    writer = Writer(lambda: None)
    done: list[int] = []

    def put_all() -> None:
        for step in range(4):
            writer.put(step_file(tmp_path, step))
            done.append(step)

    thread = threading.Thread(target=put_all)
    thread.start()
    thread.join(0.3)
    assert done == [0, 1]
    gate.release(4)
    thread.join(30)
    writer.finish()
    assert (done, writer.failure) == ([0, 1, 2, 3], "")
    found = {name: load_file(tmp_path / name)["a"].tolist() for name in names(tmp_path)}
    assert found == {f"{step}.safetensors": [float(step)] * 4 for step in range(4)}


@pytest.mark.usefixtures("gate")
def test_a_disk_on_which_nothing_moves_is_given_up(tmp_path: Path) -> None:
    writer = Writer(lambda: None, patience=0.05)
    for step in range(5):
        writer.put(step_file(tmp_path, step))
    assert writer.failure == "nothing could be written for 0.05 s"
    writer.finish()
    assert names(tmp_path) == []


def test_files_are_those_of_safetensors(tmp_path: Path) -> None:
    tensors = {
        "odd": torch.arange(3, dtype=torch.bfloat16),
        "empty": torch.empty(0, 5),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "eight": torch.arange(5).to(torch.float8_e5m2),
        "große": torch.randn(2, 3, 4),
    }
    writing.write(StepFile(tmp_path / "new" / "a.safetensors", tensors, {"step": "1"}))
    found = load_file(tmp_path / "new" / "a.safetensors")
    assert found.keys() == tensors.keys()
    for key, tensor in tensors.items():
        assert (found[key].dtype, found[key].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[key].float(), tensor.float())
    assert metadata(tmp_path / "new" / "a.safetensors") == {"step": "1"}
    assert names(tmp_path / "new") == ["a.safetensors"]


def test_what_a_killed_training_has_left_is_removed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = tmp_path / partial_name("step_000007.safetensors", process=child.pid)
    alive = tmp_path / partial_name("step_000008.safetensors")
    elsewhere = tmp_path / partial_name("step_000009.safetensors", "other", child.pid)
    for path in (dead, alive, elsewhere):
        path.write_text("half")
    writer = Writer(lambda: None)
    writer.put(step_file(tmp_path, 10))
    writer.finish()
    assert names(tmp_path) == sorted([alive.name, elsewhere.name, "10.safetensors"])


def test_a_file_that_is_written_has_the_name_of_its_machine_and_process(tmp_path: Path) -> None:
    """Else the ranks of two machines could write to one file."""
    found: list[str] = []
    writing.write(step_file(tmp_path, 1), lambda _: found.extend(names(tmp_path)))
    assert {*found} == {partial_name("1.safetensors")}
    assert f".{socket.gethostname()}-" in found[0]
    assert f".{os.getpid()}." in found[0]


# Compiled models.


KINDS = ("activation", "gradient")


class Pair(nn.Module):
    """Two matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Their product with x, one after the other."""
        y: torch.Tensor = self.b(nn.functional.gelu(self.a(x)))
        return y


class Backend:
    """Compiles nothing, and counts."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, graph: Any, _inputs: object) -> Callable[..., Any]:
        self.graphs += 1

        def run(*arguments: object) -> Any:
            self.runs += 1
            return graph.forward(*arguments)

        return run


@pytest.mark.parametrize("way", ["compiled", "inner", "in place"])
def test_compiled_models_run_uncompiled_on_captured_steps_only(way: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    inner = Pair()
    backend = Backend()
    if way == "in place":
        inner.compile(backend=backend)
        trained = inner
    else:
        trained = torch.compile(inner, backend=backend)
    x = torch.randn(3, 4)
    counts = []
    with Capture(inner if way == "inner" else trained, tmp_path, steps=[2, 3]) as capture:
        for _ in range(6):
            trained(x).sum().backward()
            counts.append((backend.graphs, backend.runs))
            capture.step()
    graphs = {graphs for graphs, _ in counts}
    assert graphs == {1}
    assert [runs for _, runs in counts] == [1, 2, 2, 2, 3, 4]
    for step in (2, 3):
        saved = load_file(tmp_path / f"step_{step:06}.safetensors")
        y = nn.functional.gelu(inner.a(x))
        (gradient,) = torch.autograd.grad(inner.b(y).sum(), inner.a.bias)
        assert saved.keys() == {f"{name}.{kind}" for name in "ab" for kind in KINDS}
        assert torch.equal(saved["a.activation"], x)
        assert torch.equal(saved["b.activation"], y)
        assert torch.equal(saved["a.gradient"].sum(0), gradient)
        assert torch.equal(saved["b.gradient"], torch.ones(3, 2))


def test_two_captures_leave_compiled_code_as_they_found_it(tmp_path: Path) -> None:
    torch._dynamo.reset()
    backend = Backend()
    trained = torch.compile(Pair(), backend=backend)
    x = torch.randn(3, 4)
    captures = [Capture(trained, tmp_path / f"{n}", steps=[n, 2]) for n in (1, 3)]
    runs = []
    for _ in range(6):
        trained(x).sum().backward()
        runs.append(backend.runs)
        for capture in captures:
            capture.step()
    for capture in captures:
        capture.close()
    assert runs == [1, 1, 1, 1, 2, 3]
    assert [len(names(tmp_path / f"{n}")) for n in (1, 3)] == [2, 2]


def test_modules_in_compiled_code_are_named_if_that_is_not_wanted(tmp_path: Path) -> None:
    torch._dynamo.reset()
    trained = torch.compile(nn.Sequential(nn.Linear(4, 4)), backend=Backend())
    x = torch.randn(3, 4)
    trained(x).sum().backward()
    capture = Capture(trained, tmp_path, every=1, eager=False)
    trained(x).sum().backward()
    with pytest.warns(CaptureWarning, match="nothing was seen of 0, 1 of 1 modules; hooks do not"):
        capture.step()
    capture.close()
    assert names(tmp_path) == []
    assert hooks_of(trained) == 0


def test_what_is_compiled_with_hooks_in_place_is_not_seen_and_runs(tmp_path: Path) -> None:
    torch._dynamo.reset()
    inner, backend = Pair(), Backend()
    capture = Capture(inner, tmp_path, every=2, eager=False)
    trained = torch.compile(inner, backend=backend)
    x = torch.randn(3, 4)
    trained(x).sum().backward()
    with pytest.warns(CaptureWarning, match="nothing was seen of a, b, 2 of 2 modules"):
        capture.step()
    for _ in range(3):
        trained(x).sum().backward()
        capture.step()
    capture.close()
    assert torch.equal(trained(x), inner.b(nn.functional.gelu(inner.a(x))))
    assert backend.graphs <= 2
    assert names(tmp_path) == []


# Distributed models.


def test_each_rank_writes_what_it_saw(tmp_path: Path) -> None:
    ranks = [start("-m", "tests.torch_ranks", rank, tmp_path) for rank in range(WORLD_SIZE)]
    ends = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], ends
    for way in ("ddp", "fsdp", "tp"):
        assert names(tmp_path / way) == [f"step_000000-rank_{rank}.safetensors" for rank in (0, 1)]
        scan = numscope.scan(tmp_path / way)
        assert not scan.problems
        assert {ref.rank for ref in scan} == {0, 1}
    assert {ref.tokens for ref in numscope.scan(tmp_path / "ddp")} == {0}
    for rank in range(WORLD_SIZE):
        path = f"step_000000-rank_{rank}.safetensors"
        assert metadata(tmp_path / "ddp" / path)["world_size"] == "2"
        assert "sharding" not in metadata(tmp_path / "ddp" / path)
        parts = json.loads(metadata(tmp_path / "fsdp" / path)["sharding"])
        assert parts["layers.0.fc1.weight_gradient"] == f"S(0) {rank} of 2"
        assert "layers.0.fc1.weight" not in parts
        parts = json.loads(metadata(tmp_path / "tp" / path)["sharding"])
        assert parts == {
            "0.weight": f"S(0) {rank} of 2",
            "0.activation": f"R {rank} of 2",
            "2.weight": f"S(1) {rank} of 2",
            "2.activation": f"S(1) {rank} of 2",
        }
