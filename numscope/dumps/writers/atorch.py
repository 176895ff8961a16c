"""The TensorInspector of atorch: `<module>.<fwd_x|bwd_dy|...>.step<N>.rank<RRR>.pt`.

Each file holds a dictionary with `tensor`, and `scale` where the module ran in FP8.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers.modules import expert_of, layer_of

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_NAME = re.compile(
    r"(?P<module>.+)\.(?P<tensor>fwd_[xyw]|bwd_d[xyw])\.step(?P<step>\d{1,18})\.rank(?P<rank>\d{1,9})"
)

_KINDS: dict[str, Kind] = {
    "fwd_x": "activation",
    "fwd_y": "output",
    "fwd_w": "weight",
    "bwd_dy": "gradient",
    "bwd_dx": "input_gradient",
    "bwd_dw": "weight_gradient",
}


def identify(place: Place) -> Identity | None:
    """Say what a tensor of an atorch dump is."""
    name = _NAME.fullmatch(place.stem)
    if name is None:
        return None
    is_value = place.key in (("tensor",), ())
    return Identity(
        kind=_KINDS[name["tensor"]] if is_value else None,
        layer=layer_of(name["module"]),
        module=name["module"],
        step=int(name["step"]),
        rank=int(name["rank"]),
        expert=expert_of(name["module"]),
        slot="" if is_value else "/".join(place.key_names),
    )
