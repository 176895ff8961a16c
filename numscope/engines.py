"""What to map with: here, threads. An engine applies a function to items and keeps their order.

Nothing here knows what the function does. The loops that numscope compiles release the
interpreter's lock, so threads are enough on one machine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Threads:
    """A pool of threads as a context manager; its `map` looks a bounded number of items ahead."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="numscope")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
        """The results in the items' order.

        Items are taken in the calling thread, which may itself call `map` to make the next item.
        """
        ahead: deque[Future[U]] = deque()
        try:
            for item in items:
                ahead.append(self._pool.submit(function, item))
                if len(ahead) > 2 * self.jobs:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
            wait(ahead)  # whatever the items use may be closed after this


def usable_cpus() -> int:
    """How many CPUs this process may run on: its affinity, not the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
