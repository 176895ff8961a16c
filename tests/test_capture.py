"""What `numscope.capture` saves is what modules saw, bit for bit, and training goes on as ever."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import re
import sys
import weakref
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import numscope
from numscope.capture import Capture, CaptureWarning, sampling
from numscope.capture.sampling import Sample
from numscope.cli import run
from numscope.errors import UsageError
from tests.examples import REPOSITORY
from tests.torch_models import Matrix, Model, bits, hooks_of, loss_of, model, tokens

torch.set_num_threads(1)


def every_step(trained: nn.Module, folder: Path, **options: Any) -> Capture:
    """A capture of what remembers, on every step."""
    return Capture(trained, folder, **{"every": 1, "modules": Matrix, **options})


def train_step(trained: Model, step: int = 0, microbatches: int = 1, dtype: Any = None) -> None:
    """Forward and backward of each micro-batch; gradients are added up."""
    trained.zero_grad()
    for microbatch in range(microbatches):
        batch = tokens(100 * step + microbatch)
        with torch.autocast("cpu", dtype) if dtype else nullcontext():
            loss = loss_of(trained(batch), batch.roll(-1))
        trained.backward(loss)


Tensors = dict[tuple[str, str, int | None, str], bytes]


def saved(folder: Path) -> Tensors:
    """What numscope's own reader makes of the files: module, kind, micro-batch and slot."""
    scan = numscope.scan(folder)
    assert not scan.problems
    return {
        (ref.module, str(ref.kind), ref.microbatch, ref.slot): numscope.load(ref).tobytes()
        for ref in scan
    }


def seen(trained: Model, per_microbatch: int = 1, microbatches: int = 1) -> Tensors:
    """What the matrices remember, by the same names."""
    found: Tensors = {}
    for name, matrix in trained.matrices.items():
        assert len(matrix.seen) == per_microbatch * microbatches
        for index, each in enumerate(matrix.seen):
            microbatch, call = divmod(index, per_microbatch)
            slot = f"{call}" if call else ""
            (found[name, "activation", microbatch, slot],) = bits([each.x])
            if each.gradients:
                (found[name, "gradient", microbatch, slot],) = bits(each.gradients)
    return found


def assert_same(found: Tensors, expected: Tensors) -> None:
    assert expected
    assert found.keys() == expected.keys()
    assert [key for key in expected if found[key] != expected[key]] == []


# Bit for bit.


@pytest.mark.parametrize("reentrant", [None, False, True], ids=["", "checkpoint", "reentrant"])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["", "autocast"])
@pytest.mark.parametrize("rounds", [1, 2], ids=["", "twice"])
@pytest.mark.parametrize("microbatches", [1, 3], ids=["", "accumulated"])
def test_saved_is_what_was_seen(
    reentrant: bool | None, dtype: Any, rounds: int, microbatches: int, tmp_path: Path
) -> None:
    trained = model(reentrant=reentrant, rounds=rounds)
    with every_step(trained, tmp_path) as capture:
        train_step(trained, microbatches=microbatches, dtype=dtype)
        capture.step()
    expected = seen(trained, rounds, microbatches)
    assert len(expected) == 3 * 2 * 2 * rounds * microbatches
    assert_same(saved(tmp_path), expected)


def test_types_are_kept(tmp_path: Path) -> None:
    trained = model().bfloat16()
    with every_step(trained, tmp_path) as capture:
        train_step(trained)
        capture.step()
    assert_same(saved(tmp_path), seen(trained))
    assert {ref.dtype for ref in numscope.scan(tmp_path)} == {"bfloat16"}


def test_autocast_leaves_inputs_as_modules_get_them(tmp_path: Path) -> None:
    trained = model()
    with every_step(trained, tmp_path, layers=[0]) as capture:
        train_step(trained, dtype=torch.bfloat16)
        capture.step()
    assert {(ref.module[9:], ref.kind, ref.dtype) for ref in numscope.scan(tmp_path)} == {
        ("fc1", "activation", "float32"),
        ("fc1", "gradient", "bfloat16"),
        ("out", "activation", "bfloat16"),
        ("out", "gradient", "bfloat16"),
    }
    assert metadata(tmp_path / "step_000000.safetensors")["autocast"] == "bfloat16"


