"""How commands end: the exit codes, in one place.

0 is done, 1 nothing could be done, 2 wrong usage, 3 done but some inputs could not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numscope.errors import UsageError

if TYPE_CHECKING:
    from numscope.dumps import Problem

NOTHING_DONE, WRONG_USAGE, INCOMPLETE = 1, 2, 3


def exit_code_of(problems: Sequence[Problem]) -> int:
    """The exit code of what is done but for these problems."""
    return INCOMPLETE if any(each.failure for each in problems) else 0


def exit_code(error: Exception) -> int:
    """The exit code after an error."""
    return WRONG_USAGE if isinstance(error, UsageError) else NOTHING_DONE
