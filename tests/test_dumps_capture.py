"""Names in files of `numscope.capture` cannot be mistaken, whatever modules are called."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from numscope import dumps
from numscope.dumps.refs import KINDS, Kind
from numscope.dumps.writers.capture import WRITER, key_of
from tests.examples import save_dump

X = np.ones((2, 4), np.float32)


def _refs(tmp_path: Any, keys: list[str], **metadata: str) -> list[dumps.TensorRef]:
    metadata = {"writer": WRITER, "step": "120", "tokens": "61440", "rank": "3", **metadata}
    save_dump(tmp_path / "step_000120-rank_3.safetensors", dict.fromkeys(keys, X), **metadata)
    scan = dumps.scan(tmp_path)
    assert not scan.problems
    return list(scan)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "module", ["layers.4.mlp.fc1", "blocks.4.attn.out", "h.4.input", "layers.4.weight", "h.4.w.1"]
)
@pytest.mark.parametrize(("number", "microbatch"), [(0, None), (2, None), (0, 1), (3, 12)])
def test_keys_read_back(
    module: str, kind: Kind, number: int, microbatch: int | None, tmp_path: Any
) -> None:
    (ref,) = _refs(tmp_path, [key_of(module, kind, number=number, microbatch=microbatch)])
    assert (ref.layout, ref.kind, ref.module, ref.layer) == ("numscope", kind, module, 4)
    assert (ref.slot, ref.microbatch) == (str(number) if number else "", microbatch)
    assert (ref.step, ref.tokens, ref.rank) == (120, 61440, 3)


def test_layers_are_those_of_the_metadata(tmp_path: Any) -> None:
    modules = json.dumps({"net.3.fc": 3, "layers.5.fc": 5, "head": None})
    keys = [f"{name}.activation" for name in ("net.3.fc", "layers.5.fc", "head", "layers.7.fc")]
    refs = _refs(tmp_path, keys, modules=modules, microbatch="0")
    found = {ref.module: (ref.layer, ref.microbatch) for ref in refs}
    assert found == {
        "net.3.fc": (3, 0),
        "layers.5.fc": (5, 0),
        "head": (None, 0),
        "layers.7.fc": (7, 0),
    }


def test_parts_of_distributed_tensors_are_named(tmp_path: Any) -> None:
    sharding = json.dumps({"layers.0.fc.weight": "S(0) 1 of 2"})
    refs = _refs(tmp_path, ["layers.0.fc.weight", "layers.0.fc.gradient"], sharding=sharding)
    assert {ref.kind: ref.shard for ref in refs} == {"weight": "S(0) 1 of 2", "gradient": ""}


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"layers.4.fc": "x"}', "[" * 100_000])
def test_metadata_that_is_damaged_is_not_believed(text: str, tmp_path: Any) -> None:
    (ref,) = _refs(tmp_path, ["layers.4.fc.gradient"], modules=text, sharding=text)
    assert (ref.kind, ref.module) == ("gradient", "layers.4.fc")
    assert ref.layer == (None if '"x"' in text else 4)


def test_other_keys_are_of_no_known_kind(tmp_path: Any) -> None:
    save_dump(tmp_path / "a.safetensors", {"layers.4.fc": X}, writer=WRITER)
    (ref,) = dumps.scan(tmp_path)
    assert (ref.layout, ref.kind) == ("numscope", None)


def test_the_words_alone_say_nearly_the_same(tmp_path: Any) -> None:
    key = key_of("layers.4.mlp.fc1", "gradient", number=1, microbatch=3)
    save_dump(tmp_path / "step_000120-rank_3.safetensors", {key: X})
    (ref,) = dumps.scan(tmp_path)
    assert (ref.layout, ref.kind, ref.module) == ("generic", "gradient", "layers.4.mlp.fc1")
    assert (ref.step, ref.rank, ref.microbatch, ref.slot) == (120, 3, 3, "1")
