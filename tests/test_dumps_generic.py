"""Hand-written hooks: which names are understood, and what is left open."""

from __future__ import annotations

from typing import Any

import pytest

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers.generic import identify


def _place(path: str, key: str | None = None, **metadata: str) -> Place:
    *folders, stem = path.split("/")
    parts: tuple[str, ...] = tuple(key.split("/")) if key is not None else ()
    return Place((), tuple(folders), stem, stem, parts, metadata)


@pytest.mark.parametrize(
    ("key", "kind", "layer", "module"),
    [
        ("layers.4.mlp.fc1.activation", "activation", 4, "layers.4.mlp.fc1"),
        ("model.layers.4.mlp.fc1.gradient", "gradient", 4, "model.layers.4.mlp.fc1"),
        ("layers.4.grad_output", "gradient", 4, "layers.4"),
        ("layers.4.grad_input", "input_gradient", 4, "layers.4"),
        ("blocks.4.attn.qkv.input", "activation", 4, "blocks.4.attn.qkv"),
        ("blocks.4.attn.qkv.input.0", "activation", 4, "blocks.4.attn.qkv"),
        ("transformer.h.3.mlp.output", "output", 3, "transformer.h.3.mlp"),
        ("layers.12.x", "activation", 12, "layers.12"),
        ("layers.12.dy", "gradient", 12, "layers.12"),
        ("layers.12.dx", "input_gradient", 12, "layers.12"),
        ("layers.12.fc.weight", "weight", 12, "layers.12.fc"),
        ("layers.12.fc.weight.grad", "weight_gradient", 12, "layers.12.fc"),
        ("layers.12.fc.wgrad", "weight_gradient", 12, "layers.12.fc"),
        ("layers.12.fc.output.grad", "gradient", 12, "layers.12.fc"),
        ("layers.12.fc.input.grad", "input_gradient", 12, "layers.12.fc"),
        ("layer_7_mlp_activation", "activation", 7, "layer_7_mlp"),
        ("activations/layers.8.mlp.fc1", "activation", 8, "layers.8.mlp.fc1"),
        ("gradients/layers.8.mlp.fc1", "gradient", 8, "layers.8.mlp.fc1"),
        ("gradients/layers.8.mlp.fc1.weight", "weight_gradient", 8, "layers.8.mlp.fc1"),
        ("layers.8.mlp.fc1/grad_output", "gradient", 8, "layers.8.mlp.fc1"),
        ("layers.12.fc.activation_grad", "gradient", 12, "layers.12.fc"),
        ("layers.12.fc.weight.main_grad", "weight_gradient", 12, "layers.12.fc"),
        ("layers.12.grad_mlp_output", "gradient", 12, "layers.12.mlp"),
        ("layers.12.grad_mlp_input", "input_gradient", 12, "layers.12.mlp"),
        ("layers.12.attn_output", "output", 12, "layers.12.attn"),
        ("layers.12.mlp.hidden_states", "activation", 12, "layers.12.mlp"),
        ("layer12_fc1_dY", "gradient", 12, "layer12_fc1"),
        ("L12.fc1.act", "activation", 12, "L12.fc1"),
        ("blk.12.ffn_up.input", "activation", 12, "blk.12.ffn_up"),
        ("act.layers.12.fc1", "activation", 12, "layers.12.fc1"),
        ("grad_output_layers.12.fc1", "gradient", 12, "layers.12.fc1"),
        ("input__layers.12.fc1", "activation", 12, "layers.12.fc1"),
        ("gradients/layers.8.fc1.input", "input_gradient", 8, "layers.8.fc1"),
        ("gradients/layers.8.fc1.grad_input", "input_gradient", 8, "layers.8.fc1"),
        ("gradients/layers.8.fc1.output", "gradient", 8, "layers.8.fc1.output"),
        ("weights/layers.8.fc1.weight", "weight", 8, "layers.8.fc1"),
        ("activations/layers.8.mlp.act", "activation", 8, "layers.8.mlp.act"),
        ("input_layernorm.weight", "weight", None, "input_layernorm"),
        ("layers.8.mlp.fc_in", None, 8, "layers.8.mlp.fc_in"),
        ("layers.8.input_layernorm", None, 8, "layers.8.input_layernorm"),
        ("model.visual.blocks.3.attn.qkv.x", "activation", 3, "model.visual.blocks.3.attn.qkv"),
        ("layers.3.mlp.experts.5.w1.input", "activation", 3, "layers.3.mlp.experts.5.w1"),
        ("0.weight", "weight", None, "0"),
        ("lm_head.input", "activation", None, "lm_head"),
        ("layers.4.mlp.fc1", None, 4, "layers.4.mlp.fc1"),
        ("layers.4.mlp.proj_w", None, 4, "layers.4.mlp.proj_w"),
        ("loss", None, None, "loss"),
    ],
)
def test_keys(key: str, kind: str | None, layer: int | None, module: str) -> None:
    identity = identify(_place("step_000120", key))
    assert (identity.kind, identity.layer, identity.module) == (kind, layer, module)
    assert identity.step == 120


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "step_000720/layers.8.mlp.fc1.activation",
            {"step": 720, "layer": 8, "module": "layers.8.mlp.fc1", "kind": "activation"},
        ),
        (
            "gradients/iter_0000120/rank3/layers.8.mlp.fc1",
            {"step": 120, "rank": 3, "layer": 8, "module": "layers.8.mlp.fc1", "kind": "gradient"},
        ),
        (
            "global_step120/rank_3/mb0/layers.8.mlp.fc1.grad_output",
            {"step": 120, "rank": 3, "microbatch": 0, "module": "layers.8.mlp.fc1"},
        ),
        (
            "step-120/microbatch_1/layer_4/mlp.fc1/activation",
            {"step": 120, "microbatch": 1, "layer": 4, "module": "layer_4.mlp.fc1"},
        ),
        (
            "step_120_grads/layers.8.mlp.fc1",
            {"step": 120, "layer": 8, "module": "layers.8.mlp.fc1", "kind": "gradient"},
        ),
        (
            "outputs/run1/step_120/accum_step_1/gpu3/layers.8.mlp.fc1.x",
            {"step": 120, "microbatch": 1, "rank": 3, "layer": 8, "kind": "activation"},
        ),
        (
            "tokens_1000000/tp1/pp_rank_2/layers.8.mlp.fc1.input",
            {"tokens": 1000000, "shard": "tp1 pp_rank_2", "rank": None, "kind": "activation"},
        ),
        (
            "layers.8.mlp.fc1.activation.step480.rank001",
            {
                "step": 480,
                "rank": 1,
                "layer": 8,
                "module": "layers.8.mlp.fc1",
                "kind": "activation",
            },
        ),
    ],
)
def test_paths_of_bare_arrays(path: str, expected: dict[str, Any]) -> None:
    identity = identify(_place(path))
    assert {name: getattr(identity, name) for name in expected} == expected


