"""Which rows of a tensor are kept, and their copy in the CPU's memory.

A copy is finished when it is returned: it holds nothing of the device's memory, and does not see
what the model later does to its tensors in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from numscope.errors import UsageError

GROUP = 128
"""Rows are kept in whole groups of this many consecutive ones: the tiles of 128×1 of the tensor."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor that was copied, and which part of a distributed one it is (`""`: all of it)."""

    values: torch.Tensor
    shard: str = ""


@dataclass(slots=True)
class Sample:
    """A choice of rows (tokens), the same for all tensors that have as many rows.

    Attributes
    ----------
    rows
        How many are kept, a multiple of `GROUP`; `None` for all.
    seed
        Of the choice.
    chosen
        By the number of rows that were chosen from: the first row of each group, rising.
    """

    rows: int | None = None
    seed: int = 0
    chosen: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rows is not None and (self.rows < GROUP or self.rows % GROUP):
            raise UsageError(f"rows={self.rows}; it has to be a multiple of {GROUP}, or None")

    def take(self, tensor: torch.Tensor) -> Kept:
        """A copy of the chosen rows, (rows, features), or of the whole tensor, shaped as it is."""
        local = _local(tensor)
        count = _rows(local)
        if self.rows is not None and count > self.rows:
            rows = local.reshape(-1, local.shape[-1])
            local = torch.cat([rows[start : start + GROUP] for start in self._groups(count)])
        return Kept(_copy(local), shard_of(tensor))

    def size_of(self, tensor: torch.Tensor) -> int:
        """How many bytes `take` copies of it."""
        local = _local(tensor)
        if self.rows is not None and _rows(local) > self.rows:
            return int(self.rows * local.shape[-1] * local.itemsize)
        return int(local.nbytes)

    def _groups(self, count: int) -> list[int]:
        if count not in self.chosen:
            random = np.random.default_rng((self.seed, count))
            groups = random.choice(count // GROUP, (self.rows or 0) // GROUP, replace=False)
            self.chosen[count] = sorted(int(group) * GROUP for group in groups)
        return self.chosen[count]


def shard_of(tensor: Any) -> str:
    """Which part of a distributed tensor this rank has: `Shard(dim=0) 1 of 2`; `""` if it is none.

    There is one such part for each dimension of the device mesh.
    """
    placements, mesh = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    if placements is None or mesh is None:
        return ""
    places = zip(placements, mesh.get_coordinate() or (), mesh.shape, strict=False)
    return ", ".join(f"{placement} {place} of {size}" for placement, place, size in places)


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor, outside of the graph."""
    detached: Any = tensor.detach()
    local: torch.Tensor = detached.to_local() if hasattr(detached, "to_local") else detached
    return local


def _rows(local: torch.Tensor) -> int:
    """How many rows (tokens) a tensor has."""
    return local.shape[:-1].numel() if local.dim() > 1 else 1


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    return host.copy_(tensor)
