"""Numscope's own capture: `[microbatch_<m>.]<module>.<kind>[.<n>]`, told by the file's metadata.

The writer's side of the names is here, too, so that they are said once. Unlike the words of
hand-written hooks these cannot be mistaken: a module may be called `out`, `input` or `weight`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from numscope.dumps.places import Identity, Place, stated_numbers
from numscope.dumps.refs import KINDS
from numscope.dumps.writers.modules import expert_of, layer_of

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

WRITER = "numscope.capture"
"""What stands under `writer` in the metadata of such a file."""

_KEY = re.compile(
    rf"(?:microbatch_(?P<microbatch>\d{{1,9}})\.)?(?P<module>.+)\.(?P<kind>{'|'.join(KINDS)})"
    r"(?:\.(?P<number>\d{1,9}))?"
)
_KIND_OF: dict[str, Kind] = {kind: kind for kind in KINDS}


def key_of(module: str, kind: Kind, *, number: int = 0, microbatch: int | None = None) -> str:
    """The key of a tensor.

    Parameters
    ----------
    number
        0 for the first tensor of the kind that the module has in the micro-batch, and so on.
    microbatch
        `None` where the step has only one.

    Examples
    --------
    >>> key_of("layers.4.mlp.fc1", "gradient")
    'layers.4.mlp.fc1.gradient'
    >>> key_of("layers.4.mlp.fc1", "gradient", number=1, microbatch=3)
    'microbatch_3.layers.4.mlp.fc1.gradient.1'
    """
    start = "" if microbatch is None else f"microbatch_{microbatch}."
    end = f".{number}" if number else ""
    return f"{start}{module}.{kind}{end}"


def identify(place: Place) -> Identity | None:
    """Say what a tensor of a file that `numscope.capture` wrote is."""
    if place.metadata.get("writer") != WRITER or len(place.key) != 1:
        return None
    key = str(place.key[0])
    name = _KEY.fullmatch(key)
    if name is None:
        return Identity()
    module, microbatch = name["module"], name["microbatch"]
    numbers = stated_numbers(place)
    layers = _object(place.metadata.get("modules", ""))
    layer = layers.get(module, layer_of(module))
    shard = _object(place.metadata.get("sharding", "")).get(key, "")
    return Identity(
        kind=_KIND_OF[name["kind"]],
        layer=layer if isinstance(layer, int) and layer >= 0 else None,
        module=module,
        expert=expert_of(module),
        slot=name["number"] or "",
        shard=shard if isinstance(shard, str) else "",
        **{**numbers, **({"microbatch": int(microbatch)} if microbatch else {})},
    )


@lru_cache(maxsize=16)  # the same for all tensors of a file
def _object(text: str) -> dict[str, Any]:
    """The JSON object in a line of metadata; an empty one if there is none."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
