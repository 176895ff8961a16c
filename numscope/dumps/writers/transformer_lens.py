"""Caches of TransformerLens: a dictionary by hook, such as `blocks.<L>.attn.hook_q`.

A hook is a point in the model, not a module; what passes it is its activation, and with `_grad`
behind the name the gradient.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place, stated_numbers
from numscope.dumps.writers.modules import expert_of, layer_of

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_NAME = re.compile(r"(?P<module>(?:.+\.)?hook_\w+?)(?P<gradient>_grad)?")
_NO_FEATURES = re.compile(r".*hook_(?:scale|pattern|attn_scores|rot_\w+|pos_embed)")
"""Points where the last dimension holds no features of a token."""


def identify(place: Place) -> Identity | None:
    """Say what a tensor of a TransformerLens cache is."""
    name = _NAME.fullmatch(place.key_names[-1] if place.key else place.stem)
    if name is None:
        return None
    module = name["module"]
    kind: Kind | None = None
    if not _NO_FEATURES.fullmatch(module):
        kind = "gradient" if name["gradient"] else "activation"
    return Identity(
        kind=kind,
        layer=layer_of(module),
        module=module,
        expert=expert_of(module),
        slot="" if kind else name["gradient"] or "",
        **stated_numbers(place),
    )
