"""The standard streams of a process that somebody else has set up: closed, full, or without reader.

Nothing here knows what is said on them.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO


def settle() -> None:
    """Make stderr one that cannot fail, and see to it that no file gets a standard stream's number.

    What is said on stderr while it is full or nobody reads it is lost; the work goes on.
    """
    for number in range(3):
        _occupy(number)
    if sys.stderr is not None:
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(Unfailing(sys.stderr.fileno(), "w", closefd=False)),
            encoding=sys.stderr.encoding,
            errors=sys.stderr.errors,
            line_buffering=True,
        )


class Unfailing(io.FileIO):
    """A file that takes everything, and loses what cannot be written."""

    def write(self, content: Any, /) -> int:
        """Write, or do as if: how many bytes that were."""
        with suppress(OSError):
            written: int | None = super().write(content)
            if written is not None:  # as it is where it would have to wait for a reader
                return written
        return memoryview(content).nbytes


class ByLine(io.TextIOBase):
    """A text stream that passes on whole lines, each as `dress` makes it, in one piece.

    What threads write is put together apart, so that no line has parts of two.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, stream: TextIO, dress: Callable[[str], str]) -> None:
        self._stream = stream
        self._dress = dress
        self._begun = threading.local()

    def writable(self) -> bool:
        """That it is."""
        return True

    def fileno(self) -> int:
        """That of the stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Not: a line is the least that is written."""
        return False

    def write(self, text: str, /) -> int:
        """Pass on the lines that end in `text`, and keep the rest for the next time."""
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text = rest
        for line in lines:
            self._pass_on(line)
        return len(text)

    def flush(self) -> None:
        """Pass on what was begun, too, as a line."""
        rest, self._begun.text = getattr(self._begun, "text", ""), ""
        self._pass_on(rest)
        self._stream.flush()

    def _pass_on(self, line: str) -> None:
        if line.strip():
            self._stream.write(f"{self._dress(line)}\n")


def _occupy(number: int) -> None:
    """Open nothing under the number of a stream that is closed, the lowest that is free."""
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)
