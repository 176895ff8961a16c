"""The standard streams of a process that somebody else has set up: closed, full, or without reader.

Nothing here knows what is said on them.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any


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


def _occupy(number: int) -> None:
    """Open nothing under the number of a stream that is closed, the lowest that is free."""
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)
