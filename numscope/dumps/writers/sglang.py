"""The dumpers of sglang, also as Miles uses them: `<k=v joined by ___>.pt`, and whole passes.

With Miles the training step is in the folder `rollout_<id>` and `step=` counts micro-batches.
Elsewhere a name that occurs again within a step is the next micro-batch: `Identity.occurrence`
tells the order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers.generic import split_name
from numscope.dumps.writers.modules import expert_of, layer_of, may_be_linear

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

_ROLLOUT = re.compile(r"rollout_(\d{1,18})")
_MODULE = re.compile(r"(?P<module>.+)\.(?P<side>inputs|output)(?:\.(?P<slot>.+))?")
_PASS_FOLDER = re.compile(r"TP\d+_PP\d+_Rank(?P<rank>\d{1,9})_pid\d+")
_PASS = re.compile(r"Pass(\d{5,18})")

_KINDS: dict[tuple[bool, str], Kind] = {
    (False, "inputs"): "activation",
    (False, "output"): "output",
    (True, "output"): "gradient",
    (True, "inputs"): "input_gradient",
}
"""By whether it is a gradient, and of which side of a module."""


def identify(place: Place) -> Identity | None:
    """Say what a tensor of the dumper is, in its present or its older form."""
    fields = dict(part.partition("=")[::2] for part in place.stem.split("___"))
    if "name" not in fields or "rank" not in fields or place.key not in (("value",), ()):
        return None
    rollout = next(
        (match for part in place.path[::-1] if (match := _ROLLOUT.fullmatch(part))), None
    )
    counted = _number(fields.get("step", fields.get("forward_pass_id", "")))
    kind, module, slot = _name(fields["name"])
    is_parameter = kind in ("weight", "weight_gradient")
    is_repeated = fields.get("recompute_status") in ("recomputed", "recompute")
    return Identity(
        kind=None if is_repeated else kind,
        layer=_number(fields.get("layer_id", "")) if "layer_id" in fields else layer_of(module),
        module=module,
        step=int(rollout[1]) if rollout else counted,
        rank=_number(fields["rank"]),
        microbatch=counted if rollout and not is_parameter else None,
        expert=expert_of(module),
        slot="recomputed" if is_repeated else slot,
        occurrence=None if rollout else _number(fields.get("dump_index", "")),
    )


def _name(name: str) -> tuple[Kind | None, str, str]:
    """Take a name apart into kind, module and slot."""
    rest = name.removeprefix("grad__")
    is_gradient = rest != name
    if rest.startswith("param__"):
        module, _, slot = rest.removeprefix("param__").rpartition(".")
        kind: Kind = "weight_gradient" if is_gradient else "weight"
        return kind, module, "" if slot == "weight" else slot
    rest = rest.removeprefix("non_intrusive__")
    match = _MODULE.fullmatch(rest)
    if match is None:
        named = split_name(rest, "gradient" if is_gradient else None)
        return named.kind or "activation", named.module, named.slot
    is_first = match["slot"] in (None, "0")
    if not is_first or not may_be_linear(match["module"]):
        slot = ".".join(part for part in (match["side"], match["slot"]) if part)
        return None, match["module"], f"grad {slot}" if is_gradient else slot
    return _KINDS[is_gradient, match["side"]], match["module"], ""


def identify_pass(place: Place) -> Identity | None:
    """Say what a tensor of the debug tensor dump is: what modules gave in one forward pass."""
    folder = _PASS_FOLDER.fullmatch(place.path[-1]) if place.path else None
    file = _PASS.fullmatch(place.stem)
    if folder is None or file is None or not place.key:
        return None
    module, *slot = place.key_names
    return Identity(
        kind="output" if may_be_linear(module) and slot in ([], ["0"]) else None,
        layer=layer_of(module),
        module=module,
        step=int(file[1]),
        rank=int(folder["rank"]),
        expert=expert_of(module),
        slot="" if slot in ([], ["0"]) else "/".join(slot),
        shard=place.path[-1],
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
