"""Work on dump files → rows, given something to map with.

A dump file is opened once for all that is measured in it. Nothing here prints, writes or knows
where the results go.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from numscope import dumps, streaming, tables
from numscope.dumps import Kind, Problem, TensorRef
from numscope.engines import Threads, usable_cpus
from numscope.errors import DumpError
from numscope.measure import ErrorSums
from numscope.plans import DEFAULT_KINDS, FileWork, Selection, plan, schemes
from numscope.recipes import Recipe, Tile
from numscope.tables import Row


@dataclass(frozen=True, slots=True)
class FileResult:
    """What one dump file gave: rows in the order of its tensors, and what could not be read."""

    work: FileWork
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]


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
        results = list(measure_files(work, engine.map))
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
) -> Iterator[FileResult]:
    """Measure dump files, one result per file in their order.

    Parameters
    ----------
    work
        The files.
    over
        What to map pieces of work with; a large tensor has many, a small one is a single one. The
        rows do not depend on it.
    on_bytes
        Called now and then with how many bytes more have been measured or given up.
    """
    opened: dict[str, dumps.DumpFile] = {}
    done = over(_measure_piece, _pieces(work, over, opened))
    try:
        for file, pieces in groupby(done, key=lambda piece: piece.file):
            yield _file_result(file, pieces, on_bytes)
            if dump := opened.pop(file.path, None):
                dump.close()
    finally:
        if isinstance(done, Generator):
            done.close()  # nobody reads any more after this
        for dump in opened.values():
            dump.close()


def _file_result(
    file: FileWork, pieces: Iterable[_Piece], on_bytes: Callable[[int], object]
) -> FileResult:
    rows: list[Row] = []
    problems: list[Problem] = []
    pieces = _counted(pieces, file.bytes, on_bytes)
    for position, parts in groupby(pieces, key=lambda piece: piece.position):
        if position is None:
            problems.extend(Problem(file.path, str(part.outcome)) for part in parts)
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
    return FileResult(file, tuple(rows), tuple(problems))


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
    """A strip of a tensor to measure, or its outcome.

    `position` is the tensor's in its file, `None` for what is about the file; `indices` are the
    recipes of the reading.
    """

    file: FileWork
    position: int | None
    indices: list[int]
    reading: streaming.Reading | None
    start: int
    bytes: int = 0
    outcome: list[ErrorSums] | DumpError | None = None


def _pieces(
    work: Iterable[FileWork], over: streaming.Map[Any, Any], opened: dict[str, dumps.DumpFile]
) -> Iterator[_Piece]:
    """The strips of all tensors in order. Whoever takes the last one of a file closes the file."""
    for file in work:
        try:
            dump = dumps.open_file(file.root, file.path, npy_dtype=file.npy_dtype)
            opened[file.path] = dump
        except DumpError as error:
            yield _Piece(file, None, [], None, 0, outcome=error)
            continue
        for position, (ref, recipes) in enumerate(file.tensors):
            try:
                source = _array(dump, ref)
                wanted = [each.recipe for each in recipes]
                for indices, reading in streaming.readings(source, wanted, over):
                    # A further reading of the same tensor is no progress.
                    row_bytes = source.cols * source.dtype.itemsize if 0 in indices else 0
                    for start in reading.panels.strips:
                        rows = reading.panels.strip_stop(start) - start
                        yield _Piece(file, position, indices, reading, start, rows * row_bytes)
            except DumpError as error:
                yield _Piece(file, position, [], None, 0, outcome=error)


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


def _measure_piece(piece: _Piece) -> _Piece:
    if piece.reading is None:
        return piece
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
        if isinstance(piece.outcome, DumpError):
            failed = failed or piece.outcome
            continue
        for index, record in zip(piece.indices, piece.outcome or (), strict=True):
            records[index] = records[index] + record if index in records else record
    if failed:
        raise failed
    return records
