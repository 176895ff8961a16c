"""Who measures: the threads of this process, or the workers of a Dask cluster.

Both give results and keep each of them at once; only how the work is spread differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from numscope import clusters, resources, streaming
from numscope.analysis import Keep, measure_apart, measure_files
from numscope.engines import Threads
from numscope.outcomes import FileResult
from numscope.plans import FileWork

#: The share of the usable memory that tensors may take unless told.
_MEMORY_SHARE = 0.25

OnBytes = Callable[[int], object]


class Workers(Protocol):
    """Measures files, and keeps the results."""

    def results(
        self, work: Sequence[FileWork], keep: Keep, on_bytes: OnBytes
    ) -> Iterator[FileResult]:
        """The results as they are kept; `on_bytes` hears how many bytes more are measured."""


@contextmanager
def threads(jobs: int | None, memory: int | None, work: Sequence[FileWork]) -> Iterator[Workers]:
    """Threads of this process: as many as there are CPUs, as far as memory allows.

    Parameters
    ----------
    jobs
        How many compute; all usable CPUs if `None`.
    memory
        Bytes that they may hold together; a quarter of what is usable if `None`.
    work
        What they will measure.
    """
    recipes = {each.recipe for file in work for _, planned in file.tensors for each in planned}
    allowed = int(resources.usable_memory() * _MEMORY_SHARE) if memory is None else memory
    counts = resources.threads(_threads(jobs), allowed, streaming.working_bytes(recipes))
    with Threads(*counts) as engine:
        yield _Here(engine)


@contextmanager
def dask(
    scheduler: str | None,
    scheduler_file: Path | None,
    jobs: int | None,
    say: Callable[[str], object],
) -> Iterator[Workers]:
    """The workers of a Dask cluster, of a local one with `jobs` threads if none is named.

    `say` is told, now and then, that there are none.

    Raises
    ------
    EngineError
        If there is none.
    """
    with clusters.connected(scheduler, scheduler_file, _threads(jobs), say) as cluster:
        yield _There(cluster)


def _threads(jobs: int | None) -> int:
    return resources.usable_cpus() if jobs is None else jobs


class _Here:
    def __init__(self, engine: Threads) -> None:
        self._engine = engine

    def results(
        self, work: Sequence[FileWork], keep: Keep, on_bytes: OnBytes
    ) -> Iterator[FileResult]:
        engine = self._engine
        return measure_files(work, engine.map, on_bytes, engine.while_reading, keep)


class _There:
    def __init__(self, cluster: clusters.Cluster) -> None:
        self._cluster = cluster

    def results(
        self, work: Sequence[FileWork], keep: Keep, on_bytes: OnBytes
    ) -> Iterator[FileResult]:
        for result in measure_apart(work, self._cluster.map):
            keep(result)
            on_bytes(result.work.bytes)
            yield result
