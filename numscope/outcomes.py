"""What measuring a dump file gave, and whether it may be believed: files change meanwhile.

One that grows is still being written and is left for the next run; nothing here reads values.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from numscope import growing
from numscope.dumps import DumpFile, Problem
from numscope.dumps.folders import folder_at
from numscope.dumps.refs import Unread
from numscope.dumps.sources import Stamp
from numscope.errors import CutShort, DumpError
from numscope.plans import FileWork
from numscope.tables import Row


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one dump file gave: rows in the order of its tensors, and what could not be read."""

    work: FileWork
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...] = ()


def unread(file: FileWork, error: DumpError) -> FileResult:
    """The result of a file that cannot be opened."""
    folder = folder_at(file.root)
    now = folder.stamp(file.path)
    remark = None
    if now and file.stamp:
        seen = Unread(file.path, now, isinstance(error, CutShort))
        has_grown = now.size > file.stamp.size
        remark = _left(file) if has_grown else growing.evident(seen, folder, time.time())
    return FileResult(file, (), (remark or Problem(file.path, str(error)),))


def believed(result: FileResult, dump: DumpFile) -> FileResult:
    """The result, unless the file was changed meanwhile or since it was scanned, or still is."""
    file = result.work
    if file.stamp is None:
        return result
    try:
        now = dump.stamp_now
    except DumpError as error:
        return unread(file, error)
    doubt = _doubt(file, dump, now)
    if doubt is None or (doubt.failure and result.problems):
        return result
    return FileResult(file, (), (doubt,))


def _doubt(file: FileWork, dump: DumpFile, now: Stamp) -> Problem | None:
    """Why not to believe what was read of a file that has this stamp now."""
    if now.size > dump.stamp.size:
        return _left(file)
    if growing.is_recent(now, time.time()) and dump.has_writer:
        return Problem(file.path, growing.UNFINISHED, failure=False)
    if now != dump.stamp:
        message = "was changed while it was being read; the next run measures it again"
        return Problem(file.path, message)
    if dump.stamp != file.stamp:
        return Problem(file.path, "was replaced since it was scanned; the next run measures it")
    return None


def _left(file: FileWork) -> Problem:
    """The remark about a file that is not yet whole."""
    message = "is still being written: it has grown since it was scanned; left for the next run"
    return Problem(file.path, message, failure=False)
