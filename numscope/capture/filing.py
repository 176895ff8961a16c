"""What a recording becomes on the disk: the name of its file, keys, and metadata.

The keys are those that `numscope.dumps.writers.capture` reads. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import distributed

from numscope import json_text
from numscope.capture.calls import Call
from numscope.capture.plan import Plan
from numscope.capture.recording import Recording
from numscope.capture.sampling import Kept
from numscope.capture.writing import StepFile
from numscope.dumps.refs import Kind
from numscope.dumps.writers.capture import WRITER, key_of
from numscope.version import __version__


class Named(NamedTuple):
    """A tensor and what its key says."""

    kind: Kind
    key: str
    kept: Kept


class Process(NamedTuple):
    """Which of the processes of a run this is."""

    rank: int
    world_size: int


def this_process() -> Process:
    """Rank and world size as torch.distributed has them; the only process if it is not in use."""
    if distributed.is_available() and distributed.is_initialized():
        return Process(int(distributed.get_rank()), int(distributed.get_world_size()))
    return Process(0, 1)


def step_file(recording: Recording, plan: Plan, step: int) -> StepFile | None:
    """The file of a step and of this rank, `None` if nothing was captured of what is wanted."""
    tensors = [each for each in _named(recording) if each.kind in plan.kinds]
    if not tensors:
        return None
    process = this_process()
    name = f"step_{step:06}" + (f"-rank_{process.rank}" if process.world_size > 1 else "")
    shards = {f"{name}.weight": shard for name, shard in recording.shards.items()}
    shards |= {each.key: each.kept.shard for each in tensors}
    microbatches = len(recording.microbatches())
    facts = {
        "writer": WRITER,
        "version": __version__,
        "step": step,
        "tokens": None if plan.tokens_per_step is None else step * plan.tokens_per_step,
        "rank": process.rank,
        "world_size": process.world_size,
        "microbatches": microbatches,
        "microbatch": 0 if microbatches == 1 else None,
        "modules": {each.name: each.layer for each in plan.chosen},
        "tied": {each.name: each.aliases for each in plan.chosen if each.aliases},
        "sampled_rows": plan.sample.chosen,
        "sharding": {key: shard for key, shard in shards.items() if shard},
        "autocast": ",".join(sorted(recording.autocast)),
    }
    return StepFile(
        path=plan.folder / f"{name}.safetensors",
        tensors={each.key: each.kept.values for each in tensors},
        metadata={name: _text(fact) for name, fact in facts.items() if fact not in (None, "", {})},
    )


def _text(fact: object) -> str:
    return json_text.text(fact) if isinstance(fact, dict) else str(fact)


def _named(recording: Recording) -> Iterator[Named]:
    """Everything that was captured."""
    microbatches = recording.microbatches()
    for index, calls_of in enumerate(microbatches):
        for module, calls in calls_of.items():
            for kind, number, kept in _numbered(calls):
                microbatch = index if len(microbatches) > 1 else None
                key = key_of(module, kind, number=number, microbatch=microbatch)
                yield Named(kind, key, kept)
    for name, kept in recording.weights.items():
        yield Named("weight", key_of(name, "weight"), kept)
    for name, kept in recording.weight_gradients.items():
        yield Named("weight_gradient", key_of(name, "weight_gradient"), kept)


def _numbered(calls: Sequence[Call]) -> Iterator[tuple[Kind, int, Kept]]:
    """The tensors of a module's calls: by the number of the call, further gradients behind them."""
    further = len(calls)
    for number, call in enumerate(calls):
        if call.activation:
            yield "activation", number, call.activation
        for kept in call.gradients[:1]:
            yield "gradient", number, kept
        for kept in call.gradients[1:]:
            yield "gradient", further, kept
            further += 1
