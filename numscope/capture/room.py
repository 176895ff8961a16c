"""The memory that the copies of a step may take together.

Nothing here knows what is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numscope.capture.sampling import Kept, Sample

if TYPE_CHECKING:
    import torch

_ALL_ROWS = Sample()


class Room:
    """Bytes of the CPU's memory, of which a part is taken.

    Parameters
    ----------
    limit
        The most bytes that may be taken.

    Attributes
    ----------
    taken
        The bytes that are.
    was_short
        Whether more was asked for than there was.
    """

    def __init__(self, limit: int) -> None:
        self.taken = 0
        self.was_short = False
        self._limit = limit

    def take(self, size: int) -> bool:
        """Take so many bytes if they are there, and say whether they were."""
        if self.taken + size > self._limit:
            self.was_short = True
            return False
        self.taken += size
        return True

    def copy(self, tensor: torch.Tensor, sample: Sample = _ALL_ROWS) -> Kept | None:
        """A copy of a tensor's rows, if there is room for it."""
        return sample.take(tensor) if self.take(sample.size_of(tensor)) else None

    def free(self, size: int) -> None:
        """Give so many bytes back."""
        self.taken -= size
