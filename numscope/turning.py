"""Copies a transposed matrix: one whose columns, not its rows, lie close together in memory.

Nothing here knows what the values are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMNS = 16
"""How many columns are turned at once: each value of a row of more would be in a line of memory of
its own, which is gone before the next row wants its neighbour."""


def copy_columns(columns: NDArray[Any], out: NDArray[Any]) -> None:
    """Fill `out`, whose rows lie close together, with a matrix whose columns do."""
    for start in range(0, out.shape[1], COLUMNS):
        part = slice(start, start + COLUMNS)
        out[:, part] = columns[:, part]
