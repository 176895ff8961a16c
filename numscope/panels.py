"""Measuring by panels: a tensor is read in bounded pieces, each measured for every recipe at once.

A tensor is cut into panels whose extent depends on the tile alone, and runs of `PANELS_PER_STRIP` panels
make a strip, the unit of work that threads share. A strip's panels are measured one after the other
and the strips' records are added in order, so the result does not depend on who measured what. Tiles
that reach beyond a panel, such as a whole axis, need the statistics of the whole tensor first: one more
pass. Nothing here knows what a tensor means or where it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from numscope import kernels
from numscope.errors import DumpError
from numscope.measure import ErrorSums
from numscope.scales import SCALE_RULES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from numscope.recipes import Recipe

#: A panel holds at least so many rows and columns, if the tensor has them: those of whole tiles.
PANEL_ROWS, PANEL_COLS = 128, 16384
#: How many panels, one below the other, are one unit of work.
PANELS_PER_STRIP = 8
#: At most so many bytes are read at once, if a single panel is not larger.
READ_BYTES = 8 * 2**20

T = TypeVar("T")
U = TypeVar("U")
#: Calls a function for each item, possibly at once, and gives the results in the items' order.
Map = Callable[[Callable[[T], U], Iterable[T]], Iterator[U]]


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
        """Type of the values, in native byte order: float16, 32, 64 or a float type of ml_dtypes."""

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

    def holds(self, tile: tuple[int, int]) -> bool:
        """Whether no tile reaches beyond a panel."""
        return (self.height % tile[0] == 0 or self.rows <= self.height) and (
            self.width % tile[1] == 0 or self.cols <= self.width
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """Values of one panel, finite ones only: others are counted and replaced by 0.

    `x` is float32, or float64 if the tensor is; `x32` is the same in float32, which is what the quantizer sees.
    `row` and `col` say where it begins in the tensor.
    """

    row: int
    col: int
    x: NDArray[Any]
    x32: NDArray[np.float32]
    nan_count: int
    inf_count: int

    @property
    def amax(self) -> float:
        """Largest magnitude."""
        return max(float(self.x.max()), -float(self.x.min()))


@dataclass(frozen=True, slots=True)
class Tiles:
    """Statistics of a grid of tiles: bits of the magnitudes, as `kernels.tile_statistics` keeps them."""

    amax: NDArray[np.int32]
    amin: NDArray[np.int32]

    @classmethod
    def over(cls, rows: int, cols: int, tile: tuple[int, int]) -> Tiles:
        """The tiles over (rows, cols) before any value was seen."""
        shape = (-(-rows // tile[0]), -(-cols // tile[1]))
        return cls(np.zeros(shape, np.int32), np.full(shape, 2**31 - 1, np.int32))

    def take_in(self, x32: NDArray[np.float32], row: int, col: int, tile: tuple[int, int]) -> None:
        """Take in values that begin at (row, col), counted from the first tile."""
        kernels.tile_statistics(x32, row, col, *tile, self.amax, self.amin)

    def merge(self, other: Tiles, first: int) -> None:
        """Take in the statistics of the tile rows from `first` on."""
        part = slice(first, first + other.amax.shape[0])
        np.maximum(self.amax[part], other.amax, out=self.amax[part])
        np.minimum(self.amin[part], other.amin, out=self.amin[part])


@dataclass(frozen=True, slots=True)
class Scaled:
    """Multipliers and scales of a grid of tiles that begins at (row, col), and the tiles' record."""

    row: int
    col: int
    multipliers: NDArray[np.float32]
    scales: NDArray[np.float32]
    record: ErrorSums


