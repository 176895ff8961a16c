"""One captured step: hooks on the chosen modules, and copies of what passes through them.

Hooks only look: they change no tensor, keep no graph, and raise nothing into the training loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn

from numscope.capture.choosing import Chosen
from numscope.capture.hooks import Hook, is_in_backward, is_same, tensors
from numscope.capture.sampling import Kept, Sample, shard_of, take_all
from numscope.capture.writing import DTYPES
from numscope.dumps.refs import Kind


@dataclass(slots=True)
class Call:
    """One call of a module in a forward pass.

    Attributes
    ----------
    activation
        Its input; `None` if it is not wanted, and not needed either to know the call again.
    gradients
        With respect to its output: one, or one for each backward pass through the same graph; none
        if they are not wanted.
    has_gradient
        Whether there was one, wanted or not.
    is_awaiting
        Whether its output is watched for them. It is not yet while only a pass without gradients
        was seen, which activation checkpointing repeats with gradients.
    """

    activation: Kept | None = None
    gradients: list[Kept] = field(default_factory=list)
    has_gradient: bool = False
    is_awaiting: bool = False


Microbatch: TypeAlias = dict[str, list[Call]]
"""The calls of each module, by its name, in their order."""


class Recording:
    """Hooks that are in place until `stop`, and what they saw.

    A micro-batch is a call of the model, or, where modules are called without it, what runs between
    one backward pass and the next.

    Parameters
    ----------
    model
        Without wrappers; its calls are counted.
    chosen
        The modules that are captured.
    sample
        Which rows of activations and gradients are.
    limit
        Bytes of the CPU's memory from which on no further call is captured.
    kinds
        What is captured; nothing else is copied, but for inputs while they are needed to know a
        call again that activation checkpointing repeats.

    Attributes
    ----------
    weights
        By module: the weight that its first call saw.
    weight_gradients
        By module: the sum over the micro-batches so far.
    shards
        By module: which part of a distributed weight this rank has.
    autocast
        The types that autocast was to give to inputs.
    is_full
        Whether the limit was reached.
    failure
        Why nothing more was captured, `""` if all went well.
    """

    def __init__(
        self,
        model: nn.Module,
        chosen: Sequence[Chosen],
        sample: Sample,
        limit: int,
        kinds: Collection[Kind],
    ) -> None:
        self.weights: dict[str, Kept] = {}
        self.weight_gradients: dict[str, Kept] = {}
        self.shards: dict[str, str] = {}
        self.autocast: set[str] = set()
        self.is_full = False
        self.failure = ""
        self._chosen, self._sample, self._limit = chosen, sample, limit
        self._kinds = kinds
        self._microbatches: list[Microbatch] = []
        self._has_gradient = False  # since the last micro-batch began
        self._under_way: dict[str, list[Call | None]] = {each.name: [] for each in chosen}
        self._ran: set[str] = set()
        self._size = 0
        self._handles: list[Any] = []
        self._owners = _owners(chosen)
        self._put_hooks(model)
        if "weight_gradient" in kinds:
            self._put_weight_hooks()

    def _put_hooks(self, model: nn.Module) -> None:
        hook = Hook(self, Recording._on_model)
        self._handles.append(model.register_forward_pre_hook(hook))
        for each in self._chosen:
            before, after = (
                Hook(self, Recording._before, each),
                Hook(self, Recording._after, each),
            )
            self._handles += [
                each.module.register_forward_pre_hook(before, with_kwargs=True),
                each.module.register_forward_hook(after),
            ]

    def _put_weight_hooks(self) -> None:
        for name, (module, attribute) in self._owners.items():
            weight = getattr(module, attribute)
            if weight.requires_grad and weight.is_leaf:
                hook = Hook(self, Recording._on_weight_gradient, name)
                self._handles.append(weight.register_post_accumulate_grad_hook(hook))

    def stop(self) -> None:
        """Remove the hooks; what still arrives is not looked at."""
        self._limit = -1
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_over(self) -> bool:
        """Whether nothing is captured any more."""
        return self._limit < 0 or bool(self.failure)

    def microbatches(self) -> list[Microbatch]:
        """The calls of each micro-batch; without passes that had no gradients if others had some.

        Such passes are those of a validation within the step.
        """
        passes = [each for each in self._microbatches if each]
        return [each for each in passes if _has_gradient(each)] or passes

    def silent(self) -> list[str]:
        """The modules that were not called, as far as hooks can tell."""
        return [each.name for each in self._chosen if each.name not in self._ran]

    def bereft(self) -> list[str]:
        """The modules that got no gradient for an output which asked for one, where others did."""
        names = {
            name
            for each in filter(_has_gradient, self._microbatches)
            for name, calls in each.items()
            if any(call.is_awaiting and not call.has_gradient for call in calls)
        }
        return sorted(names)

    # What hooks do.

    def _on_model(self, _model: nn.Module, _inputs: object) -> None:
        if not is_in_backward():
            self._begin_microbatch()

    def _begin_microbatch(self) -> None:
        self._microbatches.append({})
        self._has_gradient = False

    def _before(
        self, chosen: Chosen, _module: nn.Module, inputs: object, named: Mapping[str, object]
    ) -> None:
        """Copy the input of a module that is about to run."""
        under_way = self._under_way[chosen.name]
        under_way.append(None)
        x = next(tensors([inputs, named]), None)
        if x is None:
            return
        if is_in_backward():
            under_way[-1] = self._repeated(chosen, x)
            return
        self._ran.add(chosen.name)
        if self._size >= self._limit:
            self.is_full = True
            return
        if not self._microbatches or self._has_gradient:
            self._begin_microbatch()
        call = Call()
        if "activation" in self._kinds or not torch.is_grad_enabled():
            call.activation = self._count(self._sample.take(x))
        self._microbatches[-1].setdefault(chosen.name, []).append(call)
        under_way[-1] = call
        if torch.is_autocast_enabled(x.device.type):
            self.autocast.add(str(torch.get_autocast_dtype(x.device.type)).removeprefix("torch."))
        self._look_at_weights(chosen)

    def _look_at_weights(self, chosen: Chosen) -> None:
        """Copy the weights that a module is about to use, once."""
        for name, (module, attribute) in self._owners.items():
            if module is chosen.module and name not in self.shards:
                weight = getattr(module, attribute)
                self.shards[name] = shard_of(weight)
                if "weight" in self._kinds:
                    self.weights[name] = self._count(take_all(weight))

    def _repeated(self, chosen: Chosen, x: torch.Tensor) -> Call | None:
        """The call that activation checkpointing repeats, if its output is not watched yet."""
        waiting = [
            call
            for each in self._microbatches
            for call in each.get(chosen.name, ())
            if not call.is_awaiting
        ]
        if len(waiting) < 2:
            return waiting[0] if waiting else None
        values = self._sample.take(x).values
        same = (
            call for call in waiting if call.activation and is_same(call.activation.values, values)
        )
        return next(same, waiting[-1])

    def _after(self, chosen: Chosen, _module: nn.Module, _inputs: object, output: object) -> None:
        """Watch the output of a module that has run for its gradient."""
        under_way = self._under_way[chosen.name]
        call = under_way.pop() if under_way else None
        y = next((each for each in tensors([output]) if each.requires_grad), None)
        if call is not None and y is not None and not call.is_awaiting:
            call.is_awaiting = True
            if "activation" not in self._kinds:
                self._forget_activation(call)
            y.register_hook(Hook(self, Recording._on_gradient, call))

    def _on_gradient(self, call: Call, gradient: torch.Tensor) -> None:
        self._has_gradient = call.has_gradient = True
        if "gradient" in self._kinds:
            call.gradients.append(self._count(self._sample.take(gradient)))

    def _on_weight_gradient(self, name: str, weight: torch.Tensor) -> None:
        if weight.grad is not None:
            self.weight_gradients[name] = take_all(weight.grad)

    def _forget_activation(self, call: Call) -> None:
        if call.activation:
            self._size -= call.activation.values.nbytes
            call.activation = None

    def _count(self, kept: Kept) -> Kept:
        self._size += kept.values.nbytes
        return kept


def _owners(chosen: Iterable[Chosen]) -> dict[str, tuple[nn.Module, str]]:
    """Where each weight is, by the name of its module; tied ones under their first name only.

    A matrix that is not called `weight` has a name of its own: `layers.0.experts.w1`.
    """
    owners: dict[str, tuple[nn.Module, str]] = {}
    seen: set[int] = set()
    for each in chosen:
        for attribute, weight in each.module.named_parameters(recurse=False):
            if weight.dim() > 1 and weight.dtype in DTYPES and id(weight) not in seen:
                seen.add(id(weight))
                name = each.name if attribute == "weight" else f"{each.name}.{attribute}"
                owners[name] = (each.module, attribute)
    return owners


def _has_gradient(microbatch: Microbatch) -> bool:
    return any(call.has_gradient for calls in microbatch.values() for call in calls)
