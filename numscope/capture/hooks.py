"""A hook that cannot hurt, and what hooks need to know of tensors and of autograd.

Nothing here knows what is done with the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch

from numscope.capture.writing import DTYPES


class Owner(Protocol):
    """What hooks belong to: it says when they have nothing to do, and is told what went wrong."""

    failure: str

    @property
    def is_over(self) -> bool:
        """Whether hooks are to do nothing any more."""


class Hook:
    """A method of an owner, called for its effect only.

    What it raises is told to the owner and nobody else. A copy of a model copies its hooks, which
    do nothing there; nor do they where they become part of compiled code.
    """

    def __init__(
        self,
        owner: Owner | None = None,
        method: Callable[..., None] | None = None,
        *arguments: object,
    ) -> None:
        self._owner, self._method, self._arguments = owner, method, arguments

    def __call__(self, *arguments: Any) -> None:
        """Call the method, if it has something to do."""
        owner, method = self._owner, self._method
        if owner is None or method is None or owner.is_over or torch.compiler.is_compiling():
            return
        try:
            method(owner, *self._arguments, *arguments)
        except Exception as error:  # noqa: BLE001 (training goes on whatever happens here)
            owner.failure = f"{type(error).__name__}: {error}"

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        return Hook, ()


def tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    """The tensors among a module's inputs or outputs that can be saved, in their order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if value.dtype in DTYPES:
                yield value
        elif isinstance(value, Mapping):
            yield from tensors(value.values())
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)


def is_in_backward() -> bool:
    """Whether autograd is at work in this thread, as when a checkpointed forward is repeated."""
    task: int = torch._C._current_graph_task_id()  # noqa: SLF001 (there is no public way to ask)
    return task != -1


def is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors on the CPU have the same bits."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    return bool(torch.equal(*(each.reshape(-1).view(torch.uint8) for each in (a, b))))
