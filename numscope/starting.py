"""The first moments of the command: Ctrl-C while modules are imported ends the process quietly.

Python imports a package before anything in it runs, so the package asks for this in its first line.
In a process that only uses the package nothing happens here. This module imports nothing that takes
time.
"""

from __future__ import annotations

import os
import signal
import sys

#: The exit code of what Ctrl-C has ended.
INTERRUPTED = 130


def is_command() -> bool:
    """Whether the process is the command: `numscope` or, as it stands now, `python -m numscope`."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # until the module is found
        return "numscope" in sys.orig_argv
    return os.path.basename(program).partition(".")[0] == "numscope"  # noqa: PTH119 (quick)


def begin() -> None:
    """From now on Ctrl-C ends the command without a word, unless it is to be ignored."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def finish() -> None:
    """From now on Ctrl-C raises `KeyboardInterrupt` again: all is imported."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: object) -> None:
    os._exit(INTERRUPTED)
