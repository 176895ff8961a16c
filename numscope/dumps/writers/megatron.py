"""Megatron-LM's own dumps: `<label>/iter_<iteration>/mp_rank_<ranks>.pth`.

The layers of a key count within one pipeline stage and model chunk, which `Identity.stage` tells.
The same module of another model-parallel rank is another tensor, which `Identity.shard` tells.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers.modules import expert_of, layer_of, may_be_linear

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_FILE = re.compile(r"mp_rank_(?P<tensor>\d{2})(?:_(?P<pipeline>\d{3}))?(?:_\d{3})?")
_ITERATION = re.compile(r"iter_(\d{7,18})")
_CHUNK = re.compile(r"model_chunk(\d{1,9})")

_KINDS: dict[tuple[str, str], Kind] = {
    ("activations", "input0"): "activation",
    ("activations", "output0"): "output",
    ("dgrads", "output0"): "gradient",
    ("dgrads", "input0"): "input_gradient",
}
"""By folder and by the last part of the key: gradients of the output are called output0."""

_PARAMETERS: dict[str, Kind] = {"wgrads": "weight_gradient", "params": "weight"}


def identify(place: Place) -> Identity | None:
    """Say what a tensor of a Megatron-LM dump is."""
    file = _FILE.fullmatch(place.stem)
    if file is None or len(place.path) < 2 or len(place.key) != 2:
        return None
    label, iteration = place.path[-2], _ITERATION.fullmatch(place.path[-1])
    chunk = _CHUNK.fullmatch(place.key_names[0])
    if iteration is None or chunk is None:
        return None
    name = place.key_names[1]
    kind: Kind | None
    if label in _PARAMETERS:
        module, _, slot = name.rpartition(".")
        kind = _PARAMETERS[label]
        slot = "" if slot == "weight" else slot
    elif label in ("activations", "dgrads"):
        module, _, slot = name.rpartition("/")
        kind = _KINDS.get((label, slot)) if may_be_linear(module) else None
        slot = "" if kind else slot
    else:
        return None
    return Identity(
        kind=kind,
        layer=layer_of(module),
        module=module,
        step=int(iteration[1]),
        expert=expert_of(module),
        slot=slot,
        shard=_shard(place.stem, int(chunk[1])),
        stage=(int(file["pipeline"] or 0), int(chunk[1])),
    )


def _shard(stem: str, chunk: int) -> str:
    return f"{stem}/model_chunk{chunk}" if chunk else stem
