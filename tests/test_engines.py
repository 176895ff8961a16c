"""An engine keeps the order, looks a bounded number of items ahead, and fails as the work fails."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator

import pytest

from numscope.engines import Threads, Turns
from numscope.resources import usable_cpus


def _square(n: int) -> int:
    return n * n


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    def late_if_early(n: int) -> int:
        time.sleep(0.002 * (n % 5 == 0))
        return n * n

    with Threads(jobs) as engine:
        assert list(engine.map(late_if_early, range(40))) == [n * n for n in range(40)]


def test_no_items_are_no_results() -> None:
    with Threads(2) as engine:
        assert list(engine.map(_square, [])) == []


def test_as_many_threads_work_as_there_are_jobs() -> None:
    together = threading.Barrier(3, timeout=10)
    with Threads(3) as engine:
        assert sorted(engine.map(lambda _: together.wait(), range(3))) == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_a_bounded_number_of_items_is_taken_ahead(jobs: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(1000):
            taken.append(n)
            yield n

    with Threads(jobs) as engine:
        ahead = [len(taken) - done for done, _ in enumerate(engine.map(_square, items()), 1)]
    assert max(ahead) == 2 * jobs


def test_items_are_taken_in_the_calling_thread() -> None:
    def items() -> Iterator[int]:
        for _ in range(5):
            yield threading.get_ident()

    with Threads(2) as engine:
        assert set(engine.map(lambda ident: ident, items())) == {threading.get_ident()}


def test_an_item_may_be_made_by_a_map_of_its_own() -> None:
    with Threads(1) as engine:

        def sums() -> Iterator[int]:
            for n in range(10):
                yield sum(engine.map(_square, range(n)))

        assert list(engine.map(_square, sums())) == [
            sum(k * k for k in range(n)) ** 2 for n in range(10)
        ]


def test_a_failure_comes_in_its_place_and_ends_the_map() -> None:
    def fails_at_3(n: int) -> int:
        if n == 3:
            raise ValueError("three")
        return n

    with Threads(2) as engine:
        results = engine.map(fails_at_3, itertools.count())
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(results)
        assert list(results) == []


def test_a_failure_of_the_items_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    with Threads(2) as engine, pytest.raises(OSError, match="no more"):
        list(engine.map(_square, items()))


def test_nothing_is_started_after_a_failure_and_nothing_runs_on() -> None:
    started: list[int] = []
    running: list[int] = []

    def work(n: int) -> None:
        started.append(n)
        if n == 0:
            raise ValueError("zero")
        running.append(n)
        time.sleep(0.05)
        running.remove(n)

    with Threads(2) as engine:
        with pytest.raises(ValueError, match="zero"):
            list(engine.map(work, range(100)))
        assert running == []
        count = len(started)
        assert count < 5
        time.sleep(0.1)
        assert len(started) == count


def test_a_map_that_is_closed_waits_for_what_is_running() -> None:
    running: list[int] = []

    def work(n: int) -> int:
        running.append(n)
        time.sleep(0.05 * (n > 0))
        running.remove(n)
        return n

    with Threads(2) as engine:
        results = engine.map(work, range(100))
        assert next(results) == 0
        results.close()  # type: ignore[attr-defined]
        assert running == []


def test_leaving_the_engine_ends_its_threads() -> None:
    before = threading.active_count()
    with Threads(4) as engine:
        list(engine.map(_square, range(50)))
        assert threading.active_count() == before + 4
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_only_cpus_that_this_process_may_use_count() -> None:
    allowed = os.sched_getaffinity(0)
    assert usable_cpus() == len(allowed)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)


# Waiting for files.


def test_while_one_waits_for_a_file_another_computes() -> None:
    read = threading.Event()

    with Threads(1, readers=1) as engine:

        def work(n: int) -> int:
            if n == 0:
                with engine.while_reading():
                    assert read.wait(10)
            else:
                read.set()
            return n

        assert list(engine.map(work, range(2))) == [0, 1]


def test_no_more_compute_at_once_than_there_are_jobs() -> None:
    computing: set[int] = set()
    most: list[int] = []

    with Threads(2, readers=3) as engine:

        def work(n: int) -> None:
            with engine.while_reading():
                time.sleep(0.002)
            computing.add(n)
            most.append(len(computing))
            time.sleep(0.002)
            computing.discard(n)

        list(engine.map(work, range(60)))
    assert max(most) == 2


def test_when_the_process_is_stopped_work_gives_up_at_its_next_reading() -> None:
    class Stopped(BaseException):
        """As a signal raises it."""

    read: list[int] = []

    def items() -> Iterator[int]:
        yield 0
        while not read:
            time.sleep(0.001)
        raise Stopped

    def run() -> None:
        with Threads(1) as engine:

            def work(_: int) -> None:
                while True:
                    with engine.while_reading():
                        read.append(1)

            list(engine.map(work, items()))

    with pytest.raises(Stopped):
        run()
    count = len(read)
    time.sleep(0.01)
    assert len(read) == count


def test_one_thread_at_a_time_has_its_turn() -> None:
    having: set[int] = set()
    most: list[int] = []

    with Threads(4) as engine:
        turns = Turns(engine.while_reading)

        def work(n: int) -> None:
            with turns.taken():
                with turns.while_reading():
                    pass
                having.add(n)
                most.append(len(having))
                time.sleep(0.001)
                having.discard(n)

        list(engine.map(work, range(40)))
    assert max(most) == 1


@pytest.mark.parametrize("is_slow", [False, True])
def test_the_next_has_its_turn_during_readings_once_they_have_been_slow(*, is_slow: bool) -> None:
    had = threading.Event()

    with Threads(1, readers=1) as engine:
        turns = Turns(engine.while_reading)

        def read() -> bool:
            with turns.taken():
                with turns.while_reading():
                    time.sleep(0.05 if is_slow else 0)
                with turns.while_reading():
                    return had.wait(10 if is_slow else 0.2)

        def work(n: int) -> bool:
            if n == 0:
                return read()
            with turns.taken():
                had.set()
            return True

        assert next(engine.map(work, range(2))) == is_slow
