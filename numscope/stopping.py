"""Ctrl-C and SIGTERM: a command stops at once, says one thing, and exits as shells expect.

The first signal raises `Stopped` in the main thread; if the command has then not ended in time, the
process is ended, which loses nothing since files appear whole or not at all. A second signal ends
it at once. Nothing here knows what is being stopped.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

#: Seconds from the signal to the end, whatever the process is waiting for.
GRACE = 1.5
#: Seconds that are left then to say why.
_SPEAKING_SECONDS = 0.2

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Added to the signal's number it is the exit code, as shells have it.
_FROM_SIGNAL = 128


class Stopped(BaseException):
    """Raised by a signal; no `Exception`, so that nobody takes it for a failure of their own."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__("interrupted" if number == signal.SIGINT else f"stopped by {name}")
        self.exit_code = _FROM_SIGNAL + number


class Stopping:
    """What happens at a signal; `advice` gives one more line to say, such as how to go on.

    `stopped` is what the signal has raised, `None` if there was none.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self.advice: Callable[[], str] = lambda: ""
        self._say = say
        self.stopped: Stopped | None = None
        self._timer: threading.Timer | None = None
        self._has_spoken = threading.Lock()

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Begin to stop.

        Raises
        ------
        Stopped
            The first time.
        """
        if self.stopped:
            end(self.stopped.exit_code)
        self.stopped = Stopped(number)
        self._timer = threading.Timer(GRACE, self._end, (self.stopped,))
        self._timer.daemon = True
        self._timer.start()
        raise self.stopped

    def speak(self, stopped: Stopped) -> None:
        """Say, once, what stopped the command and the advice."""
        if self._has_spoken.acquire(blocking=False):
            advice = self.advice()
            self._say(f"{stopped}; {advice}" if advice else str(stopped))

    def calm(self) -> None:
        """Let the process go on: the command has ended."""
        if self._timer:
            self._timer.cancel()

    def _end(self, stopped: Stopped) -> None:
        # What is said may wait for the file system that the process is waiting for.
        speaking = threading.Thread(target=self.speak, args=(stopped,), daemon=True)
        speaking.start()
        speaking.join(_SPEAKING_SECONDS)
        end(stopped.exit_code)


@contextmanager
def stoppable(say: Callable[[str], object]) -> Iterator[Stopping]:
    """Receive the signals as long as the context lasts, if this is the main thread."""
    stopping = Stopping(say)
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    hook = sys.unraisablehook

    def overhear(lost: sys.UnraisableHookArgs) -> None:
        # Who is called by C code cannot raise: the process goes on until its time is over.
        if not isinstance(lost.exc_value, Stopped):
            hook(lost)

    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stopping.receive) for number in heard}
    sys.unraisablehook = overhear
    try:
        yield stopping
    finally:
        stopping.calm()
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def is_stop(code: int) -> bool:
    """Whether this is the exit code of a command that a signal has stopped."""
    return code - _FROM_SIGNAL in _SIGNALS


def end(code: int) -> NoReturn:
    """End the process at once, whatever libraries would like to do in the end.

    With it end the processes that it has started with `multiprocessing`, which could be slow to.
    """
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            with suppress(OSError):
                child.kill()
    os._exit(code)