@dataclass(frozen=True, slots=True)
class Task:
    """A recipe on a tensor: `tile` is its tile with the tensor's extents put in.

    `scaled` holds the scales of all tiles if they need the whole tensor's statistics, else it is `None` and
    they are formed panel by panel.
    """

    recipe: Recipe
    tile: tuple[int, int]
    input_max: float
    scaled: Scaled | None = None

    @classmethod
    def on(cls, source: Source, recipe: Recipe) -> Task:
        """The recipe on that tensor."""
        rows, cols = recipe.tile
        tile = (
            max(min(rows or source.rows, source.rows), 1),
            max(min(cols or source.cols, source.cols), 1),
        )
        return cls(recipe, tile, largest_input(source.dtype))

    def scale(self, tiles: Tiles, row: int, col: int) -> Scaled:
        """Scales for the tiles whose grid begins at (row, col)."""
        amax, amin = tiles.amax.view(np.float32), tiles.amin.view(np.float32)
        rule = SCALE_RULES[self.recipe.scale]
        multipliers, scales = rule(amax, self.recipe.element_format, self.input_max)
        return Scaled(row, col, multipliers, scales, _tile_record(amax, amin, scales))

    def scale_panel(self, panel: Panel) -> Scaled:
        """Scales for the tiles of a panel, all of which lie inside it."""
        if self.scaled:
            return self.scaled
        tiles = Tiles.over(*panel.x32.shape, self.tile)
        tiles.take_in(panel.x32, 0, 0, self.tile)
        return self.scale(tiles, panel.row, panel.col)


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of a tensor: the recipes that share its panels. Measures strip by strip."""

    source: Source
    panels: Panels
    tasks: tuple[Task, ...]

    def measure(self, start: int) -> list[ErrorSums]:
        """The records of the strip that begins at row `start`, one per task.

        The record of tiles that need the whole tensor's statistics is in the first strip.
        """
        stop = min(start + self.panels.height * PANELS_PER_STRIP, self.panels.rows)
        totals = [_Totals(task, start, stop) for task in self.tasks]
        for panel in read_panels(self.source, self.panels, start, stop):
            for each in totals:
                each.add(panel)
        return [each.record() for each in totals]

    def statistics(self, start: int) -> list[Tiles]:
        """Of the strip that begins at row `start`, one per task; the first tile row is the strip's first."""
        stop = min(start + self.panels.height * PANELS_PER_STRIP, self.panels.rows)
        offsets = [start % task.tile[0] for task in self.tasks]
        found = [
            Tiles.over(offset + stop - start, self.panels.cols, task.tile)
            for offset, task in zip(offsets, self.tasks, strict=True)
        ]
        for panel in read_panels(self.source, self.panels, start, stop):
            for offset, tiles, task in zip(offsets, found, self.tasks, strict=True):
                tiles.take_in(panel.x32, offset + panel.row - start, panel.col, task.tile)
        return found


class _Totals:
    """What one task adds up over a strip."""

    def __init__(self, task: Task, start: int, stop: int) -> None:
        self.task = task
        self.start = start
        self.numbers = kernels.format_numbers(task.recipe.element_format)
        self.counts = np.zeros(3, np.int64)
        self.sum_ee = np.zeros(1)
        self.max_error = np.zeros(1)
        self.row_counts = np.zeros((stop - start, 2), np.int64)
        self.row_sums = np.zeros((stop - start, 3))
        self.tiles = task.scaled.record if task.scaled and start == 0 else ErrorSums()
        self.count = self.nan_count = self.inf_count = 0
        self.amax = 0.0

    def add(self, panel: Panel) -> None:
        scaled = self.task.scale_panel(panel)
        if not self.task.scaled:
            self.tiles += scaled.record
        rows = slice(panel.row - self.start, panel.row - self.start + panel.x.shape[0])
        kernels.accumulate(
            panel.x,
            panel.x32,
            panel.row - scaled.row,
            panel.col - scaled.col,
            *self.task.tile,
            scaled.multipliers,
            scaled.scales,
            *self.numbers,
            self.counts,
            self.sum_ee,
            self.max_error,
            self.row_counts[rows],
            self.row_sums[rows],
        )
        self.count += panel.x.size
        self.nan_count += panel.nan_count
        self.inf_count += panel.inf_count
        self.amax = max(self.amax, panel.amax)

    def record(self) -> ErrorSums:
        sums = np.array([0.0, 0.0, 0.0, 0.0, math.inf])
        rows = np.zeros(2, np.int64)
        kernels.row_cosines(self.row_counts, self.row_sums, sums, rows)
        zeros, underflow, saturated = self.counts.tolist()
        return self.tiles + ErrorSums(
            count=self.count,
            zeros=zeros - self.nan_count - self.inf_count,
            nan_count=self.nan_count,
            inf_count=self.inf_count,
            underflow_count=underflow,
            saturated_count=saturated,
            sum_xx=float(sums[kernels.XX]),
            sum_yy=float(sums[kernels.YY]),
            sum_xy=float(sums[kernels.XY]),
            sum_ee=float(self.sum_ee[0]),
            amax=self.amax,
            max_abs_error=float(self.max_error[0]),
            row_count=len(self.row_sums),
            zero_rows=int(rows[0]),
            flushed_rows=int(rows[1]),
            sum_row_cosine=float(sums[3]),
            min_row_cosine=float(sums[4]) if sums[4] < math.inf else math.nan,
        )


