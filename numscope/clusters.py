"""Mapping over the workers of a Dask cluster: items travel out and results come back, nothing else.

Nothing here knows what the function does. Dask is imported by the functions that need it.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numscope.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

T = TypeVar("T")
U = TypeVar("U")


class _Closing(Protocol):
    """What is to be closed in the end."""

    def close(self) -> object:
        """Close it."""


C = TypeVar("C", bound=_Closing)

#: Seconds that a scheduler has to answer.
_PATIENCE = 6.0
#: Seconds between two looks for a result while there is none.
_GLANCE = 0.01
#: Seconds without a result after which it is asked whether there is a worker, and without one
#: before that is said again.
_LONG, _VERY_LONG = 5.0, 60.0
#: So many items per thread of the cluster are on their way at once, and at least so many in all.
_AHEAD, _LEAST_AHEAD = 3, 16


class Cluster:
    """A connection to a cluster; see `connected`."""

    def __init__(self, client: Client, where: str, say: Callable[[str], object]) -> None:
        self._client = client
        self._where = where
        self._say = say

    def map(
        self,
        function: Callable[[T], U],
        items: Iterable[T],
        instead: Callable[[T, str], U],
    ) -> Iterator[U]:
        """The results as they come; a bounded number of items is on its way at once.

        Parameters
        ----------
        function, items
            Both can be pickled. An item of a worker that dies is given to another one.
        instead
            From an item that no worker survives or that the function fails for, and a message, to
            its result.

        Raises
        ------
        EngineError
            If the cluster is lost, or its workers cannot run the function at all.
        """
        from distributed import as_completed  # noqa: PLC0415 (an extra)

        waiting = iter(items)
        running: dict[Future, T] = {}
        done = as_completed()
        room = 0
        try:
            while True:
                if len(running) <= room // 2:
                    room = max(_AHEAD * self._threads(), _LEAST_AHEAD)
                    for item in islice(waiting, room - len(running)):
                        future = self._client.submit(function, item, pure=False)
                        running[future] = item
                        done.add(future)
                if not running:
                    return
                self._wait(done)
                future = next(done)
                if future.status == "lost":  # with the worker that held it: it is computed anew
                    done.add(future)
                    continue
                yield self._result(future, running.pop(future), instead)
        finally:
            self._client.cancel(list(running))

    def _wait(self, done: as_completed) -> None:
        """Wait for a result; while there is no worker that could give one, say so now and then."""
        look, spoken = time.monotonic() + _LONG, -math.inf
        while not done.has_ready():
            time.sleep(_GLANCE)
            now = time.monotonic()
            if now < look:
                continue
            look = now + _LONG
            if now - spoken >= _VERY_LONG and not self._threads():
                self._say(f"no worker is at the Dask scheduler at {self._where}: waiting for one")
                spoken = now

    def _threads(self) -> int:
        """How many threads the cluster has now."""
        try:
            return sum(self._client.nthreads().values())
        except OSError as error:
            raise EngineError(f"the Dask scheduler at {self._where} is gone") from error

    def _result(self, future: Future, item: T, instead: Callable[[T, str], U]) -> U:
        if future.status == "cancelled":
            raise EngineError(f"the Dask scheduler at {self._where} is gone")
        if future.status == "error":
            return instead(item, self._why(future.exception()))
        result: U = future.result()
        return result

    def _why(self, error: Exception) -> str:
        """What to say of an item that has failed with this error, if others may not.

        Raises
        ------
        EngineError
            If all would fail.
        """
        from distributed import KilledWorker  # noqa: PLC0415 (an extra)

        if isinstance(error, EngineError):
            raise error
        if isinstance(error, ImportError):
            raise EngineError(
                f"the Dask workers at {self._where} lack numscope: {error}; install it there too"
            ) from error
        if isinstance(error, KilledWorker):
            return "no Dask worker survived measuring it"
        text = " ".join(str(error).split())
        return f"a Dask worker failed at it: {type(error).__name__}{text and ': '}{text}"


@contextmanager
def connected(
    scheduler: str | None,
    scheduler_file: Path | None,
    jobs: int,
    say: Callable[[str], object] = lambda _: None,
) -> Iterator[Cluster]:
    """The cluster of that scheduler, or a local one for as long as the context lasts.

    Parameters
    ----------
    scheduler, scheduler_file
        The scheduler's address, or the file that it has written it to; a local cluster if neither.
    jobs
        How many threads a local cluster has.
    say
        Told, now and then, that there is no worker.

    Raises
    ------
    EngineError
        If Dask is not installed or no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 (an extra)
        from distributed.deploy.utils import nprocesses_nthreads  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(
            "--engine dask needs Dask; install it with pip install 'numscope[dask]'"
        ) from error
    _silence()
    if scheduler_file is not None:
        scheduler = _address_in(scheduler_file)
    if scheduler is None:
        processes, threads = nprocesses_nthreads(jobs)
        with _loop_of_quiet_processes() as loop:
            cluster = LocalCluster(
                n_workers=processes,
                threads_per_worker=threads,
                memory_limit=None,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # any port that is free
                silence_logs=logging.CRITICAL,
                loop=loop,
            )
            with _closed(cluster), _closed(Client(cluster)) as client:
                yield Cluster(client, "this machine", say)
        return
    try:
        _wait_for_greeting(scheduler)
        client = Client(scheduler, timeout=_PATIENCE)
    except Exception as error:  # whatever listens there may answer anything
        raise EngineError(f"no Dask scheduler answers at {scheduler}") from error
    with _closed(client):
        yield Cluster(client, scheduler, say)


