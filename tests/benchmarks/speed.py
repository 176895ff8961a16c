"""Values per second beside plain NumPy, on one tensor in one run.

The contenders take turns, so that whatever else the machine does falls on all of them, and each
shows its median. Only the ratios carry over to another machine.
"""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from rich.table import Table

from numscope import Recipe, streaming
from numscope.engines import Threads, usable_cpus
from numscope.panels import InMemory
from tests.agreement import assert_agree, record
from tests.benchmarks import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TILES = ((1, 128), (128, 1), (128, 128))


def tensor(rows: int = 8192, cols: int = 4096) -> NDArray[Any]:
    """A bfloat16 tensor like a gradient: rows of different size, a few flushed values."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, cols), np.float32)
    x *= np.exp2(rng.integers(-30, -10, (rows, 1))).astype(np.float32)
    return x.astype(ml_dtypes.bfloat16)


def compare(x: NDArray[Any], repetitions: int) -> Table:
    """The table of all tiles."""
    table = Table("tile", "NumPy", "1 thread", "ratio", f"{usable_cpus()} threads", "ratio")
    table.title = f"values/s of {x.shape[0]} x {x.shape[1]} {x.dtype}, recipe ling, all metrics"
    for column in table.columns[1:]:
        column.justify = "right"
    with Threads(usable_cpus()) as engine:
        for tile in TILES:
            recipes = [Recipe(tile=tile)]
            source = InMemory(x)
            _check(x, tile)
            by_numpy, alone, together = _medians(
                repetitions,
                partial(plain.measure, x, tile),
                partial(streaming.measure, source, recipes),
                partial(streaming.measure, source, recipes, engine.map),
            )
            table.add_row(
                f"({tile[0]},{tile[1]})",
                f"{x.size / by_numpy:.2e}",
                f"{x.size / alone:.2e}",
                f"{by_numpy / alone:.1f}",
                f"{x.size / together:.2e}",
                f"{by_numpy / together:.1f}",
            )
    return table


def _check(x: NDArray[Any], tile: tuple[int, int]) -> None:
    """Both must do the same work to be compared."""
    (found,) = streaming.measure_array(x[:256], [Recipe(tile=tile)])
    assert_agree(record(found), plain.measure(x[:256], tile))


def _medians(repetitions: int, *contenders: Callable[[], Any]) -> list[float]:
    """Seconds per call of each, taking turns."""
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(repetitions):
        for contender, seconds in zip(contenders, times, strict=True):
            start = time.perf_counter()
            contender()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]