def _identify(path: str, *key: str | int) -> Identity:
    *folders, stem = path.split("/")
    return identify(Place((), tuple(folders), stem, stem, key, {}))


@pytest.mark.parametrize("key", ["data", "tensor", "value", "arr_0"])
def test_a_key_that_says_nothing_leaves_the_word_to_the_file(key: str) -> None:
    found = _identify("step_1/layers.4.mlp.fc1.grad_output", key)
    assert (found.kind, found.layer, found.module) == ("gradient", 4, "layers.4.mlp.fc1")


def test_a_file_for_each_module_with_a_key_for_each_kind() -> None:
    found = _identify("step_1/layers.4.mlp.fc1", "grad_output")
    assert (found.kind, found.layer, found.module) == ("gradient", 4, "layers.4.mlp.fc1")


def test_without_a_layer_the_innermost_name_is_the_module() -> None:
    by_file = _identify("step_1/lm_head", "input")
    by_folder = _identify("step_1/q_proj/input")
    nothing = _identify("step_1", "input")
    assert [found.module for found in (by_file, by_folder, nothing)] == ["lm_head", "q_proj", ""]
    assert {found.kind for found in (by_file, by_folder, nothing)} == {"activation"}


def test_lists_of_inputs_and_lists_by_layer() -> None:
    first, second = (_identify("step_1", "layers.4.fc", "input", index) for index in (0, 1))
    assert (first.kind, first.module, first.slot) == ("activation", "layers.4.fc", "")
    assert (second.kind, second.module, second.slot) == ("activation", "layers.4.fc", "1")
    for by_layer in (
        _identify("step_1", "activations", 10),
        _identify("step_1/activations", 10),
        _identify("step_1_acts", "layers", 10),
    ):
        assert (by_layer.kind, by_layer.layer, by_layer.slot) == ("activation", 10, "")


def test_hooks_get_tuples() -> None:
    for found in (
        _identify("step_1/layers.4.fc.grad_output", 0),
        _identify("step_1", "layers.4.fc.grad_output", 0),
        _identify("step_1", "gradients", "layers.4.fc", 0),
        _identify("step_1", "layers.4.fc", "grad_output", 0),
    ):
        assert (found.kind, found.layer) == ("gradient", 4)
        assert (found.module, found.slot, found.step) == ("layers.4.fc", "", 1)


def test_numbers_that_nothing_says_the_meaning_of_keep_tensors_apart() -> None:
    found = [_identify(f"step_1/act_{number}") for number in (3, 4)]
    assert [(item.kind, item.layer, item.slot) for item in found] == [
        ("activation", None, "3"),
        ("activation", None, "4"),
    ]


def test_metadata_wins_over_the_path() -> None:
    place = _place("step_000120/rank3", "layers.0.input", step="7", tokens="3584", rank="1")
    identity = identify(place)
    assert (identity.step, identity.tokens, identity.rank) == (7, 3584, 1)


def test_a_bias_is_not_the_weight_beside_it() -> None:
    weight, bias = (identify(_place("x", f"layers.0.fc.{name}")) for name in ("weight", "bias"))
    assert weight.kind == bias.kind == "weight"
    assert (weight.slot, bias.slot) == ("", "bias")