def test_a_tied_module_is_captured_once_under_its_first_name(tmp_path: Path) -> None:
    trained = model()
    trained.layers[2].fc1 = trained.layers[0].fc1
    with every_step(trained, tmp_path) as capture:
        train_step(trained)
        capture.step()
    found = saved(tmp_path)
    shared = trained.layers[0].fc1.seen
    assert [found["layers.0.fc1", "activation", 0, slot] for slot in ("", "1")] == bits(
        each.x for each in shared
    )
    assert [found["layers.0.fc1", "gradient", 0, slot] for slot in ("", "1")] == bits(
        each.gradients[0] for each in shared
    )
    assert not any(module == "layers.2.fc1" for module, *_ in found)
    tied = json.loads(metadata(tmp_path / "step_000000.safetensors")["tied"])
    assert tied == {"layers.0.fc1": ["layers.2.fc1"]}


def test_a_second_backward_pass_has_tensors_of_its_own(tmp_path: Path) -> None:
    trained = model()
    batch = tokens(0)
    with every_step(trained, tmp_path, layers=[1]) as capture:
        logits = trained(batch)
        trained.backward(loss_of(logits, batch), retain_graph=True)
        trained.backward(logits.square().mean())
        capture.step()
    found = saved(tmp_path)
    gradients = bits(trained.layers[1].fc1.seen[0].gradients)
    assert len(gradients) == 2
    assert [found["layers.1.fc1", "gradient", 0, slot] for slot in ("", "1")] == gradients


def test_microbatches_may_all_run_before_any_goes_back(tmp_path: Path) -> None:
    trained = model(reentrant=True)
    batches = [tokens(seed) for seed in range(3)]
    with every_step(trained, tmp_path) as capture:
        losses = [loss_of(trained(batch), batch) for batch in batches]
        for loss in losses:
            trained.backward(loss)
        capture.step()
    assert_same(saved(tmp_path), seen(trained, microbatches=3))


def test_microbatches_are_told_by_backward_passes_where_the_model_is_not_called(
    tmp_path: Path,
) -> None:
    trained = model()
    with every_step(trained, tmp_path) as capture:
        for seed in range(2):
            x = trained.embedding(tokens(seed))
            for layer in trained.layers:
                x = layer(x)
            trained.backward(trained.head(x).square().mean())
        capture.step()
    assert_same(saved(tmp_path), seen(trained, microbatches=2))


def test_weights_are_those_of_the_forward_pass_and_their_gradients_the_sum(tmp_path: Path) -> None:
    trained = model()
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    name = "layers.1.fc1"
    (before,) = bits([trained.layers[1].fc1.weight])
    kinds = ("weight", "weight_gradient")
    with every_step(trained, tmp_path, layers=[1], kinds=kinds) as capture:
        train_step(trained, microbatches=2)
        (gradient,) = bits([trained.layers[1].fc1.weight.grad])
        optimizer.step()
        optimizer.zero_grad()
        capture.step()
    found = saved(tmp_path)
    assert found.keys() == {
        (f"layers.1.{module}", kind, None, "") for module in ("fc1", "out") for kind in kinds
    }
    assert found[name, "weight", None, ""] == before
    assert found[name, "weight_gradient", None, ""] == gradient


def _lines_of_a_call(count: int, folder: Path) -> int:
    """How many lines of the recording run in a forward of the first of so many modules."""
    trained = nn.Sequential(*(nn.Linear(2, 2) for _ in range(count)))
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith("recording.py"):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    with Capture(trained, folder, every=1, kinds=["activation", "weight"]):
        sys.settrace(trace)
        try:
            trained[0](torch.ones(2, 2))
        finally:
            sys.settrace(before)
    return lines


def test_a_call_costs_the_same_among_many_modules(tmp_path: Path) -> None:
    assert 0 < _lines_of_a_call(2, tmp_path) == _lines_of_a_call(50, tmp_path)