@contextmanager
def _ending_with(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` in the end, unless the process is to end, which must not wait for that."""
    is_stopping = False
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        is_stopping = True
        raise
    finally:
        if not is_stopping:
            end()


@contextmanager
def _closed(closing: C) -> Iterator[C]:
    """Close it in the end, as `_ending_with` does."""
    with _ending_with(closing.close):
        yield closing


@contextmanager
def _loop_of_quiet_processes() -> Iterator[Any]:
    """A loop in a thread whose processes hear no Ctrl-C and do not talk of their end.

    They end with this process. Ctrl-C on a terminal is for all of its processes, and Python's say
    where it has met them.
    """
    from distributed.utils import LoopRunner  # noqa: PLC0415 (an extra)

    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    try:
        resource_tracker.ensure_running()  # with the options of now
    finally:
        sys.warnoptions.pop()
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        runner.start()  # what a thread blocks, so do the threads and processes that it starts
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with _ending_with(runner.stop):
        yield runner.loop


def _wait_for_greeting(address: str) -> None:
    import asyncio  # noqa: PLC0415 (takes a twentieth of the start of a run without Dask)

    asyncio.run(asyncio.wait_for(_greet(address), _PATIENCE))


async def _greet(address: str) -> None:
    """Exchange what tells a Dask scheduler from all else; a `Client` would wait for ever."""
    from distributed.comm import connect  # noqa: PLC0415 (an extra)
    from distributed.security import Security  # noqa: PLC0415 (an extra)

    arguments = Security().get_connection_args("client")
    comm = await connect(address, timeout=_PATIENCE, **arguments)
    try:
        await comm.write({"op": "identity", "reply": True})
        await comm.read()
    finally:
        comm.abort()


def _address_in(file: Path) -> str:
    """The address in a scheduler file, which the scheduler may be about to write."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            return str(json.loads(file.read_bytes())["address"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            if time.monotonic() > patience:
                message = f"no Dask scheduler has written its address to {file}"
                raise EngineError(message) from error
        time.sleep(0.1)


def _silence() -> None:
    """Keep Dask from telling the log what `Cluster` tells in its own words."""
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
