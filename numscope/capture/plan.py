"""What is captured of a run, on which steps, and where it goes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from numscope.capture.choosing import Chosen
from numscope.capture.sampling import Sample
from numscope.dumps.refs import Kind

NEVER = sys.maxsize
"""A step that no run comes to."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of `Capture`, checked, with the modules that they mean."""

    folder: Path
    chosen: tuple[Chosen, ...]
    kinds: tuple[Kind, ...]
    every: int
    steps: tuple[int, ...] | None
    tokens_per_step: int | None
    ranks: frozenset[int] | None
    memory_limit: int
    is_eager: bool
    sample: Sample = field(default_factory=Sample)

    def next_step(self, step: int) -> int:
        """The first step that is captured from this one on, `NEVER` if there is none."""
        if self.steps is not None:
            return next((each for each in self.steps if each >= step), NEVER)
        return -(-step // self.every) * self.every