class InMemory:
    """An array as a `Source`."""

    def __init__(self, x: NDArray[Any]) -> None:
        self.x = x
        self.rows, self.cols = x.shape
        self.dtype = x.dtype.newbyteorder("=")

    def read(self, row_start: int, row_stop: int, col_start: int, col_stop: int) -> NDArray[Any]:
        """Copy of that part in native byte order, so that nobody can change it meanwhile."""
        return np.array(self.x[row_start:row_stop, col_start:col_stop], self.dtype, order="C")


def matrix(x: ArrayLike) -> NDArray[Any]:
    """`x` as (rows, cols): the leading axes are taken together, a vector or a number is one row.

    Raises
    ------
    DumpError
        If it does not hold floating-point numbers.
    """
    x = np.asarray(x)
    if not is_float(x.dtype):
        raise DumpError(f"only floating-point numbers can be quantized, not {x.dtype}")
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1] if x.ndim else 1)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the type holds real floating-point numbers: NumPy's own or those of ml_dtypes."""
    if dtype.kind == "f":
        return dtype.itemsize <= 8
    return dtype.kind == "V" and dtype.names is None and _finfo(dtype) is not None


def measure_array(x: ArrayLike, recipes: Sequence[Recipe]) -> list[ErrorSums]:
    """What each recipe does to an array in memory, see `measure.measure`."""
    return measure(InMemory(matrix(x)), recipes)


def measure(
    source: Source, recipes: Sequence[Recipe], over: Map[Any, Any] = map
) -> list[ErrorSums]:
    """What each recipe does to a tensor, one record per recipe.

    Parameters
    ----------
    source
        The tensor.
    recipes
        The recipes; those with equal panels share one reading.
    over
        What to map strips with. The records do not depend on it.
    """
    records = [ErrorSums()] * len(recipes)
    for indices, reading in readings(source, recipes, over):
        parts = over(reading.measure, reading.panels.strips)
        merged = reduce(lambda a, b: [x + y for x, y in zip(a, b, strict=True)], parts)
        for index, record in zip(indices, merged, strict=True):
            records[index] = record
    return records


def readings(
    source: Source, recipes: Sequence[Recipe], over: Map[Any, Any]
) -> Iterator[tuple[list[int], Reading]]:
    """The readings that measure a tensor, each with the positions of its recipes."""
    if not source.rows or not source.cols:
        return
    groups: dict[tuple[int, int], list[int]] = {}
    tasks = [Task.on(source, recipe) for recipe in recipes]
    for index, task in enumerate(tasks):
        groups.setdefault(_panel_extent(task.tile), []).append(index)
    for extent, indices in groups.items():
        panels = Panels(source.rows, source.cols, *extent)
        chosen = _scaled([tasks[index] for index in indices], source, panels, over)
        yield indices, Reading(source, panels, tuple(chosen))


