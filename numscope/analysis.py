"""Work on dump files → rows, given something to map with.

A dump file is opened once for all that is measured in it. A small one is a single piece of work, a
large one is measured strip by strip. Nothing here prints, writes or knows where the results go.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from numscope import dumps, streaming, tables
from numscope.dumps import Kind, Problem, TensorRef
from numscope.dumps.folders import folder_at
from numscope.engines import Threads
from numscope.errors import DumpError, EngineError
from numscope.measure import ErrorSums
from numscope.plans import DEFAULT_KINDS, FileWork, Selection, plan, schemes
from numscope.recipes import Recipe, Tile
from numscope.resources import usable_cpus
from numscope.tables import Row
from numscope.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Makes a context for each time that work waits for a file.
Waiting = Callable[[], AbstractContextManager[object]]

#: As `measure_apart` takes it.
Apart = Callable[
    [
        Callable[[FileWork], "FileResult"],
        Iterable[FileWork],
        Callable[[FileWork, str], "FileResult"],
    ],
    Iterator["FileResult"],
]

#: Files whose tensors take no more bytes are measured by one thread.
SMALL_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one dump file gave: rows in the order of its tensors, and what could not be read."""

    work: FileWork
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...] = ()


def analyze(
    dump: str,
    recipes: Sequence[str | Recipe] = ("ling",),
    *,
    tiles: Sequence[Tile] = (),
    kinds: Sequence[Kind] = DEFAULT_KINDS,
    layers: Collection[int] | None = None,
    steps: Collection[int] | None = None,
    module: str | None = None,
    jobs: int | None = None,
    **scan_options: Any,
) -> list[Row]:
    """Measure a dump folder: the rows of tensors.csv, sorted.

    Parameters
    ----------
    dump
        The folder, or a single file.
    recipes
        Recipes, by name or written form or as values. Gradients are also measured with each
        recipe's transpose.
    tiles
        Tile shapes to use instead of the recipes' own.
    kinds, layers, steps, module
        Which tensors, see `Selection`.
    jobs
        How many threads; as many as there are usable CPUs if `None`. The rows do not depend on it.
    scan_options
        As for `numscope.scan`: `tokens_per_step`, …

    Raises
    ------
    NothingToDo
        If there is no such tensor.

    Warns
    -----
    UserWarning
        For each file or tensor that could not be read.
    """
    found = dumps.scan(dump, **scan_options)
    selection = Selection(
        tuple(kinds),
        None if layers is None else frozenset(layers),
        None if steps is None else frozenset(steps),
        module,
    )
    work, remarks = plan(
        found, selection, schemes(recipes, tiles), npy_dtype=scan_options.get("npy_dtype")
    )
    with Threads(jobs or usable_cpus()) as engine:
        results = list(measure_files(work, engine.map, while_reading=engine.while_reading))
    problems = [
        *found.problems,
        *remarks,
        *(each for result in results for each in result.problems),
    ]
    for problem in problems:
        if problem.failure:
            warnings.warn(f"{problem.where}: {problem.message}", stacklevel=2)
    return tables.sort_rows(row for result in results for row in result.rows)


def measure_files(
    work: Iterable[FileWork],
    over: streaming.Map[Any, Any],
    on_bytes: Callable[[int], object] = lambda _: None,
    while_reading: Waiting = nullcontext,
) -> Iterator[FileResult]:
    """Measure dump files, one result per file in their order.

    Parameters
    ----------
    work
        The files.
    over
        What to map pieces of work with. The rows do not depend on it.
    on_bytes
        Called now and then with how many bytes more have been measured or given up.
    while_reading
        Makes a context for each time that a piece waits for a file.
    """
    opened: dict[str, dumps.DumpFile] = {}
    measure = partial(_measure_piece, while_reading=while_reading)
    done = over(measure, _pieces(work, over, opened, while_reading))
    try:
        for file, pieces in groupby(done, key=lambda piece: piece.file):
            yield _file_result(file, opened.get(file.path), _counted(pieces, file.bytes, on_bytes))
            if dump := opened.pop(file.path, None):
                dump.close()
    finally:
        if isinstance(done, Generator):
            done.close()  # nobody reads any more after this
        for dump in opened.values():
            dump.close()


def measure_file(file: FileWork, while_reading: Waiting = nullcontext) -> FileResult:
    """Measure one dump file in this thread, as `measure_files` does."""
    measure = partial(_measure_piece, while_reading=while_reading)
    try:
        with while_reading():
            dump = _open(file)
    except DumpError as error:
        return _unread(file, error)
    with dump:
        return _file_result(file, dump, map(measure, _strips(file, dump, map, while_reading)))


def measure_apart(work: Iterable[FileWork], over: Apart) -> Iterator[FileResult]:
    """Measure dump files where `over` likes, in any order; what fails there is tried once more.

    Parameters
    ----------
    work
        The files.
    over
        Maps a function over items, and gives what its last argument makes of an item if nobody can
        call the function and come back.
    """
    measure = partial(_measure_there, __version__)
    failed: list[FileWork] = []
    for result in over(measure, work, _lost):
        if any(each.failure for each in result.problems):
            failed.append(result.work)
        else:
            yield result
    yield from over(measure, failed, _lost)


def _measure_there(version: str, file: FileWork) -> FileResult:
    """Measure a file in another process.

    Raises
    ------
    EngineError
        If another version of numscope would do it.
    """
    if version != __version__:
        raise EngineError(
            f"a worker has numscope {__version__} instead of {version}; install the same"
        )
    return measure_file(file)


def _lost(file: FileWork, message: str) -> FileResult:
    return FileResult(file, (), (Problem(file.path, message),))


