"""What a recording keeps of the calls of modules.

Nothing here knows how they are seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from numscope.capture.sampling import Kept


@dataclass(slots=True)
class Call:
    """One call of a module in a forward pass.

    Attributes
    ----------
    activation
        Its input; `None` if it is not wanted, and not needed either to know the call again, or if
        there was no room for the gradient.
    gradients
        With respect to its output: one, or one for each backward pass through the same graph; none
        if they are not wanted.
    has_gradient
        Whether there was one, wanted or not.
    reserved
        Bytes that are set aside for its gradient; `None` if none is to be kept.
    is_awaiting
        Whether its output is watched for them. It is not yet while only a pass without gradients
        was seen, which activation checkpointing repeats with gradients.
    """

    activation: Kept | None = None
    gradients: list[Kept] = field(default_factory=list)
    has_gradient: bool = False
    reserved: int | None = None
    is_awaiting: bool = False


Microbatch: TypeAlias = dict[str, list[Call]]
"""The calls of each module, by its name, in their order."""


def has_gradient(microbatch: Microbatch) -> bool:
    """Whether a gradient came to any of the calls."""
    return any(call.has_gradient for calls in microbatch.values() for call in calls)