@pytest.mark.parametrize("reentrant", [None, False, True], ids=["", "checkpoint", "reentrant"])
@pytest.mark.parametrize("kind", ["activation", "gradient"])
def test_what_is_not_wanted_is_not_copied(
    kind: str, reentrant: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    copy_of = sampling._copy

    def watch(tensor: torch.Tensor) -> torch.Tensor:
        copied.append(tensor.nbytes)
        return copy_of(tensor)

    monkeypatch.setattr(sampling, "_copy", watch)
    trained = model(reentrant=reentrant)
    with every_step(trained, tmp_path, kinds=[kind]) as capture:
        with torch.no_grad():
            trained.eval()(tokens(5))  # a validation, which is told by its having no gradients
            trained.train()
        for matrix in trained.matrices.values():
            matrix.seen.clear()
        copied.clear()
        train_step(trained, microbatches=2)
        recording = capture._session._recording
        assert recording
        held = recording._room.taken
        capture.step()
    expected = {
        name: each for name, each in seen(trained, microbatches=2).items() if name[1] == kind
    }
    assert_same(saved(tmp_path), expected)
    wanted = sum(map(len, expected.values()))
    if reentrant:  # to know a call again takes its input
        assert sum(copied) > wanted
    else:
        assert sum(copied) == wanted
        assert len(copied) == len(expected)
    validation = sum(each.seen[0].x.nbytes for each in trained.matrices.values())
    assert wanted <= held <= wanted + validation


def test_no_gradient_is_missed_where_none_is_wanted(tmp_path: Path) -> None:
    trained = model()
    with every_step(trained, tmp_path, kinds=["activation"]) as capture:
        logits = trained(tokens(0))
        trained.layers[0].fc1(torch.ones(1, 1, 24))  # goes nowhere
        trained.backward(loss_of(logits, tokens(0)))
        capture.step()
    assert {kind for _, kind, *_ in saved(tmp_path)} == {"activation"}


def test_without_gradients_only_activations_are_saved(tmp_path: Path) -> None:
    trained = model()
    with torch.inference_mode(), every_step(trained, tmp_path) as capture:
        trained(tokens(0))
        capture.step()
    found = saved(tmp_path)
    assert {kind for _, kind, *_ in found} == {"activation"}
    assert_same(found, seen(trained))


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_a_validation_within_the_step_is_left_out(reentrant: bool | None, tmp_path: Path) -> None:
    trained = model(reentrant=reentrant)
    with every_step(trained, tmp_path) as capture:
        with torch.no_grad():
            trained.eval()(tokens(5))
            trained.train()
        for matrix in trained.matrices.values():
            matrix.seen.clear()
        train_step(trained, microbatches=2)
        expected = seen(trained, microbatches=2)
        capture.step()
    assert_same(saved(tmp_path), expected)


def test_training_gives_the_same_bits_with_and_without(tmp_path: Path) -> None:
    def train(folder: Path | None) -> list[bytes]:
        trained = model(reentrant=False)
        optimizer = torch.optim.AdamW(trained.parameters(), lr=0.01)
        capture = Capture(trained, folder, every=2, rows=128) if folder else None
        for step in range(5):
            train_step(trained, step, microbatches=2, dtype=torch.bfloat16)
            optimizer.step()
            if capture:
                capture.step()
        if capture:
            capture.close()
        return bits(trained.parameters())

    assert train(tmp_path) == train(None)
    assert len(list(tmp_path.iterdir())) == 3


# Which rows.


def rows_saved(folder: Path, rows: int | None, seed: int = 0) -> dict[str, torch.Tensor]:
    trained = model(depth=1)
    batch = tokens(0, rows=9, length=100)
    with Capture(trained, folder, every=1, rows=rows, seed=seed, modules="fc1") as capture:
        trained.backward(loss_of(trained(batch), batch))
        capture.step()
        trained.backward(loss_of(trained(batch[:2]), batch[:2]))
        capture.step()
    return load_file(folder / "step_000000.safetensors") | {
        f"later {key}": each for key, each in load_file(folder / "step_000001.safetensors").items()
    }


def test_rows_are_kept_in_whole_groups_that_tiles_fit_on(tmp_path: Path) -> None:
    every_row, some = rows_saved(tmp_path / "all", None), rows_saved(tmp_path / "some", 384)
    (starts,) = json.loads(
        metadata(tmp_path / "some" / "step_000000.safetensors")["sampled_rows"]
    ).values()
    assert starts == sorted(set(starts))
    assert len(starts) == 3
    assert all(start % 128 == 0 and start + 128 <= 900 for start in starts)
    for kind in ("activation", "gradient"):
        flat = every_row[f"layers.0.fc1.{kind}"].flatten(0, 1)
        kept = torch.cat([flat[start : start + 128] for start in starts])
        assert torch.equal(some[f"layers.0.fc1.{kind}"], kept)
        later = f"later layers.0.fc1.{kind}"
        assert some[later].shape[:2] == (2, 100)  # as few rows as that are all kept
        assert torch.equal(some[later], every_row[later])


def test_the_choice_follows_from_the_seed() -> None:
    def chosen(seed: int) -> list[int]:
        sample = Sample(256, seed)
        sample.take(torch.zeros(4096, 1))
        return sample.chosen[4096]

    assert chosen(1) == chosen(1)
    assert len({tuple(chosen(seed)) for seed in range(8)}) > 4


@pytest.mark.parametrize("rows", [0, -128, 100, 129])
def test_other_numbers_of_rows_are_refused(rows: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"rows={rows}; it has to be a multiple of 128, or None"):
        Capture(model(), tmp_path, rows=rows)


# When, and what remains in the model.


def test_hooks_are_there_only_while_a_step_is_captured(tmp_path: Path) -> None:
    trained = model()
    kinds = ("activation", "gradient", "weight_gradient")
    capture = every_step(trained, tmp_path, every=3, first_step=2, kinds=kinds, tokens_per_step=10)
    found = []
    for _ in range(6):
        found.append((capture.is_capturing, hooks_of(trained) > 0))
        train_step(trained)
        capture.step()
    capture.close()
    assert found == [(step % 3 == 0,) * 2 for step in range(2, 8)]
    assert hooks_of(trained) == 0
    assert {(ref.step, ref.tokens) for ref in numscope.scan(tmp_path)} == {(3, 30), (6, 60)}


def test_steps_can_be_given(tmp_path: Path) -> None:
    trained = model()
    with Capture(trained, tmp_path, steps=[4, 1]) as capture:
        for _ in range(6):
            train_step(trained)
            capture.step()
    assert names(tmp_path) == ["step_000001.safetensors", "step_000004.safetensors"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        found: dict[str, str] = file.metadata()
        return found


def test_an_exception_leaves_no_hooks_and_no_half_step(tmp_path: Path) -> None:
    trained = model()

    def interrupted() -> None:
        with Capture(trained, tmp_path, every=1) as capture:
            train_step(trained)
            capture.step()
            train_step(trained)
            assert hooks_of(trained)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert hooks_of(trained) == 0
    assert names(tmp_path) == ["step_000000.safetensors"]


def test_an_exception_leaves_no_hooks_without_with(tmp_path: Path) -> None:
    trained = model()

    def interrupted() -> None:
        capture = Capture(trained, tmp_path, every=1)
        train_step(trained)
        capture.step()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    gc.collect()
    assert hooks_of(trained) == 0
    assert names(tmp_path) == ["step_000000.safetensors"]


def test_a_step_that_failed_can_be_repeated(tmp_path: Path) -> None:
    trained = model()
    with every_step(trained, tmp_path) as capture:
        with pytest.raises(IndexError):
            trained(tokens(0) + 1000)
        loss_of(trained(tokens(1)), tokens(1))  # and no backward
        for matrix in trained.matrices.values():
            matrix.seen.clear()
        train_step(trained, microbatches=2)
        capture.step()
    assert_same(saved(tmp_path), seen(trained, microbatches=2))


def test_copies_of_a_model_are_not_captured(tmp_path: Path) -> None:
    trained = model()
    with every_step(trained, tmp_path) as capture:
        copies = [copy.deepcopy(trained), pickle.loads(pickle.dumps(trained))]  # noqa: S301
        train_step(trained)
        for each in copies:
            train_step(each, step=7)
        capture.step()
    assert_same(saved(tmp_path), seen(trained))


def test_the_end_of_a_capture_can_be_said_twice(tmp_path: Path) -> None:
    trained = model()
    capture = Capture(trained, tmp_path, every=1)
    capture.close()
    capture.close()
    train_step(trained)
    capture.step()
    assert not capture.is_capturing
    assert hooks_of(trained) == 0
    assert names(tmp_path) == []


# Which modules.


def chosen(capture: Capture) -> list[str]:
    capture.close()
    return [each.name for each in capture._session._plan.chosen]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"layers": [0, 2]}, ["layers.0.fc1", "layers.0.out", "layers.2.fc1", "layers.2.out"]),
        ({"layers": {1}, "modules": "fc1"}, ["layers.1.fc1"]),
        ({"modules": "*.out"}, ["layers.0.out", "layers.1.out", "layers.2.out"]),
        ({"modules": nn.LayerNorm, "layers": [1]}, ["layers.1.norm"]),
        ({"modules": ["head", nn.Embedding]}, ["embedding", "head"]),
        ({"modules": lambda name, each: name == "head" and each.out_features == 32}, ["head"]),
    ],
)
def test_modules_are_chosen(options: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    assert chosen(Capture(model(), tmp_path, **options)) == expected


def test_the_default_is_every_linear_layer(tmp_path: Path) -> None:
    assert chosen(Capture(model(depth=1), tmp_path)) == ["layers.0.fc1", "layers.0.out", "head"]


def test_layers_without_the_word_are_told_by_the_first_number(tmp_path: Path) -> None:
    trained = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)))
    with Capture(trained, tmp_path, every=1) as capture:
        trained(torch.ones(3, 4)).sum().backward()
        capture.step()
    assert [(ref.module, ref.layer) for ref in numscope.scan(tmp_path)][::2] == [
        ("0", 0),
        ("1.1", 1),
    ]


