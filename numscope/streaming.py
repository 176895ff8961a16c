"""Measuring by panels: read once, each is measured for every recipe while it is in cache.

A strip's panels are measured one after the other and the strips' records are added in order, so the
result does not depend on who measured what. Tiles that reach beyond a panel, such as a whole axis,
need the statistics of the whole tensor first, which takes one more reading.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import ml_dtypes
import numpy as np

from numscope import compiling, kernels, roundings
from numscope.measure import ErrorSums
from numscope.panels import (
    READ_BYTES,
    InMemory,
    Panel,
    Panels,
    Source,
    matrix,
    panel_extent,
    read_panels,
)
from numscope.tiling import Task, Tiles, TileTotals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from numscope.recipes import Recipe

T = TypeVar("T")
U = TypeVar("U")
#: Calls a function for each item, possibly at once, and gives the results in the items' order.
Map = Callable[[Callable[[T], U], Iterable[T]], Iterator[U]]

#: As it was read, in float32, and once more while something is made of it.
_PANEL_BYTES_PER_VALUE = 12


def measure_array(x: ArrayLike, recipes: Sequence[Recipe]) -> list[ErrorSums]:
    """What each recipe does to an array in memory, see `measure.measure`."""
    return measure(InMemory(matrix(x)), recipes)


def warm_up(recipe: Recipe, on_compiling: Callable[[], object] = lambda: None) -> None:
    """Compile what measuring takes if this installation has not done so yet; then, say so first."""
    with compiling.noticed(on_compiling):
        measure_array(np.zeros((1, 1), ml_dtypes.bfloat16), (recipe,))


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
        extent = panel_extent(task.tile, (source.rows, source.cols))
        groups.setdefault(extent, []).append(index)
    for extent, indices in groups.items():
        panels = Panels(source.rows, source.cols, *extent)
        chosen = _scaled([tasks[index] for index in indices], source, panels, over)
        yield indices, Reading(source, panels, tuple(chosen))


def working_bytes(recipes: Iterable[Recipe]) -> int:
    """About how many bytes a thread holds while it measures with these recipes."""
    most = sys.maxsize
    tiles = {(rows or most, cols or most) for rows, cols in (r.tile for r in recipes)}
    panel = max((math.prod(panel_extent(tile, (most, most))) for tile in tiles), default=0)
    return READ_BYTES + _PANEL_BYTES_PER_VALUE * panel


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
        stop = self.panels.strip_stop(start)
        totals = [_Totals(task, start, stop) for task in self.tasks]
        cols = min(self.panels.width, self.panels.cols)
        room = kernels.room(cols, is_double=self.source.dtype == np.float64)
        for panel in read_panels(self.source, self.panels, start, stop):
            facts = np.empty(len(panel.x), np.int32), np.empty(len(panel.x))
            kernels.row_facts(panel.finite, room, *facts)
            known: dict[tuple[int, int], Tiles] = {}
            for each in totals:
                each.add(panel, facts, room, known)
        return [each.record() for each in totals]


@dataclass(frozen=True, slots=True)
class Survey:
    """A reading of a tensor for the statistics of tiles that reach beyond panels."""

    source: Source
    panels: Panels
    tiles: tuple[tuple[int, int], ...]

    def statistics(self, start: int) -> list[Tiles]:
        """The tiles that the strip from row `start` on lies in, one grid per tile shape."""
        stop = self.panels.strip_stop(start)
        offsets = [start % rows for rows, _ in self.tiles]
        found = [
            Tiles.over((offset + stop - start, self.panels.cols), tile)
            for offset, tile in zip(offsets, self.tiles, strict=True)
        ]
        for panel in read_panels(self.source, self.panels, start, stop):
            for offset, tiles, tile in zip(offsets, found, self.tiles, strict=True):
                tiles.take_in(panel, offset + panel.row - start, panel.col, tile)
        return found

    def all_statistics(self, over: Map[Any, Any]) -> list[Tiles]:
        """The tiles of the whole tensor, one grid per tile shape."""
        whole = [Tiles.over((self.panels.rows, self.panels.cols), tile) for tile in self.tiles]
        strips = self.panels.strips
        for start, found in zip(strips, over(self.statistics, strips), strict=True):
            for tile, tiles, part in zip(self.tiles, whole, found, strict=True):
                tiles.merge(part, start // tile[0])
        return whole


class _Totals:
    """What one task adds up over a strip."""

    def __init__(self, task: Task, start: int, stop: int) -> None:
        self.task = task
        self.start = start
        self.rule = roundings.rule(task.recipe, task.dtype)
        self.counts = np.zeros(5, np.int64)
        self.sum_ee = np.zeros(1)
        self.max_error = np.zeros(1)
        self.row_counts = np.zeros((stop - start, 2), np.int64)
        self.row_sums = np.zeros((stop - start, 3))
        self.tiles = TileTotals()
        if task.scaled and start == 0:
            self.tiles.add(task.scaled)
        self.count = self.nan_count = self.inf_count = 0
        self.amax = 0.0

    def add(
        self,
        panel: Panel,
        facts: tuple[NDArray[np.int32], NDArray[np.float64]],
        room: kernels.Room,
        known: dict[tuple[int, int], Tiles],
    ) -> None:
        """Add a panel: its values, their `kernels.row_facts`, and its tiles that are known."""
        scaled = self.task.scale_panel(panel, known)
        if not self.task.scaled:
            self.tiles.add(scaled)
        rows = slice(panel.row - self.start, panel.row - self.start + panel.x.shape[0])
        kernels.accumulate(
            panel.x,
            panel.x32,
            *facts,
            panel.is_finite,
            scaled.grid(panel, self.task.tile),
            scaled.scales.operands,
            scaled.scales.back,
            self.rule,
            (panel.row, panel.col),
            room,
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
        zeros, underflow, saturated, overflow, overflow_zeros = self.counts.tolist()
        return ErrorSums(
            **self.tiles.fields(),
            count=self.count,
            zeros=zeros,
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
            overflow_count=overflow,
            overflow_zeros=overflow_zeros,
        )


def _scaled(
    tasks: Sequence[Task], source: Source, panels: Panels, over: Map[Any, Any]
) -> list[Task]:
    """The tasks, with what they need from one more reading: outer tiles, or tiles beyond panels."""
    wide = [None if panels.holds(task.tile) else task.tile for task in tasks]
    outer = [task.outer_tile for task in tasks]
    shapes = tuple(dict.fromkeys(tile for tile in (*wide, *outer) if tile))
    if not shapes:
        return list(tasks)
    found = Survey(source, panels, shapes).all_statistics(over)
    statistics: dict[tuple[int, int] | None, Tiles] = dict(zip(shapes, found, strict=True))
    chosen = []
    for task, tile in zip(tasks, wide, strict=True):
        known = replace(task, outer=statistics.get(task.outer_tile))
        tiles = statistics.get(tile)
        chosen.append(replace(known, scaled=known.scale(tiles, 0, 0)) if tiles else known)
    return chosen
