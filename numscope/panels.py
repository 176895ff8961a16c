"""A matrix as panels: bounded pieces of it in float32, read one after the other.

Panels are cut by extents that depend on the tile and the tensor's shape, never on threads or
memory, and the rows are taken in strips, runs of `PANELS_PER_STRIP` panels one below the other,
which are the unit of work. Nothing here knows about scales or what is done with a panel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from numscope import extremes, turning
from numscope.errors import ArrayError
from numscope.inputs import is_float

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: A panel holds at least so many rows and columns, if the tensor has them: those of whole tiles.
PANEL_ROWS, PANEL_COLS = 128, 16384
#: Where a tensor is narrow or low, panels are taller or wider until they hold so many values, ...
PANEL_VALUES = 2**20
#: ... but at most by so much: what is kept by row or by column stays small.
MOST_TIMES_TALLER, MOST_TIMES_WIDER = 128, 4
#: How many panels, one below the other, are one unit of work.
PANELS_PER_STRIP = 4
#: At most so many bytes are read at once, if a single panel is not larger.
READ_BYTES = 8 * 2**20


class Source(Protocol):
    """A matrix that can be read piece by piece, by several threads at once."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def cols(self) -> int:
        """Number of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values in native byte order: NumPy's floats or those of ml_dtypes."""

    def read(self, row_start: int, row_stop: int, col_start: int, col_stop: int) -> NDArray[Any]:
        """The values of that part, (rows, cols), contiguous."""


@dataclass(frozen=True, slots=True)
class Panels:
    """How a tensor of (rows, cols) is cut: into panels of (height, width)."""

    rows: int
    cols: int
    height: int
    width: int

    @property
    def strips(self) -> range:
        """First rows of the strips."""
        return range(0, self.rows, self.height * PANELS_PER_STRIP)

    def strip_stop(self, start: int) -> int:
        """The row after the strip that begins at row `start`."""
        return min(start + self.height * PANELS_PER_STRIP, self.rows)

    def holds(self, tile: tuple[int, int]) -> bool:
        """Whether no tile reaches beyond a panel."""
        return (self.height % tile[0] == 0 or self.rows <= self.height) and (
            self.width % tile[1] == 0 or self.cols <= self.width
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """Values of one panel, and how many are NaN or infinite in float32.

    `x` is float32, or float64 if the tensor is; `x32` is the same in float32, which is what the
    quantizer sees. `row` and `col` say where it begins in the tensor, `amax` is the largest
    magnitude of those in `x` that are finite in float32.
    """

    row: int
    col: int
    x: NDArray[Any]
    x32: NDArray[np.float32]
    nan_count: int
    inf_count: int
    amax: float

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return not self.nan_count and not self.inf_count

    @property
    def finite(self) -> NDArray[Any]:
        """`x` with 0 where it is not finite in float32."""
        return self._finite(self.x)

    @property
    def finite32(self) -> NDArray[np.float32]:
        """`x32` with 0 where it is not finite."""
        return self._finite(self.x32)

    def _finite(self, values: NDArray[Any]) -> NDArray[Any]:
        return values if self.is_finite else np.where(np.isfinite(self.x32), values, 0)


class InMemory:
    """An array as a `Source`."""

    def __init__(self, x: NDArray[Any]) -> None:
        self.x = x
        self.rows, self.cols = x.shape
        self.dtype = x.dtype.newbyteorder("=")

    def read(self, row_start: int, row_stop: int, col_start: int, col_stop: int) -> NDArray[Any]:
        """That part in native byte order, copied only where the loops cannot take it as it is."""
        part = self.x[row_start:row_stop, col_start:col_stop]
        if not part.flags.c_contiguous and 0 < abs(part.strides[0]) < abs(part.strides[1]):
            turned = np.empty(part.shape, self.dtype)
            turning.copy_columns(part, turned)
            return turned
        return np.require(part, self.dtype, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])


