"""Transformer Engine's DumpTensors: `tensor_dumps/rank_<R>/iter_<N>/<layer>_<tensor>.pt`.

An earlier release wrote `tensor_dumps/rank_<R>/<layer>_<tensor>_iter_<N>.pt`. Dots of a name have
become underscores and cannot be told apart again, so the module is given as it is written. Layers
count from 1 in Megatron's models.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_RANK = re.compile(r"rank_(\d{1,9})")
_ITERATION = re.compile(r"iter_(\d{6,18})")
_NAME = re.compile(
    r"(?P<module>.+)_(?P<tensor>activation|gradient|weight|output|wgrad|dgrad)"
    r"(?:_iter_(?P<iteration>\d{6,18}))?"
)
_LAYER = re.compile(r"(?:^|_)(?:layers?|blocks?|h)_(\d{1,9})(?=_|$)", re.IGNORECASE)
_EXPERT = re.compile(r"_gemm_(\d{1,9})$")

_KINDS: dict[str, Kind] = {
    "activation": "activation",
    "gradient": "gradient",
    "weight": "weight",
    "output": "output",
    "wgrad": "weight_gradient",
    "dgrad": "input_gradient",
}


def identify(place: Place) -> Identity | None:
    """Say what a tensor of a Transformer Engine dump is."""
    name = _NAME.fullmatch(place.stem)
    if name is None or "tensor_dumps" not in place.path:
        return None
    below = place.path[len(place.path) - place.path[::-1].index("tensor_dumps") :]
    rank = _RANK.fullmatch(below[0]) if below else None
    iteration = name["iteration"]
    if iteration is None and len(below) > 1:
        match = _ITERATION.fullmatch(below[1])
        iteration = match[1] if match else None
    if rank is None or iteration is None:
        return None
    module = name["module"]
    layer, expert = _LAYER.search(module), _EXPERT.search(module)
    is_value = place.key in (("high_precision",), ())
    return Identity(
        kind=_KINDS[name["tensor"]] if is_value else None,
        layer=int(layer[1]) if layer else None,
        module=module,
        step=int(iteration),
        rank=int(rank[1]),
        expert=int(expert[1]) if expert else None,
        slot="" if is_value else "/".join(place.key_names),
    )
