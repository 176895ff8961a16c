"""The layouts of tools: their names become one vocabulary, and what is not the same stays apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from numscope import dumps
from numscope.dumps.layouts import LAYOUTS, identify, layouts_with
from numscope.dumps.places import Place
from numscope.errors import UsageError
from tests.torch_files import Tensor, TorchFile, dictionary, file_of

if TYPE_CHECKING:
    from pathlib import Path

X = np.ones((2, 4), np.float32)


def _place(path: str, *key: str | int) -> Place:
    *folders, file_name = path.split("/")
    return Place((), tuple(folders), file_name.rsplit(".", 1)[0], file_name, key, {})


MEGATRON = "run/{}/iter_0000721/mp_rank_00_001.pth"
TENSOR_DUMPS = "logs/tensor_dumps/rank_3/"
MSPROBE = "step5/rank2/dump_tensor_data/"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (
            _place(
                MEGATRON.format("dgrads"), "model_chunk0", "decoder.layers.3.mlp.linear_fc1/output0"
            ),
            ("megatron", "gradient", 3, "decoder.layers.3.mlp.linear_fc1", 721, ""),
        ),
        (
            _place(
                MEGATRON.format("dgrads"), "model_chunk0", "decoder.layers.3.mlp.linear_fc1/input0"
            ),
            ("megatron", "input_gradient", 3, "decoder.layers.3.mlp.linear_fc1", 721, ""),
        ),
        (
            _place(
                MEGATRON.format("activations"),
                "model_chunk1",
                "decoder.layers.3.mlp.linear_fc2/input0",
            ),
            ("megatron", "activation", 3, "decoder.layers.3.mlp.linear_fc2", 721, ""),
        ),
        (
            _place(
                MEGATRON.format("activations"),
                "model_chunk0",
                "decoder.layers.3.mlp.linear_fc2/input1",
            ),
            ("megatron", None, 3, "decoder.layers.3.mlp.linear_fc2", 721, "input1"),
        ),
        (
            _place(
                MEGATRON.format("activations"),
                "model_chunk0",
                "decoder.layers.3.input_layernorm/input0",
            ),
            ("megatron", None, 3, "decoder.layers.3.input_layernorm", 721, "input0"),
        ),
        (
            _place(
                MEGATRON.format("wgrads"), "model_chunk0", "decoder.layers.3.mlp.linear_fc1.weight"
            ),
            ("megatron", "weight_gradient", 3, "decoder.layers.3.mlp.linear_fc1", 721, ""),
        ),
        (
            _place(
                MEGATRON.format("params"), "model_chunk0", "decoder.layers.3.mlp.linear_fc1.bias"
            ),
            ("megatron", "weight", 3, "decoder.layers.3.mlp.linear_fc1", 721, "bias"),
        ),
        (
            _place(MEGATRON.format("activations"), "model_chunk0", "mtp.layers.0.eh_proj/input0"),
            ("megatron", "activation", None, "mtp.layers.0.eh_proj", 721, ""),
        ),
        (
            _place(TENSOR_DUMPS + "iter_000120/model_layers_3_mlp_fc1_dgrad.pt", "high_precision"),
            ("transformer_engine", "input_gradient", 3, "model_layers_3_mlp_fc1", 120, ""),
        ),
        (
            _place(TENSOR_DUMPS + "model_layers_3_mlp_fc1_wgrad_iter_000120.pt", "high_precision"),
            ("transformer_engine", "weight_gradient", 3, "model_layers_3_mlp_fc1", 120, ""),
        ),
        (
            _place(TENSOR_DUMPS + "iter_000120/model_layers_3_mlp_fc1_weight.pt", "quantized"),
            ("transformer_engine", None, 3, "model_layers_3_mlp_fc1", 120, "quantized"),
        ),
        (
            _place(MSPROBE + "Module.layers.8.mlp.fc1.Linear.backward.1.input.0.pt"),
            ("msprobe", "gradient", 8, "layers.8.mlp.fc1", 5, ""),
        ),
        (
            _place(MSPROBE + "Module.layers.8.mlp.fc1.Linear.backward.1.output.0.pt"),
            ("msprobe", "input_gradient", 8, "layers.8.mlp.fc1", 5, ""),
        ),
        (
            _place(
                MSPROBE
                + "Cell.layers.8.mlp.fc1.TELayerNormColumnParallelLinear.forward.0.input.0.npy"
            ),
            ("msprobe", "activation", 8, "layers.8.mlp.fc1", 5, "before norm"),
        ),
        (
            _place(MSPROBE + "Module.layers.8.ln1.LayerNorm.forward.0.input.0.pt"),
            ("msprobe", None, 8, "layers.8.ln1", 5, "forward input 0"),
        ),
        (
            _place(MSPROBE + "Module.layers.8.mlp.fc1.Linear.forward.0.parameters.weight.pt"),
            ("msprobe", "weight", 8, "layers.8.mlp.fc1", 5, ""),
        ),
        (
            _place(
                "d/step=7___rank=0___dump_index=1___name=grad__param__layers.2.fc1.weight.pt",
                "value",
            ),
            ("sglang", "weight_gradient", 2, "layers.2.fc1", 7, ""),
        ),
        (
            _place("d/forward_pass_id=7___rank=0___name=x___dump_index=3___layer_id=5.pt"),
            ("sglang", "activation", 5, "x", 7, ""),
        ),
        (
            _place("d/step=7___rank=0___name=grad__attn_output___dump_index=3.pt", "value"),
            ("sglang", "gradient", None, "attn_output", 7, ""),
        ),
        (
            _place("d/step=7___rank=0___name=mlp_input___dump_index=3___layer_id=2.pt", "value"),
            ("sglang", "activation", 2, "mlp", 7, ""),
        ),
        (
            _place("TP0_PP0_Rank3_pid77/Pass00012.pt", "model.layers.4.mlp.down_proj"),
            ("sglang_pass", "output", 4, "model.layers.4.mlp.down_proj", 12, ""),
        ),
        (
            _place("layers.8.mlp.fc1.bwd_dy.step480.rank000.pt", "tensor"),
            ("atorch", "gradient", 8, "layers.8.mlp.fc1", 480, ""),
        ),
        (
            _place("step_4/GPT2Model.h.3.attn.c_attn_inputs_args_0.safetensors", "data"),
            ("hugging_face", "activation", 3, "GPT2Model.h.3.attn.c_attn", 4, ""),
        ),
        (
            _place("step_4/cache.pt", "blocks.2.attn.hook_z"),
            ("transformer_lens", "activation", 2, "blocks.2.attn.hook_z", 4, ""),
        ),
        (
            _place("step_4/cache.pt", "blocks.2.hook_resid_post_grad"),
            ("transformer_lens", "gradient", 2, "blocks.2.hook_resid_post", 4, ""),
        ),
        (
            _place("step_4/cache.npz", "blocks.2.attn.hook_pattern"),
            ("transformer_lens", None, 2, "blocks.2.attn.hook_pattern", 4, ""),
        ),
        (
            _place("step_4/x.pt", "activations", "layers.8.fc1"),
            ("generic", "activation", 8, "layers.8.fc1", 4, ""),
        ),
    ],
)
def test_what_tools_write(place: Place, expected: tuple[Any, ...]) -> None:
    layout, found = identify(place)
    assert (layout, found.kind, found.layer, found.module, found.step, found.slot) == expected


def test_experts_ranks_and_microbatches() -> None:
    gemm = TENSOR_DUMPS + "iter_000120/model_layers_3_mlp_experts_gemm_7_activation.pt"
    _, te = identify(_place(gemm, "high_precision"))
    _, call = identify(_place(MSPROBE + "Module.layers.8.fc1.Linear.backward.1.input.0.pt"))
    _, miles = identify(
        _place("rollout_9/step=1___rank=4___name=grad__non_intrusive__l.fc1.output.pt")
    )
    assert (te.expert, te.rank) == (7, 3)
    assert (call.rank, call.microbatch) == (2, 1)
    assert (miles.step, miles.rank, miles.microbatch) == (9, 4, 1)


def test_every_layout_has_a_name_of_its_own_and_one_line_of_description() -> None:
    names = [layout.name for layout in LAYOUTS]
    assert len(set(names)) == len(names)
    assert all(layout.description and "\n" not in layout.description for layout in LAYOUTS)
    assert names[-1] == "generic"


def _save(root: Path, path: str, *keys: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".safetensors"):
        save_file(dict.fromkeys(keys, X), str(root / path))
    elif keys:
        (root / path).write_bytes(file_of(**dict.fromkeys(keys, Tensor(X))).zip_bytes())
    else:
        opcodes = Tensor(X).opcodes()
        (root / path).write_bytes(TorchFile(opcodes, {"0": X.tobytes()}).zip_bytes())


def test_functions_of_msprobe_belong_to_the_module_that_called_them(tmp_path: Path) -> None:
    names = ["Functional.linear.7", "Functional.linear.8", "Functional.gelu.3"]
    for name in names:
        _save(tmp_path, f"{MSPROBE}{name}.forward.input.0.pt")
    owners = {
        "Functional.linear.7.forward": "Module.layers.4.mlp.FusedMLP.forward.1",
        "Functional.linear.8.forward": ["Module.layers.4.mlp.fc2.Linear.forward.1", 0],
        "Functional.gelu.3.forward": "Module.layers.4.mlp.FusedMLP.forward.1",
    }
    (tmp_path / "step5/rank2/construct.json").write_text(json.dumps(owners))
    found = {ref.slot.split()[0]: ref for ref in dumps.scan(tmp_path)}
    linear, again, gelu = (found[name] for name in names)
    assert (linear.kind, linear.layer, linear.module) == ("activation", 4, "layers.4.mlp")
    assert (linear.microbatch, linear.step, linear.rank) == (1, 5, 2)
    # What a linear module gives to the linear function was dumped as the module's own input.
    assert (again.kind, again.layer, again.module) == (None, 4, "layers.4.mlp.fc2")
    assert gelu.kind is None


def test_functions_of_msprobe_without_an_owner_have_no_layer(tmp_path: Path) -> None:
    _save(tmp_path, f"{MSPROBE}Functional.linear.7.forward.input.0.pt")
    (ref,) = dumps.scan(tmp_path)
    assert (ref.kind, ref.layer, ref.microbatch) == ("activation", None, None)


def test_calls_of_msprobe_that_repeat_others_are_not_counted(tmp_path: Path) -> None:
    calls = {}
    for call in range(4):
        name = f"Module.layers.4.fc1.Linear.forward.{call}"
        _save(tmp_path, f"{MSPROBE}{name}.input.0.pt")
        calls[name] = {"is_recompute": call % 2 == 1}
    (tmp_path / "step5/rank2/dump.json").write_text(json.dumps({"data": calls}))
    found = [(ref.kind, ref.microbatch) for ref in dumps.scan(tmp_path)]
    assert found == [("activation", 0), (None, 1), ("activation", 1), (None, 2)]


def test_of_accumulated_sums_the_last_is_kept(tmp_path: Path) -> None:
    for call in range(3):
        _save(tmp_path, f"{MSPROBE}Module.layers.4.fc1.Linear.parameters_grad.{call}.weight.pt")
    scan = dumps.scan(tmp_path)
    assert [(ref.kind, ref.microbatch) for ref in scan] == [("weight_gradient", 2)]
    assert [ref.microbatch for ref in scan.left_out] == [0, 1]
    assert [(problem.failure, problem.message) for problem in scan.problems] == [
        (False, "sums over fewer micro-batches than the last one left out: 2")
    ]


def test_repeated_names_of_the_dumper_become_microbatches(tmp_path: Path) -> None:
    for index in (12, 3, 7):
        name = f"step=1___rank=0___dump_index={index}___name=non_intrusive__layers.4.fc1.inputs.0"
        _save(tmp_path, f"{name}.pt", "value")
    scan = dumps.scan(tmp_path)
    indices = {ref.path.split("dump_index=")[1].split("___")[0]: ref.microbatch for ref in scan}
    assert indices == {"3": 0, "7": 1, "12": 2}
    assert not scan.problems


def test_pipeline_stages_are_not_the_same_tensor(tmp_path: Path) -> None:
    for stage in range(2):
        path = f"dgrads/iter_0000001/mp_rank_00_00{stage}.pth"
        tensors = {"model_chunk0": {"decoder.layers.0.mlp.linear_fc1/output0": Tensor(X)}}
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(_nested(tensors))
    scan = dumps.scan(tmp_path)
    assert [(ref.layer, ref.stage) for ref in scan] == [(0, (0, 0)), (0, (1, 0))]
    assert "--layers-per-stage" in scan.problems[0].message
    counted = dumps.scan(tmp_path, layers_per_stage=9)
    assert [(ref.layer, ref.stage) for ref in counted] == [(0, None), (9, None)]
    assert not counted.problems


def test_how_many_stages_chunks_are_numbered_by_is_said(tmp_path: Path) -> None:
    for stage in range(2):
        path = f"dgrads/iter_0000001/mp_rank_00_00{stage}.pth"
        layer = {"decoder.layers.0.mlp.linear_fc1/output0": Tensor(X)}
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(_nested({"model_chunk0": layer, "model_chunk1": layer}))
    scan = dumps.scan(tmp_path, layers_per_stage=3)
    assert [ref.layer for ref in scan] == [0, 6, 3, 9]
    (problem,) = scan.problems
    assert not problem.failure
    assert "as if there were 2 pipeline stages" in problem.message


def _nested(tensors: dict[str, dict[str, Tensor]]) -> bytes:
    inner = {
        name: dictionary({key: tensor.opcodes() for key, tensor in group.items()})
        for name, group in tensors.items()
    }
    return TorchFile(dictionary(inner), {"0": X.tobytes()}).zip_bytes()


@pytest.mark.parametrize(
    ("pattern", "path", "key", "expected"),
    [
        ("{step}/L{layer}_{kind}.npy", "run/120/L4_grad_output.npy", (), ("gradient", 4, "", 120)),
        ("L{layer}_{kind}.npy", "iter_7/L4_act.npy", (), ("activation", 4, "", 7)),
        ("{module}.{layer}.{kind}", "step_3/x.pt", ("mixer.4.dy",), ("gradient", 4, "mixer", 3)),
        ("t{step}.pt:*/{layer}/{kind}", "t9.pt", ("a", 4, "x"), ("activation", 4, "", 9)),
        ("r{rank}/**/{kind}{layer}.pt", "r1/a/b/dx4.pt", (), ("input_gradient", 4, "", None)),
        ("{layer}_{kind}.npy", "4_loss.npy", (), (None, 4, "", None)),
    ],
)
def test_patterns(pattern: str, path: str, key: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    layout, found = identify(_place(path, *key), layouts_with(pattern))
    assert layout == "pattern"
    assert (found.kind, found.layer, found.module, found.step) == expected


def test_a_pattern_takes_the_place_of_the_generic_rule(tmp_path: Path) -> None:
    for path in ("L4_grad.safetensors", "layers.4.fc1.input.safetensors"):
        _save(tmp_path, path, "t")
    refs = dumps.scan(tmp_path, pattern="L{layer}_{kind}.safetensors:*").refs
    assert [(ref.layout, ref.kind, ref.layer) for ref in refs] == [
        ("pattern", "gradient", 4),
        ("none", None, None),
    ]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("L{layers}.npy", "unknown field {layers}"),
        ("{layer}/{layer}", "is twice"),
        ("layers", "no field"),
        ("", "no field"),
    ],
)
def test_patterns_that_cannot_be_meant(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dumps.scan(".", pattern=pattern)


def test_a_summary_counts_what_each_layout_named(tmp_path: Path) -> None:
    for step in range(3):
        _save(tmp_path, f"step_{step}.safetensors", "layers.0.fc.input", "layers.4.fc.grad_output")
    _save(tmp_path, "layers.8.mlp.fc1.fwd_x.step480.rank001.pt", "tensor")
    generic, atorch = dumps.summarize(dumps.scan(tmp_path))
    assert (generic.layout, generic.files, generic.tensors, generic.bytes) == ("generic", 3, 6, 192)
    assert (generic.layers, generic.steps, generic.ranks) == ((0, 4), (0, 1, 2), ())
    assert [(kind.kind, kind.tensors, kind.forms) for kind in generic.kinds] == [
        ("activation", 3, (((2, 4), "float32", 3),)),
        ("gradient", 3, (((2, 4), "float32", 3),)),
    ]
    assert (atorch.layout, atorch.layers, atorch.steps, atorch.ranks) == (
        "atorch",
        (8,),
        (480,),
        (1,),
    )
