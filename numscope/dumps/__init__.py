"""Reading dumps: from a folder to `TensorRef`s, and from a `TensorRef` to its values.

`scan` finds and names tensors, `open` gives the tensors of one file to read in blocks of rows, and
`load` reads a whole one. A file format is one entry of `files.FILE_FORMATS` and one module; a
layout (from names to identities) is one entry of `layouts.LAYOUTS` and one module of `writers`.
Nothing in a file is ever executed, and nothing here computes.
"""

from numscope.dumps.arrays import StoredArray
from numscope.dumps.files import DumpFile, open_file
from numscope.dumps.loading import load
from numscope.dumps.refs import KINDS, Key, Kind, Problem, Scan, TensorRef
from numscope.dumps.scanning import scan
from numscope.dumps.summaries import KindSummary, LayoutSummary, summarize

open = open_file  # noqa: A001 -- `dumps.open` reads well; nothing in this package means the built-in

__all__ = [
    "KINDS",
    "DumpFile",
    "Key",
    "Kind",
    "KindSummary",
    "LayoutSummary",
    "Problem",
    "Scan",
    "StoredArray",
    "TensorRef",
    "load",
    "open",
    "open_file",
    "scan",
    "summarize",
]
