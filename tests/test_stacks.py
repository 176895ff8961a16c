"""Layers of different stacks are not merged silently."""

from __future__ import annotations

import pytest

from numscope.plans import FileWork
from numscope.stacks import merged
from tests.examples import ref


def _work(*modules: tuple[str, int], **same: str) -> list[FileWork]:
    """A file of these modules, each with its layer."""
    refs = [
        ref(key=(module,), module=module, layer=layer, **{"layout": "generic", **same})
        for module, layer in modules
    ]
    return [FileWork("dumps", "a.safetensors", tuple((each, ()) for each in refs))]


def _said(*modules: tuple[str, int]) -> list[str]:
    return [f"{each.where}: {each.message}" for each in merged(_work(*modules))]


def test_an_encoder_and_a_decoder_are_told_once() -> None:
    modules = [(f"{stack}.layers.{i}.fc1", i) for stack in ("encoder", "decoder") for i in range(4)]
    (said,) = _said(*modules, ("decoder.layers.4.fc1", 4))
    assert said == (
        "dumps: layers 0-3 of decoder.layers and of encoder.layers are merged in layers.csv and the"
        " charts, for they are numbered alike; --module decoder or --module encoder takes one of"
        " them"
    )


@pytest.mark.parametrize(
    ("modules", "options"),
    [
        # A word that stands in names of the other stack, too, would take both.
        (
            [
                "encoder.layers.0.fc1",
                "decoder.layers.0.fc1",
                "decoder.layers.0.encoder_attn.q_proj",
            ],
            "--module decoder or --module 'encoder.layers.*' takes one of them",
        ),
        (
            ["vision_model.encoder.layers.0.fc1", "text_model.encoder.layers.0.fc1"],
            "--module text_model or --module vision_model takes one of them",
        ),
        (
            ["model.layers.0.mlp.up_proj", "visual.blocks.0.mlp.fc1"],
            "--module 'model.layers.*' or --module visual takes one of them",
        ),
        (
            ["encoder.block.0.layer.1.wi", "decoder.block.0.layer.1.wi"],
            "--module decoder or --module encoder takes one of them",
        ),
    ],
)
def test_the_options_take_one_stack_and_no_other(modules: list[str], options: str) -> None:
    (said,) = _said(*((module, 0) for module in modules))
    assert said.endswith(f"; {options}")


@pytest.mark.parametrize(
    "modules",
    [
        [("decoder.layers.0.fc1", 0), ("decoder.layers.0.encoder_attn.q_proj", 0)],
        [("encoder.layers.0.fc1", 0), ("decoder.layers.0.fc1", 12)],  # renumbered
        [("attns.layers.0.q", 0), ("mlps.layers.0.up", 0)],  # lists of parts
        [("fc1", 0), ("decoder.layers.0.fc1", 0)],
    ],
)
def test_one_stack_is_nothing_to_tell(modules: list[tuple[str, int]]) -> None:
    assert _said(*modules) == []


def test_what_is_not_merged_is_nothing_to_tell() -> None:
    activation = _work(("encoder.layers.0.fc1", 0), kind="activation")
    assert merged([*activation, *_work(("decoder.layers.0.fc1", 0), kind="gradient")]) == []
    other = _work(("decoder.layers.0.fc1", 0), kind="activation", layout="megatron")
    assert merged([*activation, *other]) == []
