"""The model debugger of Hugging Face transformers: `<Class>.<path>_<inputs_args_0|outputs>`.

One safetensors file for each tensor, with the key `data`; forward only. Every module is written, so
only those that multiply matrices within a layer get a kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place, stated_numbers
from numscope.dumps.writers.modules import expert_of, is_linear, layer_of

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_NAME = re.compile(
    r"(?P<module>[A-Z]\w*?(?:\..+?)?)_(?P<slot>inputs_(?:args|kwargs)_.+|outputs(?:_.+)?)"
)
_KINDS: dict[str, Kind] = {
    "inputs_args_0": "activation",
    "inputs_kwargs_input": "activation",
    "outputs": "output",
}


def identify(place: Place) -> Identity | None:
    """Say what a tensor of a Hugging Face debugger's dump is."""
    name = _NAME.fullmatch(place.stem)
    if name is None or place.key != ("data",):
        return None
    module, slot = name["module"], name["slot"]
    layer = layer_of(module)
    kind = _KINDS.get(slot) if is_linear(module) and layer is not None else None
    return Identity(
        kind=kind,
        layer=layer,
        module=module,
        expert=expert_of(module),
        slot="" if kind else slot,
        **stated_numbers(place),
    )
