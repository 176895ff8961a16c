"""One captured step: hooks on the chosen modules, and copies of what passes through them.

Hooks only look: they change no tensor, keep no graph, and raise nothing into the training loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from numscope.capture.calls import Call, Microbatch, has_gradient
from numscope.capture.choosing import Chosen
from numscope.capture.hooks import Hook, is_in_backward, is_same, tensors
from numscope.capture.room import Room
from numscope.capture.sampling import Kept, Sample, shard_of
from numscope.capture.writing import DTYPES
from numscope.dumps.refs import Kind


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
        Bytes of the CPU's memory that all copies together take at most. A call is captured with
        its gradient or not at all; after the first thing without room no further call is.
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
        self.failure = ""
        self._chosen, self._sample, self._room = chosen, sample, Room(limit)
        self._kinds = kinds
        self._microbatches: list[Microbatch] = []
        self._has_gradient = False  # since the last micro-batch began
        self._under_way: dict[str, list[Call | None]] = {each.name: [] for each in chosen}
        self._ran: set[str] = set()
        self._handles: list[Any] = []
        self._has_stopped = False
        self._owners = _owners(chosen)
        self._unseen = _by_module(self._owners)
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
        self._has_stopped = True
        for handle in self._handles:
            handle.remove()
        self._handles = []

    @property
    def is_full(self) -> bool:
        """Whether there was something without room."""
        return self._room.was_short

    @property
    def is_over(self) -> bool:
        """Whether nothing is captured any more."""
        return self._has_stopped or bool(self.failure)

    def microbatches(self) -> list[Microbatch]:
        """The calls of each micro-batch; without passes that had no gradients if others had some.

        Such passes are those of a validation within the step.
        """
        passes = [each for each in self._microbatches if each]
        return [each for each in passes if has_gradient(each)] or passes

    def silent(self) -> list[str]:
        """The modules that were not called, as far as hooks can tell."""
        return [each.name for each in self._chosen if each.name not in self._ran]

    def bereft(self) -> list[str]:
        """The modules that got no gradient for an output which asked for one, where others did."""
        names = {
            name
            for each in filter(has_gradient, self._microbatches)
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
        if self.is_full:
            return
        call = Call()
        if "activation" in self._kinds or not torch.is_grad_enabled():
            call.activation = self._room.copy(x, self._sample)
            if call.activation is None:
                return
        if not self._microbatches or self._has_gradient:
            self._begin_microbatch()
        self._microbatches[-1].setdefault(chosen.name, []).append(call)
        under_way[-1] = call
        if torch.is_autocast_enabled(x.device.type):
            self.autocast.add(str(torch.get_autocast_dtype(x.device.type)).removeprefix("torch."))
        self._look_at_weights(chosen)

    def _look_at_weights(self, chosen: Chosen) -> None:
        """Copy the weights that a module is about to use, once."""
        for name in self._unseen.pop(id(chosen.module), ()):
            module, attribute = self._owners[name]
            weight = getattr(module, attribute)
            self.shards[name] = shard_of(weight)
            kept = self._room.copy(weight) if "weight" in self._kinds else None
            if kept:
                self.weights[name] = kept

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
            if "gradient" in self._kinds:
                # A call that is repeated gets its gradient next, or never.
                size = 0 if is_in_backward() else self._sample.size_of(y)
                if self._room.take(size):
                    call.reserved = size
                else:
                    self._forget_activation(call)
            y.register_hook(Hook(self, Recording._on_gradient, call))

    def _on_gradient(self, call: Call, gradient: torch.Tensor) -> None:
        self._has_gradient = call.has_gradient = True
        if call.reserved is None:
            return
        self._room.free(call.reserved)
        call.reserved = 0
        kept = self._room.copy(gradient, self._sample)
        if kept:
            call.gradients.append(kept)
        elif not call.gradients:
            self._forget_activation(call)

    def _on_weight_gradient(self, name: str, weight: torch.Tensor) -> None:
        if weight.grad is None:
            return
        if name in self.weight_gradients:  # this is the sum with one more
            self._room.free(self.weight_gradients.pop(name).values.nbytes)
        kept = self._room.copy(weight.grad)
        if kept:
            self.weight_gradients[name] = kept

    def _forget_activation(self, call: Call) -> None:
        if call.activation:
            self._room.free(call.activation.values.nbytes)
            call.activation = None


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


def _by_module(owners: Mapping[str, tuple[nn.Module, str]]) -> dict[int, list[str]]:
    """The names of each module's weights, by the `id` of the module: a call asks for its own."""
    names: dict[int, list[str]] = {}
    for name, (module, _) in owners.items():
        names.setdefault(id(module), []).append(name)
    return names