def test_nothing_to_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"no module of the model is captured in the layers \[7\]; nn.Linear are in the "
        r"layers \[0, 1, 2\], such as layers.0.fc1",
    ):
        Capture(model(), tmp_path, layers=[7])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every=0; it has to be 1 or more"),
        ({"kinds": ["output"]}, r"kinds=\['output'\]; allowed are activation, gradient, weight, "),
        ({"kinds": []}, r"kinds=\[\]; allowed are"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        Capture(model(), tmp_path, **options)


def test_inputs_and_outputs_may_be_nested_and_named(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, *, mask: Any, x: dict[str, torch.Tensor]) -> dict[str, Any]:
            del mask
            return {"none": None, "all": [x["x"].long(), self.fc(x["x"])]}

    trained = nn.ModuleDict({"odd": Odd()})
    x = torch.randn(5, 3)
    with Capture(trained, tmp_path, every=1, modules=Odd) as capture:
        trained["odd"](mask=torch.ones(5, dtype=torch.bool), x={"x": x})["all"][1].sum().backward()
        capture.step()
    found = saved(tmp_path)
    assert found["odd", "activation", 0, ""] == bits([x])[0]
    assert found["odd", "gradient", 0, ""] == bits([torch.ones(5, 3)])[0]


# What is in the files.


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    trained = model()
    with Capture(trained, tmp_path, steps=[3], layers=[0, 2], tokens_per_step=1000) as capture:
        for _ in range(4):
            train_step(trained, microbatches=2)
            capture.step()
    path = tmp_path / "step_000003.safetensors"
    layers = {f"layers.{layer}.{name}": layer for layer in (0, 2) for name in ("fc1", "out")}
    found = metadata(path)
    assert json.loads(found.pop("modules")) == layers
    assert found == {
        "writer": "numscope.capture",
        "version": numscope.__version__,
        "step": "3",
        "tokens": "3000",
        "rank": "0",
        "world_size": "1",
        "microbatches": "2",
    }
    assert set(load_file(path)) == {
        f"microbatch_{microbatch}.{name}.{kind}"
        for microbatch in (0, 1)
        for name in layers
        for kind in ("activation", "gradient")
    }


def test_scan_and_analyze_need_no_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = model()
    with Capture(trained, tmp_path / "dumps", every=1, tokens_per_step=64) as capture:
        for step in range(2):
            train_step(trained, step, microbatches=2)
            capture.step()
    assert run(["scan", str(tmp_path / "dumps")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "numscope.capture" in out
    assert "tokens" in out
    assert run(["analyze", str(tmp_path / "dumps"), "-o", str(tmp_path / "out"), "-q"]) == 0
    lines = (tmp_path / "out" / "layers.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 4 * 3  # steps, layers and the head, charts


# What goes wrong.


def test_a_hook_that_fails_ends_the_capture_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    trained = model()
    capture = Capture(trained, tmp_path, every=1)
    monkeypatch.setattr(Sample, "take", fail)
    train_step(trained)
    message = "training goes on: RuntimeError: out of memory"
    with pytest.warns(CaptureWarning, match=message) as warned:
        capture.step()
    assert warned[0].filename == __file__
    train_step(trained)
    capture.step()
    assert hooks_of(trained) == 0
    assert not capture.is_capturing
    assert names(tmp_path) == []


def test_warnings_that_are_errors_do_not_end_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    trained = model()
    capture = Capture(trained, tmp_path / "file", every=1)
    train_step(trained)
    capture.step()
    capture.close()
    said = f"cannot write {tmp_path / 'file' / 'step_000000.safetensors'}: Not a directory"
    assert said in caplog.text


@pytest.fixture
def most_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of all copies that there are at once, and the most of these so far."""
    held = [0, 0]
    copy_of = sampling._copy

    def free(size: int) -> None:
        held[0] -= size

    def watch(tensor: torch.Tensor) -> torch.Tensor:
        copied = copy_of(tensor)
        weakref.finalize(copied, free, copied.nbytes)
        held[0] += copied.nbytes
        held[1] = max(held)
        return copied

    monkeypatch.setattr(sampling, "_copy", watch)
    return held


@pytest.mark.parametrize("rows", [None, 128])
@pytest.mark.parametrize("reentrant", [None, False, True], ids=["", "checkpoint", "reentrant"])
@pytest.mark.parametrize("limit", [5000, 20_000, 50_000])
def test_more_than_the_memory_limit_is_left_out(
    limit: int, reentrant: bool | None, rows: int | None, tmp_path: Path, most_held: list[int]
) -> None:
    trained = model(reentrant=reentrant)
    capture = every_step(trained, tmp_path, memory_limit=limit, rows=rows)
    train_step(trained, microbatches=3)
    with pytest.warns(CaptureWarning, match=f"step 0: what did not fit into {limit} bytes, and"):
        capture.step()
    capture.close()
    found, expected = saved(tmp_path) if names(tmp_path) else {}, seen(trained, microbatches=3)
    assert len(found) < len(expected)
    assert {key: expected[key] for key in found} == found
    pairs = {(module, microbatch, slot) for module, _, microbatch, slot in found}
    assert len(found) == 2 * len(pairs), "a call is there with its gradient"
    size = sum(map(len, found.values()))
    assert limit - 10_000 < size <= limit
    repeated = 48 * 16 * 4 * 4 if reentrant else 0  # a call is known again by a copy of its input
    assert most_held[1] <= limit + repeated


@pytest.mark.parametrize("kind", ["weight", "weight_gradient"])
def test_weights_and_their_gradients_are_limited_too(
    kind: str, tmp_path: Path, most_held: list[int]
) -> None:
    trained = model()
    one = trained.layers[0].fc1.weight.nbytes
    limit = 3 * one + one // 2
    capture = every_step(trained, tmp_path, kinds=[kind], memory_limit=limit)
    train_step(trained, microbatches=2)
    with pytest.warns(CaptureWarning, match="did not fit into") as warned:
        capture.step()
    capture.close()
    assert len(warned) == 1
    found = saved(tmp_path)
    assert len(found) == 3
    for (module, *_), values in found.items():
        weight = trained.get_submodule(module).weight
        assert [values] == bits([weight if kind == "weight" else weight.grad])
    assert most_held[1] == 3 * one


def test_gradients_of_a_second_backward_pass_are_limited_too(
    tmp_path: Path, most_held: list[int]
) -> None:
    trained = model()
    batch = tokens(0)
    limit = 20_000
    capture = every_step(trained, tmp_path, layers=[1], memory_limit=limit)
    logits = trained(batch)
    for _ in range(4):
        trained.backward(logits.square().mean(), retain_graph=True)
    with pytest.warns(CaptureWarning, match="did not fit into"):
        capture.step()
    capture.close()
    assert limit - 10_000 < sum(map(len, saved(tmp_path).values())) <= limit
    assert most_held[1] <= limit


def test_modules_that_hooks_do_not_see_are_named(tmp_path: Path) -> None:
    trained = nn.ModuleDict({"mha": nn.MultiheadAttention(8, 2), "fc": nn.Linear(8, 8)})
    capture = Capture(trained, tmp_path, every=1)
    x = torch.randn(4, 1, 8)
    trained["fc"](trained["mha"](x, x, x)[0]).sum().backward()
    with pytest.warns(CaptureWarning, match="step 0: nothing was seen of mha.out_proj, 1 of 2"):
        capture.step()
    trained["fc"](x).sum().backward()
    capture.step()  # said once
    capture.close()


def test_gradients_that_do_not_come_are_said(tmp_path: Path) -> None:
    trained = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)})
    capture = Capture(trained, tmp_path, every=1)
    x = torch.randn(4, 8)
    (trained["a"](x).sum() + trained["b"](x).detach().sum()).backward()
    with pytest.warns(CaptureWarning, match="step 0: no gradient came to b"):
        capture.step()
    capture.close()


def test_the_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    trained = model(depth=17)
    names_of_script: dict[str, Any] = {
        "model": trained,
        "data": [tokens(0)],
        "loss_of": torch.mean,
        "optimizer": torch.optim.SGD(trained.parameters()),
    }
    monkeypatch.chdir(tmp_path)
    exec(block, names_of_script)  # noqa: S102 (our own words)
    names_of_script["capture"].close()
    found = {(ref.step, ref.tokens, ref.layer, ref.kind) for ref in numscope.scan("dumps")}
    assert found == {
        (0, 0, layer, kind) for layer in (0, 4, 8, 12, 16) for kind in ("activation", "gradient")
    }
