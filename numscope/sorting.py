"""Rows in the tables' order, however many there are: sorted runs on disk, merged as they are read.

Nothing here computes; only a bounded number of rows is in memory.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from numscope import tables
from numscope.errors import ResultsError
from numscope.tables import Row

#: So many rows, of about 1.5 kB each, are sorted in memory.
ROWS_IN_MEMORY = 20_000


def sorted_rows(rows: Iterable[Row], folder: Path) -> Iterator[Row]:
    """The rows as `tables.sort_rows` sorts them.

    Parameters
    ----------
    rows
        In any order; taken at once.
    folder
        Where the runs are kept, in files without a name, if there are more than `ROWS_IN_MEMORY`.

    Raises
    ------
    ResultsError
        If there is no room for them.
    """
    rows = iter(rows)
    with ExitStack() as files:
        runs: list[Iterable[Row]] = []
        while len(last := tables.sort_rows(islice(rows, ROWS_IN_MEMORY))) == ROWS_IN_MEMORY:
            runs.append(_kept(last, folder, files))
        yield from heapq.merge(*runs, last, key=tables.order)


def _kept(rows: list[Row], folder: Path, files: ExitStack) -> Iterator[Row]:
    """The rows again, from a file that is gone when `files` is closed or the process ends."""
    try:
        lines = files.enter_context(
            tempfile.TemporaryFile(  # noqa: SIM115 (closed by `files`)
                "w+", dir=folder, encoding="utf-8", errors="backslashreplace", newline=""
            )
        )
        lines.write(tables.to_csv(rows, Row))
        lines.seek(0)
    except OSError as error:
        raise ResultsError(f"cannot sort rows in {folder}: {error.strerror}") from error
    return tables.from_csv(lines, Row, f"a sorted run in {folder}")
