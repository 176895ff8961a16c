"""TOML files that a user wrote: their content, or one line about what is wrong with them.

Nothing here knows what they are for.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from numscope.errors import UsageError


def read(path: str | Path) -> dict[str, Any]:
    """What a TOML file says.

    Raises
    ------
    UsageError
        If there is no such file, or it is none of TOML.
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        repr(found)  # dotted keys can nest deeper than what quotes them later can follow
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no TOML file: {error}") from error
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply") from None
    return found
