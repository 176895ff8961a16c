"""JSON as every reader takes it: without the NaN and the infinities that Python would write.

Nothing here knows what is said.
"""

from __future__ import annotations

import json
import math


def number(value: float) -> float | None:
    """The value, or `None`, which is `null`, where it is not finite.

    >>> number(0.5), number(math.inf)
    (0.5, None)
    """
    return value if math.isfinite(value) else None


def text(content: object, *, indent: int | None = None, is_ascii: bool = True) -> str:
    r"""The content as JSON, with letters beyond ASCII as `\u00e9` or, if not `is_ascii`, as such.

    Raises
    ------
    ValueError
        If a number in it is not finite.
    """
    return json.dumps(content, indent=indent, ensure_ascii=is_ascii, allow_nan=False)
