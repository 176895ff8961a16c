"""Ascend's msprobe: `step<N>/<rank<R>|proc<pid>>/dump_tensor_data/<name>.pt`, one tensor each.

At level L0 a name is that of a module, and the call counts micro-batches. At level L1 it is that of
a function, whose calls count everything; the module that called it is in construct.json. Both may
be there. A backward *input* is the gradient of a module's output.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from numscope.dumps.places import Identity, Place
from numscope.dumps.writers.modules import expert_of, layer_of

if TYPE_CHECKING:
    from numscope.dumps.refs import Kind

FOLDER = "dump_tensor_data"

_STEP = re.compile(r"step(\d{1,18})")
_RANK = re.compile(r"rank(\d{1,9})")
_MODULE = re.compile(
    r"(?:Module|Cell)\.(?P<module>.+)\.(?P<class>\w+)\.(?:"
    r"(?P<direction>forward|backward)\.(?P<call>\d{1,9})\.(?P<side>input|output|kwargs|parameters)"
    r"(?:\.(?P<slot>.+))?|parameters_grad\.(?P<count>\d{1,9})\.(?P<parameter>.+))"
)
_FUNCTION = re.compile(
    r"(?P<name>(?P<prefix>[A-Z]\w*)\.(?P<function>\w+)\.\d{1,9})\."
    r"(?P<direction>forward|backward)\.(?P<side>input|output|kwargs)(?:\.(?P<slot>.+))?"
)
_OWNER = re.compile(
    r"(?:Module|Cell)\.(?P<module>.+)\.(?P<class>\w+)\.(?:forward|backward)\.(?P<call>\d{1,9})"
)
_SAVED = re.compile(
    r"(?P<module>.+?)(?P<gradient>_grad)?\.(?P<count>\d{1,9})\.debug(?:\.(?P<slot>.+))?"
)
_RECOMPUTE = re.compile(rb'"is_recompute":\s*true')
_MOST_CALLS = 10_000
_LINEAR_CLASS = re.compile(r".*Linear.*|Dense|Conv1D|.*LMHead")

_KINDS: dict[tuple[str, str, str], Kind] = {
    ("forward", "input", "0"): "activation",
    ("forward", "output", "0"): "output",
    ("forward", "parameters", "weight"): "weight",
    ("backward", "input", "0"): "gradient",
    ("backward", "output", "0"): "input_gradient",
}
_FUNCTION_KINDS: dict[tuple[str, str, str], Kind] = {
    **_KINDS,
    ("forward", "input", "1"): "weight",
    ("backward", "output", "1"): "weight_gradient",
}


def identify(place: Place) -> Identity | None:
    """Say what a tensor of an msprobe dump is."""
    if FOLDER not in place.path or place.key:
        return None
    levels = place.path[::-1].index(FOLDER) + 1
    above = place.path[:-levels]
    steps = [match for part in above[-2:] if (match := _STEP.fullmatch(part))]
    ranks = [match for part in above[-1:] if (match := _RANK.fullmatch(part))]
    found = _of_module(place, levels) or _of_function(place, levels) or _of_variable(place)
    return replace(
        found or Identity(module=place.stem),
        step=int(steps[-1][1]) if steps else None,
        rank=int(ranks[-1][1]) if ranks else None,
    )


def _of_module(place: Place, levels: int) -> Identity | None:
    """Level L0: a module's inputs, outputs, parameters and their gradients."""
    match = _MODULE.fullmatch(place.stem)
    if match is None:
        return None
    module, is_linear = match["module"], _LINEAR_CLASS.fullmatch(match["class"]) is not None
    if match["parameter"]:
        is_weight = match["parameter"] == "weight"
        return Identity(
            kind="weight_gradient" if is_linear else None,
            layer=layer_of(module),
            module=module,
            microbatch=int(match["count"]),
            expert=expert_of(module),
            slot="" if is_weight else match["parameter"],
            is_accumulated=True,
        )
    direction, side, slot = match["direction"], match["side"], match["slot"] or "0"
    kind = _KINDS.get((direction, side, slot)) if is_linear else None
    call, is_repeated = int(match["call"]), False
    if direction == "forward" and side != "parameters":
        call, is_repeated = _without_recomputation(place, levels, call)
    if is_repeated or kind is None:
        kind, slot = None, f"{direction} {side} {slot}" + " recomputed" * is_repeated
    elif "Norm" in match["class"] and kind in ("activation", "input_gradient"):
        slot = "before norm"  # not what the kernels quantize: that comes after the norm
    else:
        slot = ""
    return Identity(
        kind=kind,
        layer=layer_of(module),
        module=module,
        microbatch=call,
        expert=expert_of(module),
        slot=slot,
    )


def _without_recomputation(place: Place, levels: int, call: int) -> tuple[int, bool]:
    """Count forward calls as if none was repeated in the backward pass; say if this one was."""
    calls = place.read_json(levels, "dump.json", _RECOMPUTE).get("data")
    if not isinstance(calls, dict):
        return call, False
    operation = place.stem[: place.stem.index(".forward.") + len(".forward.")]
    repeated = [
        isinstance(entry := calls.get(f"{operation}{number}"), dict) and entry.get("is_recompute")
        for number in range(min(call, _MOST_CALLS) + 1)
    ]
    return call - sum(map(bool, repeated[:-1])), bool(repeated[-1])


def _of_function(place: Place, levels: int) -> Identity | None:
    """Level L1: what went into and came out of a function, as part of the module that called it."""
    match = _FUNCTION.fullmatch(place.stem)
    if match is None:
        return None
    construct = place.read_json(levels, "construct.json", None)
    owner = construct.get(f"{match['name']}.{match['direction']}")
    owner = owner[0] if isinstance(owner, list) and owner else owner
    by = _OWNER.fullmatch(owner) if isinstance(owner, str) else None
    module = by["module"] if by else match["name"]
    # A linear module calls the linear function with what was dumped as the module's own.
    is_same_again = by is not None and _LINEAR_CLASS.fullmatch(by["class"]) is not None
    side = (match["direction"], match["side"], match["slot"] or "0")
    kind = None
    if match["function"] == "linear" and not is_same_again:
        kind = _FUNCTION_KINDS.get(side)
    return Identity(
        kind=kind,
        layer=layer_of(module) if by else None,
        module=module,
        microbatch=int(by["call"]) if by else None,
        expert=expert_of(module),
        slot=match["name"] if kind else f"{match['name']} {' '.join(side)}",
    )


def _of_variable(place: Place) -> Identity | None:
    """Take what a user saved by name: only of gradients it is said what they are."""
    match = _SAVED.fullmatch(place.stem)
    if match is None:
        return None
    return Identity(
        kind="gradient" if match["gradient"] else None,
        layer=layer_of(match["module"]),
        module=match["module"],
        microbatch=int(match["count"]),
        slot=match["slot"] or "",
    )
