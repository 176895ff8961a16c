"""Asking a server that may go away, as fsspec and what it uses would go on to do for ever.

An answer is waited for only so long, and a server that has been silent is not asked for a while, so
that a run over many files ends. Nothing here knows what is asked.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import lru_cache
from typing import Any

#: Seconds that the answer to one question may take: some megabytes over a slow line.
_ANSWER_SECONDS = 60.0
#: Seconds without any answer, from the first question on, after which a server is taken to be gone;
#: and seconds until it is asked once more.
_SILENCE_SECONDS = 60.0

#: Errors that are answers.
_ANSWERS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class NoAnswer(Exception):
    """A server did not answer."""


class Server:
    """Whoever answers the questions of a file system of fsspec; safe from any thread.

    Parameters
    ----------
    clock
        Seconds, for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answered = -math.inf
        self._silent_since: float | None = None
        self._failed = 0.0

    def ask(
        self,
        question: Callable[..., Any],
        *arguments: Any,
        patience: float | None = None,
        **options: Any,
    ) -> Any:
        """What a question gives: a method of a file system of the server's.

        It is waited for `patience` seconds at most, as long as some megabytes may take if `None`.

        Raises
        ------
        NoAnswer
            If it takes too long, or the server has not answered others for long.
        Exception
            What the question raises.
        """
        begin = self._clock()
        self._refuse_if_gone(begin)
        try:
            answer = _within(patience or _ANSWER_SECONDS, question, *arguments, **options)
        except _ANSWERS:
            self._note_answer()
            raise
        except Exception:
            with self._lock:
                self._failed = self._clock()
                if self._silent_since is None:  # others may have been answered meanwhile
                    self._silent_since = max(begin, self._answered)
            raise
        self._note_answer()
        return answer

    def _note_answer(self) -> None:
        with self._lock:
            self._answered = self._clock()
            self._silent_since = None

    def _refuse_if_gone(self, now: float) -> None:
        with self._lock:
            since, failed = self._silent_since, self._failed
        if since is None or failed - since < _SILENCE_SECONDS:
            return
        if now - failed < _SILENCE_SECONDS:
            raise NoAnswer(f"the server has not answered for {round(now - since)} s")


@lru_cache(maxsize=64)
def server_of(files: Any) -> Server:  # noqa: ARG001 (one for each)
    """The server behind a file system, the same for all who ask."""
    return Server()


def _within(seconds: float, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a call gives, if that comes in time; else nobody waits for it any more."""
    outcome: Future[Any] = Future()

    def work() -> None:
        try:
            outcome.set_result(call(*arguments, **options))
        except BaseException as error:  # noqa: BLE001 (for whoever asked)
            outcome.set_exception(error)

    threading.Thread(target=work, name="numscope-question", daemon=True).start()
    wait([outcome], seconds)
    if not outcome.done():
        raise NoAnswer(f"no answer within {seconds:.0f} s")
    return outcome.result()
