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

import numscope
from numscope import streaming
from numscope.engines import Threads
from numscope.panels import InMemory
from numscope.resources import usable_cpus
from tests.agreement import assert_agree, record
from tests.benchmarks import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from numscope import Recipe

#: One recipe of each way to compute, and the tile shapes of the first.
RECIPES = (
    *("ling", "ling:128x1", "ling:128x128", "te-block-pow2", "te-tensor", "deepgemm", "linghe"),
    *("ling:*x*:element=e5m2", "mx-e4m3", "mx-e4m3:32x1", "mx-e2m3", "mx-e2m1", "mx-int8"),
    *("te-nvfp4", "int8"),
)
#: Eight recipes that a run might compare.
EIGHT = (
    *("ling", "te-block-pow2", "deepgemm", "linghe"),
    *("mx-e4m3", "te-mxfp8", "mx-e2m1", "te-nvfp4"),
)


def tensor(rows: int = 8192, cols: int = 4096) -> NDArray[Any]:
    """A bfloat16 tensor like a gradient: rows of different size, a few flushed values."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, cols), np.float32)
    x *= np.exp2(rng.integers(-30, -10, (rows, 1))).astype(np.float32)
    return x.astype(ml_dtypes.bfloat16)


def compare(x: NDArray[Any], repetitions: int) -> Table:
    """The table of all recipes."""
    table = Table("recipe", "NumPy", "1 thread", "ratio", f"{usable_cpus()} threads", "ratio")
    table.title = f"values/s of {x.shape[0]} x {x.shape[1]} {x.dtype}, all metrics"
    for column in table.columns[1:]:
        column.justify = "right"
    with Threads(usable_cpus()) as engine:
        for name in RECIPES:
            recipe = numscope.recipe(name)
            source = InMemory(x)
            _check(x, recipe)
            by_numpy, alone, together = medians(
                repetitions,
                partial(plain.measure, x, recipe),
                partial(streaming.measure, source, [recipe]),
                partial(streaming.measure, source, [recipe], engine.map),
            )
            table.add_row(
                name,
                f"{x.size / by_numpy:.2e}",
                f"{x.size / alone:.2e}",
                f"{by_numpy / alone:.1f}",
                f"{x.size / together:.2e}",
                f"{by_numpy / together:.1f}",
            )
    return table


def several(x: NDArray[Any], repetitions: int) -> str:
    """What eight recipes cost in one pass, as a share of eight passes."""
    recipes = [numscope.recipe(name) for name in EIGHT]
    source = InMemory(x)
    together, *alone = medians(
        repetitions,
        partial(streaming.measure, source, recipes),
        *(partial(streaming.measure, source, [recipe]) for recipe in recipes),
    )
    return f"8 recipes in one pass: {together / sum(alone):.2f} of the time of 8 passes"


def _check(x: NDArray[Any], recipe: Recipe) -> None:
    """Both must do the same work to be compared."""
    (found,) = streaming.measure_array(x[:256], [recipe])
    assert_agree(record(found), plain.measure(x[:256], recipe))


def medians(repetitions: int, *contenders: Callable[[], Any]) -> list[float]:
    """Seconds per call of each, taking turns."""
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(repetitions):
        for contender, seconds in zip(contenders, times, strict=True):
            start = time.perf_counter()
            contender()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]
