"""Which files numscope has written, by what they say of themselves.

What somebody else has put beside them is left alone. Nothing here writes or removes a file.
"""

from __future__ import annotations

import re
from pathlib import Path

#: What pictures and pages name as their maker.
MAKER = "numscope"

_LONGEST = 2**16
#: By suffix, what stands near the beginning or the end of a file: in a picture's metadata, or as
#: the first line of a table or text.
_SIGNS = {
    ".png": rb"tEXtSoftware\0numscope",
    ".svg": rb"<dc:title>numscope</dc:title>",
    ".pdf": rb"/Creator \(numscope\)",
    ".html": rb'<meta name="generator" content="numscope">',
    ".md": rb"\A# Comparison\n",
    ".csv": rb"\A(?:(?:tokens|step)[0-9,]*\n|metric,recipe,tile,bits,|kind,layer,recipe,nearest,"
    rb"|chart,run,layer,x_name,)",
}


def is_own(path: Path) -> bool:
    """Whether a file is a chart or its table, a page, an advice or a comparison of numscope's.

    So is an empty one of such a name, which the loss of a machine may leave. What cannot be read is
    somebody else's.
    """
    sign = _SIGNS.get(path.suffix)
    if sign is None:
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_LONGEST)
            file.seek(max(len(head), path.stat().st_size - _LONGEST))
            return not head or re.search(sign, head + file.read()) is not None
    except OSError:
        return False