def _scaled(
    tasks: Sequence[Task], source: Source, panels: Panels, over: Map[Any, Any]
) -> list[Task]:
    """The tasks, with scales for those whose tiles reach beyond a panel: one reading for all of them."""
    wide = [task for task in tasks if not panels.holds(task.tile)]
    if not wide:
        return list(tasks)
    whole = [Tiles.over(panels.rows, panels.cols, task.tile) for task in wide]
    reading = Reading(source, panels, tuple(wide))
    for start, found in zip(panels.strips, over(reading.statistics, panels.strips), strict=True):
        for task, tiles, part in zip(wide, whole, found, strict=True):
            tiles.merge(part, start // task.tile[0])
    done = iter(
        replace(task, scaled=task.scale(tiles, 0, 0))
        for task, tiles in zip(wide, whole, strict=True)
    )
    return [task if panels.holds(task.tile) else next(done) for task in tasks]


def read_panels(source: Source, panels: Panels, start: int, stop: int) -> Iterator[Panel]:
    """The panels of the rows from `start` to `stop`, column by column of panels."""
    for col in range(0, panels.cols, panels.width):
        col_stop = min(col + panels.width, panels.cols)
        panel_bytes = panels.height * (col_stop - col) * source.dtype.itemsize
        height = panels.height * max(READ_BYTES // panel_bytes, 1)
        for row in range(start, stop, height):
            values = source.read(row, min(row + height, stop), col, col_stop)
            for at in range(0, values.shape[0], panels.height):
                yield _panel(values[at : at + panels.height], row + at, col)


def _panel(values: NDArray[Any], row: int, col: int) -> Panel:
    x32 = to_float32(values)
    x = values if values.dtype == np.float64 else x32
    if not kernels.count_nonfinite(x32):
        return Panel(row, col, x, x32, 0, 0)
    finite = np.isfinite(x32)
    nan_count = int(np.isnan(x32).sum())
    inf_count = x32.size - int(finite.sum()) - nan_count
    return Panel(row, col, np.where(finite, x, 0), np.where(finite, x32, 0), nan_count, inf_count)


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """The values (rows, cols) in float32: exactly, but for float64, where large ones become infinite."""
    if values.dtype == np.float32:
        return values
    if values.dtype.name == "bfloat16":
        x32 = np.empty(values.shape, np.float32)
        kernels.widen_bfloat16(values.view(np.uint16), x32)
        return x32
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float32)


def largest_input(dtype: np.dtype[Any]) -> float:
    """Largest finite value of the input's dtype, in float32's range."""
    largest = _finfo(dtype)
    float32_max = float(np.finfo(np.float32).max)
    return float32_max if largest is None else min(largest, float32_max)


def _finfo(dtype: np.dtype[Any]) -> float | None:
    """Largest finite value of a float dtype, `None` for other types."""
    import ml_dtypes  # noqa: PLC0415 (half a second)

    try:
        return float(ml_dtypes.finfo(dtype).max)
    except (TypeError, ValueError, KeyError):
        return None


def _panel_extent(tile: tuple[int, int]) -> tuple[int, int]:
    """Whole tiles, at least `PANEL_ROWS` × `PANEL_COLS`; not whole if they would be far larger."""
    rows, cols = tile
    return (
        rows * -(-PANEL_ROWS // rows) if rows <= 2 * PANEL_ROWS else PANEL_ROWS,
        cols * -(-PANEL_COLS // cols) if cols <= PANEL_COLS else PANEL_COLS,
    )


def _tile_record(
    amax: NDArray[np.float32], amin: NDArray[np.float32], scales: NDArray[np.float32]
) -> ErrorSums:
    has_values = amax > 0
    count = int(has_values.sum())
    if not count:
        return ErrorSums(tile_count=amax.size, zero_tiles=amax.size)
    if count < amax.size:
        amax, amin, scales = amax[has_values], amin[has_values], scales[has_values]
    return ErrorSums(
        tile_count=has_values.size,
        zero_tiles=has_values.size - count,
        scale_min=float(scales.min()),
        scale_max=float(scales.max()),
        tile_range_log2_max=math.log2(float((amax.astype(np.float64) / amin).max())),
    )
