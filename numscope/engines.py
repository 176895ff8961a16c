"""What to map with: here, threads. An engine applies a function to items and keeps their order.

Nothing here knows what the function does. The loops that numscope compiles release the
interpreter's lock, so threads are enough on one machine.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
U = TypeVar("U")

#: Makes a context for each time that work waits for a file.
Waiting = Callable[[], AbstractContextManager[object]]

#: Seconds of a reading below which it is not worth handing the turn over.
_HANDOVER_SECONDS = 0.5e-3
#: How much of what is known of the time of a reading is of the last one.
_NEWEST_SHARE = 1 / 8


class Threads:
    """A pool of threads as a context manager; its `map` looks a bounded number of items ahead.

    Parameters
    ----------
    jobs
        How many compute at the same time.
    readers
        How many more may be waiting for files meanwhile, in the context `while_reading`.
    """

    def __init__(self, jobs: int, readers: int = 0) -> None:
        self._threads = jobs + readers
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="numscope")
        self._computing = threading.Semaphore(jobs)
        self._is_stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_stopping = error is not None
        self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
        """The results in the items' order.

        Items are taken in the calling thread, which may itself call `map` to make the next item.
        """
        ahead: deque[Future[U]] = deque()
        try:
            for item in items:
                ahead.append(self._pool.submit(self._call, function, item))
                if len(ahead) > 2 * self._threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._is_stopping = True  # the process is to end: pieces give up at their next reading
            raise
        finally:
            for future in ahead:
                future.cancel()
            wait(ahead)  # whatever the items use may be closed after this

    @contextmanager
    def while_reading(self) -> Iterator[None]:
        """Let another thread compute while this one, in a function of `map`, waits for a file.

        Raises
        ------
        concurrent.futures.CancelledError
            If the work is to stop.
        """
        self._computing.release()
        try:
            yield
        finally:
            self._computing.acquire()
        if self._is_stopping:
            raise CancelledError

    def _call(self, function: Callable[[T], U], item: T) -> U:
        with self._computing:
            return function(item)


class Turns:
    """Lets one thread at a time do what keeps the interpreter busy: several hinder each other.

    Parameters
    ----------
    while_reading
        Makes a context for each time that a thread waits for a file.
    """

    def __init__(self, while_reading: Waiting) -> None:
        self._waiting = while_reading
        self._turn = threading.Lock()
        self._reading_seconds = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The calling thread's turn."""
        with self._waiting():
            self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def while_reading(self) -> Iterator[None]:
        """Wait for a file; another thread has its turn meanwhile if files have lately been slow.

        Raises
        ------
        concurrent.futures.CancelledError
            If the work is to stop.
        """
        if self._reading_seconds < _HANDOVER_SECONDS:
            with self._timed():
                yield
            return
        self._turn.release()
        with self._waiting():
            try:
                with self._timed():
                    yield
            finally:
                self._turn.acquire()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        seconds = time.perf_counter() - begin
        self._reading_seconds += _NEWEST_SHARE * (seconds - self._reading_seconds)
