"""What a careful reader of the charts' tables would point at, and in which words.

`find` is what the commands call. Everything follows from the tables alone; nothing here prints,
draws or reads a file. To look for something new, add a function to the module of its sort and call
it in `search`.
"""

from __future__ import annotations

from numscope.findings.finding import Finding, FindingKind
from numscope.findings.search import find
from numscope.findings.worst import Worst, is_lossless, worst
from numscope.findings.writing import text, to_csv, to_json

__all__ = [
    "Finding",
    "FindingKind",
    "Worst",
    "find",
    "is_lossless",
    "text",
    "to_csv",
    "to_json",
    "worst",
]
