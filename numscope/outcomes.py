"""What measuring a dump file gave, and whether it may be believed: files change meanwhile.

One that grows is still being written and is left for the next run; nothing here reads values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numscope.dumps import DumpFile, Problem
from numscope.dumps.folders import folder_at
from numscope.errors import DumpError
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
    now = folder_at(file.root).stamp(file.path)
    if now and file.stamp and now.size > file.stamp.size:
        return _left(file)
    return FileResult(file, (), (Problem(file.path, str(error)),))


def believed(result: FileResult, dump: DumpFile) -> FileResult:
    """The result, unless the file was changed meanwhile."""
    file = result.work
    if file.stamp is None:
        return result
    try:
        now = dump.stamp_now
    except DumpError as error:
        return unread(file, error)
    if now.size > dump.stamp.size:
        return _left(file)
    if not result.problems and now != dump.stamp:
        message = "was changed while it was being read; the next run measures it again"
        return FileResult(file, (), (Problem(file.path, message),))
    if not result.problems and dump.stamp != file.stamp:
        message = "was replaced since it was scanned"
        return replace(result, problems=(Problem(file.path, message, failure=False),))
    return result


def _left(file: FileWork) -> FileResult:
    """The result of a file that is not yet whole."""
    message = "is still being written: it has grown since it was scanned; left for the next run"
    return FileResult(file, (), (Problem(file.path, message, failure=False),))
