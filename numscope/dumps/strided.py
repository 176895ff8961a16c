"""Reads a block whose elements are scattered over a file, with bounded memory.

A block is cut up until each piece is cheap to read: as one stretch of the file that holds it all,
or as runs of neighbouring elements. Nothing here knows shapes, strides or dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from numscope import turning

if TYPE_CHECKING:
    from numscope.dumps.sources import Source

READ_LIMIT = 1 << 24
"""The most bytes that are read at once beyond the result itself."""

_CALL_COST = 1 << 13
"""A system call takes about as long as copying this many bytes."""

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """The elements at `rows[i] + cols[j]` behind `start`; neither is empty.

    Attributes
    ----------
    source, start
        Where the elements are, and the byte that offset 0 stands for.
    rows, cols
        In elements; the columns are evenly spaced, the rows may lie anywhere.
    """

    source: Source
    start: int
    rows: Offsets
    cols: Offsets

    def part(self, rows: slice, cols: slice) -> Block:
        """Take some of the rows and columns."""
        return Block(self.source, self.start, self.rows[rows], self.cols[cols])

    def read_into(self, target: NDArray[Any], first: int) -> None:
        """Fill a C-contiguous `target` with neighbouring elements from offset `first` on."""
        place = self.start + first * target.itemsize
        self.source.read_into(target.reshape(-1).data.cast("B"), place)


def gather(block: Block, out: NDArray[Any]) -> None:
    """Read all elements of a block.

    Parameters
    ----------
    out
        Unsigned integers of the elements' size, shape (rows, columns), a part of an array in C
        order; filled.
    """
    first = int(block.rows.min() + block.cols[0])
    span = (int(block.rows.max() + block.cols[-1]) - first + 1) * out.itemsize
    calls_by_row = len(block.rows) if _are_neighbours(block.cols) else None
    calls_by_col = len(block.cols) if _are_neighbours(block.rows) else None
    calls = min((n for n in (calls_by_row, calls_by_col) if n is not None), default=None)
    price = 4 * out.nbytes if calls is None else out.nbytes + _CALL_COST * calls
    if span <= max(price, _CALL_COST) and span <= READ_LIMIT:
        _gather_from_stretch(block, first, span, out)
    elif span > price and calls is not None and calls == calls_by_row:
        for row, target in zip(block.rows, out, strict=True):
            block.read_into(target, int(row + block.cols[0]))
    elif span > price and calls is not None and out.nbytes <= READ_LIMIT:
        _gather_columns(block, out)
    else:
        _gather_halves(block, out)


def _are_neighbours(offsets: Offsets) -> bool:
    """Whether elements at these offsets lie side by side."""
    return bool((np.diff(offsets) == 1).all())


def _gather_from_stretch(block: Block, first: int, span: int, out: NDArray[Any]) -> None:
    """Read everything from the first to the last element and pick the elements."""
    stretch = np.empty(span // out.itemsize, out.dtype)
    block.read_into(stretch, first)
    rows = block.rows - (first - block.cols[0])
    row_steps = np.diff(rows)
    step = int(block.cols[1] - block.cols[0]) if len(block.cols) > 1 else 1
    if (row_steps == row_steps[:1]).all():
        row_step = int(row_steps[0]) if len(row_steps) else 0
        steps = (row_step * out.itemsize, step * out.itemsize)
        found = np.lib.stride_tricks.as_strided(stretch[rows[0] :], out.shape, steps)
        if row_step < step:
            turning.copy_columns(found, out)
        else:
            out[...] = found
        return
    for row, target in zip(rows, out, strict=True):
        target[...] = stretch[row :: step or len(stretch)][: len(target)]


def _gather_columns(block: Block, out: NDArray[Any]) -> None:
    """Read each column as one run, as a transposed tensor wants it."""
    runs = np.empty((turning.COLUMNS, len(block.rows)), out.dtype)
    for start in range(0, len(block.cols), turning.COLUMNS):
        cols = block.cols[start : start + turning.COLUMNS]
        for run, offset in zip(runs, (block.rows[0] + cols).tolist(), strict=False):
            block.read_into(run, offset)
        out[:, start : start + turning.COLUMNS] = runs[: len(cols)].T


def _gather_halves(block: Block, out: NDArray[Any]) -> None:
    """Halve the longer side and read both parts."""
    rows, cols = out.shape
    everything = slice(None)
    for part in (slice(None, max(rows, cols) // 2), slice(max(rows, cols) // 2, None)):
        if rows >= cols:
            gather(block.part(part, everything), out[part])
        else:
            gather(block.part(everything, part), out[:, part])