def read_panels(source: Source, panels: Panels, start: int, stop: int) -> Iterator[Panel]:
    """The panels of the rows from `start` to `stop`, column by column of panels.

    A panel's values are there until the next one is asked for.
    """
    room = None  # one for all panels: memory that is new costs more than a loop over it
    if source.dtype != np.float32:
        height, width = min(panels.height, stop - start), min(panels.width, panels.cols)
        room = np.empty(height * width, np.float32)
    for col in range(0, panels.cols, panels.width):
        col_stop = min(col + panels.width, panels.cols)
        panel_bytes = panels.height * (col_stop - col) * source.dtype.itemsize
        height = panels.height * max(READ_BYTES // panel_bytes, 1)
        for row in range(start, stop, height):
            values = source.read(row, min(row + height, stop), col, col_stop)
            for at in range(0, values.shape[0], panels.height):
                yield panel(values[at : at + panels.height], row + at, col, room)


def _to_float32(
    values: NDArray[Any], room: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], float]:
    """The values (rows, cols) in float32, and their largest magnitude, where NaN is the largest.

    They are exact but for float64, whose largest become infinite.
    """
    if values.dtype == np.float32:
        return values, _largest_magnitude(values)
    x32 = np.empty(values.size, np.float32) if room is None else room[: values.size]
    x32 = x32.reshape(values.shape)
    if values.dtype.name == "bfloat16":
        largest = extremes.widen_bfloat16(values.view(np.uint16), x32.view(np.int32))
        return x32, float(np.int32(largest).view(np.float32))  # a plain integer when compiled
    if values.dtype == np.float16:
        extremes.widen_float16(values.view(np.uint16), x32)
    else:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            np.copyto(x32, values, casting="same_kind")
    return x32, _largest_magnitude(x32)


def _largest_magnitude(x: NDArray[np.float32] | NDArray[np.float64]) -> float:
    bits = x.view(np.int64 if x.dtype == np.float64 else np.int32)
    return float(bits.dtype.type(extremes.largest_magnitude(bits)).view(x.dtype))


def matrix(x: ArrayLike) -> NDArray[Any]:
    """`x` as (rows, cols): the leading axes are taken together, a vector or a number is one row.

    Raises
    ------
    ArrayError
        If it does not hold floating-point numbers, has lines of unequal length, or is masked.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise ArrayError("the array is masked: fill it, or leave out what is masked, first")
    try:
        x = np.asarray(x)
    except ValueError as error:
        raise ArrayError(f"this is no array: {error}") from error
    if not is_float(x.dtype):
        raise ArrayError(f"only floating-point numbers can be quantized, not {x.dtype}")
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1] if x.ndim else 1)


def panel(
    values: NDArray[Any], row: int = 0, col: int = 0, room: NDArray[np.float32] | None = None
) -> Panel:
    """The panel of values (rows, cols) that begin at (row, col) of a tensor.

    `room` is where they are put in float32, if it is given and they are not that already.
    """
    x32, amax = _to_float32(values, room)
    x = values if values.dtype == np.float64 else x32
    nan_count = inf_count = 0
    if not math.isfinite(amax):
        nan_count, inf_count = int(np.isnan(x32).sum()), int(np.isinf(x32).sum())
        amax = float(np.abs(x[np.isfinite(x32)]).max(initial=0))
    elif x.dtype == np.float64:
        amax = _largest_magnitude(x)
    return Panel(row, col, x, x32, nan_count, inf_count, amax)


def panel_extent(tile: tuple[int, int], shape: tuple[int, int]) -> tuple[int, int]:
    """Height and width of a tensor's panels: whole tiles, unless they would be far larger."""
    rows, cols = shape
    height = PANEL_ROWS * min(max(PANEL_VALUES // (PANEL_ROWS * cols), 1), MOST_TIMES_TALLER)
    width = PANEL_COLS * min(max(PANEL_VALUES // (PANEL_COLS * rows), 1), MOST_TIMES_WIDER)
    return (_whole(tile[0], height, 2 * height), _whole(tile[1], width, width))


def _whole(tile: int, extent: int, limit: int) -> int:
    """The extent of as many whole tiles as reach it, or itself if one is beyond the limit."""
    return tile * -(-extent // tile) if tile <= limit else extent
