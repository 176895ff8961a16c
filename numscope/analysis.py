"""Work on dump files → rows, given something to map with.

A dump file is opened once for all that is measured in it. A few small ones are a single piece of
work, a large one is measured strip by strip. Nothing here prints, writes or knows where the results
go.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, groupby
from typing import Any, NamedTuple

from numscope import dumps, streaming, tables
from numscope.dumps import Kind, Problem
from numscope.engines import Threads, Turns, Waiting
from numscope.errors import DumpError, EngineError
from numscope.growing import Growing
from numscope.outcomes import FileResult, believed, unread
from numscope.plans import DEFAULT_KINDS, FileWork, Selection, plan, schemes
from numscope.recipes import Recipe, Tile
from numscope.resources import usable_cpus
from numscope.strips import Strip, merged, strips
from numscope.tables import Row
from numscope.version import __version__

#: As `measure_apart` takes it.
Apart = Callable[
    [
        Callable[[FileWork], FileResult],
        Iterable[FileWork],
        Callable[[FileWork, str], FileResult],
    ],
    Iterator[FileResult],
]

#: What is done with a result as soon as it is there, in any thread.
Keep = Callable[[FileResult], FileResult]

#: Files whose tensors take no more bytes are measured by one thread, ...
SMALL_BYTES = 16 * 2**20
#: ... up to so many of them as one piece of work while they take no more than this together.
BUNDLE_FILES, BUNDLE_BYTES = 8, 2**20


def analyze(
    dump: str,
    recipes: Sequence[str | Recipe] | Mapping[str, Recipe] = ("ling",),
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
        Recipes, by name or written form or as values, or as a mapping from the names that they
        shall have in the tables. Gradients are also measured with each recipe's transpose.
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
    growing = Growing(found)
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
        *growing.settled(),
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
    keep: Keep = lambda result: result,
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
    keep
        Makes of each result the one that is given.
    """
    opened: dict[str, dumps.DumpFile] = {}
    done = over(
        partial(_measure_piece, turns=Turns(while_reading), while_reading=while_reading, keep=keep),
        _pieces(work, over, opened, while_reading),
    )
    parts = chain.from_iterable(done)
    try:
        for file, of_file in groupby(parts, key=lambda part: part.file):
            yield _put_together(file, opened, of_file, on_bytes, keep)
    finally:
        if isinstance(done, Generator):
            done.close()  # nobody reads any more after this
        for dump in opened.values():
            dump.close()


def measure_file(file: FileWork, while_reading: Waiting = nullcontext) -> FileResult:
    """Measure one dump file in this thread, as `measure_files` does."""
    try:
        with while_reading():
            dump = _open(file)
    except DumpError as error:
        return unread(file, error)
    with dump:
        done = map(Strip.measured, strips(file, dump, map, while_reading))
        return believed(_result(file, done), dump)


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


class _Part(NamedTuple):
    """A strip of a large file, to be measured or done, or all of a small one."""

    file: FileWork
    strip: Strip | None = None
    result: FileResult | None = None


def _pieces(
    work: Iterable[FileWork],
    over: streaming.Map[Any, Any],
    opened: dict[str, dumps.DumpFile],
    while_reading: Waiting,
) -> Iterator[Sequence[_Part]]:
    """Bundles of small files, and the strips of large ones, in order.

    Whoever takes the last strip of a file closes it.
    """
    for is_small, files in groupby(work, key=lambda file: file.bytes <= SMALL_BYTES):
        if is_small:
            yield from _bundles(files)
            continue
        for file in files:
            try:
                dump = opened[file.path] = _open(file)
            except DumpError as error:
                yield [_Part(file, result=unread(file, error))]
                continue
            yield from ([_Part(file, strip)] for strip in strips(file, dump, over, while_reading))


def _bundles(files: Iterable[FileWork]) -> Iterator[Sequence[_Part]]:
    """Files that are measured one after the other: fewer pieces cost less to pass around."""
    bundle: list[_Part] = []
    left = BUNDLE_BYTES
    for file in files:
        if bundle and (file.bytes > left or len(bundle) == BUNDLE_FILES):
            yield bundle
            bundle, left = [], BUNDLE_BYTES
        bundle.append(_Part(file))
        left -= file.bytes
    if bundle:
        yield bundle


def _measure_piece(
    piece: Sequence[_Part], turns: Turns, while_reading: Waiting, keep: Keep
) -> list[_Part]:
    if len(piece) == 1:
        done = [_measured(piece[0], while_reading)]
    else:
        with turns.taken():  # files so small that the loops over their values are the least of it
            done = [_measured(part, turns.while_reading) for part in piece]
    return [part._replace(result=keep(part.result)) if part.result else part for part in done]


def _measured(part: _Part, while_reading: Waiting) -> _Part:
    if part.strip:
        return part._replace(strip=part.strip.measured())
    return part._replace(result=part.result or measure_file(part.file, while_reading))


def _put_together(
    file: FileWork,
    opened: dict[str, dumps.DumpFile],
    parts: Iterable[_Part],
    on_bytes: Callable[[int], object],
    keep: Keep,
) -> FileResult:
    """The result of a file from its parts; its bytes are reported as they pass."""
    left = file.bytes
    results: list[FileResult] = []

    def passing() -> Iterator[Strip]:
        nonlocal left
        for part in parts:
            if part.result:
                results.append(part.result)
            if part.strip:
                on_bytes(part.strip.bytes)
                left -= part.strip.bytes
                yield part.strip

    result = _result(file, passing())
    on_bytes(left)
    dump = opened.pop(file.path, None)
    if dump is None:
        return results[0]
    with dump:
        return keep(believed(result, dump))


def _result(file: FileWork, done: Iterable[Strip]) -> FileResult:
    rows: list[Row] = []
    problems: list[Problem] = []
    for position, parts in groupby(done, key=lambda strip: strip.position):
        ref, recipes = file.tensors[position]
        try:
            records = merged(parts)
        except DumpError as error:
            problems.append(Problem(ref.name, str(error)))
            continue
        rows.extend(
            tables.row(ref, each.recipe, records[index], label=each.label)
            for index, each in enumerate(recipes)
        )
    return FileResult(file, tuple(rows), tuple(problems))


def _open(file: FileWork) -> dumps.DumpFile:
    return dumps.open_file(file.root, file.path, npy_dtype=file.npy_dtype)