def _file_result(
    file: FileWork, dump: dumps.DumpFile | None, pieces: Iterable[_Piece]
) -> FileResult:
    rows: list[Row] = []
    problems: list[Problem] = []
    whole: FileResult | None = None
    for position, parts in groupby(pieces, key=lambda piece: piece.position):
        if position is None:
            whole = next(piece.result for piece in parts)
            continue
        ref, recipes = file.tensors[position]
        try:
            records = _merged(parts)
        except DumpError as error:
            problems.append(Problem(ref.name, str(error)))
            continue
        rows.extend(
            tables.row(ref, each.recipe, records[index], label=each.label)
            for index, each in enumerate(recipes)
        )
    return whole or _believed(FileResult(file, tuple(rows), tuple(problems)), dump)


def _counted(
    pieces: Iterable[_Piece], total: int, on_bytes: Callable[[int], object]
) -> Iterator[_Piece]:
    """The pieces of a file; its `total` bytes are reported as they pass, the rest at the end."""
    for piece in pieces:
        on_bytes(piece.bytes)
        total -= piece.bytes
        yield piece
    on_bytes(total)


class _Piece(NamedTuple):
    """A strip of a tensor to measure, or its outcome; or a whole file.

    `position` is the tensor's in its file, `None` for a whole file, which then has a `result`;
    `indices` are the recipes of the reading.
    """

    file: FileWork
    position: int | None = None
    indices: Sequence[int] = ()
    reading: streaming.Reading | None = None
    start: int = 0
    bytes: int = 0
    outcome: list[ErrorSums] | DumpError | None = None
    result: FileResult | None = None


def _pieces(
    work: Iterable[FileWork],
    over: streaming.Map[Any, Any],
    opened: dict[str, dumps.DumpFile],
    while_reading: Waiting,
) -> Iterator[_Piece]:
    """Small files, and the strips of large ones, in order.

    Whoever takes the last strip of a file closes it.
    """
    for file in work:
        if file.bytes <= SMALL_BYTES:
            yield _Piece(file)
            continue
        try:
            dump = opened[file.path] = _open(file)
        except DumpError as error:
            yield _Piece(file, result=_unread(file, error))
            continue
        yield from _strips(file, dump, over, while_reading)


def _strips(
    file: FileWork,
    dump: dumps.DumpFile,
    over: streaming.Map[Any, Any],
    while_reading: Waiting,
) -> Iterator[_Piece]:
    """The strips of all tensors of a file."""
    for position, (ref, recipes) in enumerate(file.tensors):
        try:
            source = _Waited(_array(dump, ref), while_reading)
            wanted = [each.recipe for each in recipes]
            for indices, reading in streaming.readings(source, wanted, over):
                # A further reading of the same tensor is no progress.
                row_bytes = source.cols * source.dtype.itemsize if 0 in indices else 0
                for start in reading.panels.strips:
                    rows = reading.panels.strip_stop(start) - start
                    yield _Piece(file, position, indices, reading, start, rows * row_bytes)
        except DumpError as error:
            yield _Piece(file, position, outcome=error)


class _Waited:
    """A stored tensor that is read inside a context."""

    def __init__(self, array: dumps.StoredArray, while_reading: Waiting) -> None:
        self._array = array
        self._while_reading = while_reading
        self.rows, self.cols, self.dtype = array.rows, array.cols, array.dtype

    def read(self, row_start: int, row_stop: int, col_start: int, col_stop: int) -> NDArray[Any]:
        """Read that part."""
        with self._while_reading():
            return self._array.read(row_start, row_stop, col_start, col_stop)


def _open(file: FileWork) -> dumps.DumpFile:
    return dumps.open_file(file.root, file.path, npy_dtype=file.npy_dtype)


def _unread(file: FileWork, error: DumpError) -> FileResult:
    """The result of a file that cannot be opened."""
    now = folder_at(file.root).stamp(file.path)
    if now and file.stamp and now.size > file.stamp.size:
        return _left(file)
    return FileResult(file, (), (Problem(file.path, str(error)),))


def _believed(result: FileResult, dump: dumps.DumpFile | None) -> FileResult:
    """The result, unless the file was changed meanwhile."""
    file = result.work
    if dump is None or file.stamp is None:
        return result
    try:
        now = dump.stamp_now
    except DumpError as error:
        return _unread(file, error)
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


def _array(dump: dumps.DumpFile, ref: TensorRef) -> dumps.StoredArray:
    """The tensor as it is in the file now.

    Raises
    ------
    DumpError
        If the file was replaced by another one since it was scanned.
    """
    array = dump.get(ref.key)
    if array is None or (array.shape, array.dtype.name) != (ref.shape, ref.dtype):
        raise DumpError("the file has changed since it was scanned")
    return array


def _measure_piece(piece: _Piece, while_reading: Waiting) -> _Piece:
    if piece.outcome or piece.result:
        return piece
    if piece.reading is None:
        return piece._replace(result=measure_file(piece.file, while_reading))
    try:
        return piece._replace(outcome=piece.reading.measure(piece.start), reading=None)
    except DumpError as error:
        return piece._replace(outcome=error, reading=None)


def _merged(pieces: Iterable[_Piece]) -> dict[int, ErrorSums]:
    """The records by recipe, the strips' added in order.

    Raises
    ------
    DumpError
        If a strip could not be read.
    """
    records: dict[int, ErrorSums] = {}
    failed: DumpError | None = None
    for piece in pieces:
        if isinstance(piece.outcome, list):
            for index, record in zip(piece.indices, piece.outcome, strict=True):
                records[index] = records[index] + record if index in records else record
        elif isinstance(piece.outcome, DumpError):
            failed = failed or piece.outcome
    if failed:
        raise failed
    return records
