"""What can only be said of a tensor when all others are known.

Layers of a pipeline stage become those of the model, repeated names become micro-batches, sums over
micro-batches give way to the last one, a step has one number of tokens, and of two tensors with one
identity the first is kept. Nothing here opens a file or looks at a name.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from numscope import amounts
from numscope.dumps.refs import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numscope.dumps.places import Identity
    from numscope.dumps.refs import TensorRef

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Numbering:
    """How layers are to be counted.

    Attributes
    ----------
    layers_per_stage
        How many layers each pipeline stage (and model chunk) holds, to count through the model.
    layer_offset
        What is added to every layer, by layout or (under the name "") for all.
    """

    layers_per_stage: int | None = None
    layer_offset: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Settled:
    """Tensors to go on with, those left out, and what is to be said about it."""

    refs: list[TensorRef]
    left_out: list[TensorRef]
    problems: list[Problem]


def settle(found: Sequence[tuple[TensorRef, Identity]], numbering: Numbering) -> Settled:
    """Settle what every tensor is.

    Parameters
    ----------
    found
        All tensors in the order in which they were found.
    numbering
        How the user wants layers to be counted.
    """
    settled = Settled([], [], [])
    refs = _number_microbatches(found)
    refs = _count_layers(refs, numbering, settled)
    refs = _agree_on_tokens(refs, settled)
    sums = {id(ref) for ref in _superseded(refs, found)}
    first: dict[tuple[object, ...], TensorRef] = {}
    for ref in refs:
        if id(ref) in sums:
            settled.left_out.append(ref)
        elif ref.kind is None or first.setdefault(ref.identity, ref) is ref:
            settled.refs.append(ref)
        else:
            settled.left_out.append(ref)
            settled.problems.append(Problem(ref.name, _same_again(ref, first[ref.identity].name)))
    if sums:
        where = next(ref.path for ref in settled.left_out if id(ref) in sums)
        message = f"sums over fewer micro-batches than the last one left out: {len(sums)}"
        settled.problems.append(Problem(where, message, failure=False))
    return settled


def _same_again(ref: TensorRef, first: str) -> str:
    """Say that a tensor is left out, and what can be done about it."""
    advice = "move one of the two away"
    if ref.step is None:
        advice += ", or say with --pattern where the step stands in their names"
    facts = [
        "no step is named" if ref.step is None else f"step {ref.step}",
        *([] if ref.layer is None else [f"layer {ref.layer}"]),
        " ".join(filter(None, (ref.module, ref.kind))),
    ]
    return f"is the same tensor as {first} ({', '.join(facts)}); left out: {advice}"


def _number_microbatches(found: Sequence[tuple[TensorRef, Identity]]) -> list[TensorRef]:
    """Make the occurrences of a name within a step its micro-batches, in their order."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, (ref, identity) in enumerate(found):
        if identity.occurrence is not None:
            groups[ref.identity].append(index)
    refs = [ref for ref, _ in found]
    for indices in groups.values():
        if len(indices) > 1:
            indices.sort(key=lambda index: found[index][1].occurrence or 0)
            for number, index in enumerate(indices):
                refs[index] = replace(refs[index], microbatch=number)
    return refs


def _count_layers(refs: list[TensorRef], numbering: Numbering, settled: Settled) -> list[TensorRef]:
    """Count layers through the model, as far as the user says how."""
    stages: dict[str, int] = defaultdict(int)
    for ref in refs:
        if ref.stage is not None:
            stages[ref.layout] = max(stages[ref.layout], ref.stage[0] + 1)
    if numbering.layers_per_stage is not None:
        chunked = next((ref for ref in refs if ref.stage and ref.stage[1]), None)
        if chunked is not None:
            message = _CHUNKED.format(stages[chunked.layout])
            settled.problems.append(Problem(chunked.path, message, failure=False))
    else:
        local = next((ref for ref in refs if ref.stage and ref.stage != (0, 0)), None)
        if local is not None:
            settled.problems.append(Problem(local.path, _LOCAL, failure=False))
    if numbering.layers_per_stage is None and not any(numbering.layer_offset.values()):
        return refs
    counted = [_renumber(ref, numbering, stages[ref.layout]) for ref in refs]
    settled.problems.extend(_without_effect(refs, numbering))
    settled.problems.extend(_below_zero(refs, counted))
    return counted


