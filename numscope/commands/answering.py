"""The console that answers go to, whose reader may leave before the end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


#: Columns of what is no terminal: no line is broken for a file or another program.
_UNBOUNDED = 1_000_000


@contextmanager
def answering() -> Iterator[Console]:
    """The console of the answer; that its reader has enough at some time is no failure."""
    from rich.console import Console  # noqa: PLC0415 (`--help` needs none)

    try:
        if sys.stdout is None:
            yield Console(file=io.StringIO())
        else:
            yield Console(width=None if sys.stdout.isatty() else _UNBOUNDED)
        if sys.stdout:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich exits for a broken pipe
        stop_writing(sys.stdout)


def stop_writing(stream: TextIO) -> None:
    """Send the rest nowhere, lest the interpreter complain of a broken pipe at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