def _without_effect(refs: Sequence[TensorRef], numbering: Numbering) -> Iterator[Problem]:
    """A remark for each layout with an offset that no tensor is of, and for stages if none is."""
    if numbering.layers_per_stage is not None and refs and not any(ref.stage for ref in refs):
        message = "--layers-per-stage changes nothing: no file or tensor names a pipeline stage"
        yield Problem(refs[0].path, message, failure=False)
    present = {ref.layout for ref in refs}
    for layout in numbering.layer_offset:
        if layout and layout not in present and refs:
            message = (
                f"--layer-offset {layout}=… changes nothing: no tensor is of that layout, but of "
                f"{', '.join(sorted(present))}"
            )
            yield Problem(refs[0].path, message, failure=False)


def _below_zero(before: Sequence[TensorRef], after: Sequence[TensorRef]) -> Iterator[Problem]:
    """A remark, if there are tensors that have lost their layer."""
    lost = [
        one
        for one, other in zip(before, after, strict=True)
        if one.layer is not None and other.layer is None
    ]
    if lost:
        layers = sorted({ref.layer for ref in lost if ref.layer is not None})
        shown = ", ".join(map(str, layers[:_SHOWN])) + (" …" if len(layers) > _SHOWN else "")
        message = (
            f"--layer-offset puts below 0 what the dump calls layer {shown}; it is in no chart"
        )
        yield Problem(lost[0].path, message, failure=False)


_LOCAL = (
    "layers count anew in each pipeline stage, so different layers have the same number; "
    "--layers-per-stage N makes them those of the model"
)
_CHUNKED = (
    "layers of interleaved model chunks are numbered as if there were {} pipeline stages, which is "
    "how many the dump names; if the files of the last ones are missing, these layers are wrong"
)


def _renumber(ref: TensorRef, numbering: Numbering, stages: int) -> TensorRef:
    if ref.layer is None:
        return ref
    layer, stage = ref.layer, ref.stage
    if stage is not None and numbering.layers_per_stage is not None:
        layer += (stage[1] * stages + stage[0]) * numbering.layers_per_stage
        stage = None
    offsets = numbering.layer_offset
    layer += offsets.get(ref.layout, offsets.get("", 0))
    return replace(ref, layer=layer if layer >= 0 else None, stage=stage)


def _agree_on_tokens(refs: list[TensorRef], settled: Settled) -> list[TensorRef]:
    """Give all tensors of a step the tokens that the first of them has, if any has."""
    stated: dict[int, TensorRef] = {}
    others: dict[int, TensorRef] = {}
    for ref in refs:
        if ref.step is None or ref.tokens is None:
            continue
        if stated.setdefault(ref.step, ref).tokens != ref.tokens:
            others.setdefault(ref.step, ref)
    if others:
        step, other = next(iter(others.items()))
        more = len(others) - 1
        tail = f", and so at {amounts.counted(more, 'more step')}" if more else ""
        message = (
            f"says that step {step} is at {other.tokens} tokens, and {stated[step].path} that it "
            f"is at {stated[step].tokens}, which is taken{tail}"
        )
        settled.problems.append(Problem(other.path, message, failure=False))
    tokens = {step: ref.tokens for step, ref in stated.items()}
    return [
        replace(ref, tokens=tokens[ref.step])
        if ref.step in tokens and ref.tokens != tokens[ref.step]
        else ref
        for ref in refs
    ]


def _superseded(
    refs: list[TensorRef], found: Sequence[tuple[TensorRef, Identity]]
) -> list[TensorRef]:
    """Find the sums over micro-batches that a later sum contains."""
    sums: dict[tuple[object, ...], list[TensorRef]] = defaultdict(list)
    for ref, (_, identity) in zip(refs, found, strict=True):
        if identity.is_accumulated:
            sums[replace(ref, microbatch=None).identity].append(ref)
    last = {key: max(ref.microbatch or 0 for ref in group) for key, group in sums.items()}
    return [
        ref for key, group in sums.items() for ref in group if (ref.microbatch or 0) < last[key]
    ]
