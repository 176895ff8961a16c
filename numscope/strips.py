"""A dump file's tensors as strips, which are measured one by one and put together in order.

Nothing here knows who measures them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from numscope import streaming
from numscope.dumps import DumpFile, StoredArray, TensorRef
from numscope.engines import Waiting
from numscope.errors import DumpError
from numscope.measure import ErrorSums
from numscope.plans import FileWork

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Strip(NamedTuple):
    """A strip of a tensor to measure, or its outcome.

    `position` is the tensor's in its file; `indices` are the recipes of the reading; `bytes` are
    those that have not been read before.
    """

    position: int
    indices: Sequence[int]
    reading: streaming.Reading | None
    start: int
    bytes: int = 0
    outcome: list[ErrorSums] | DumpError | None = None

    def measured(self) -> Strip:
        """The strip with its outcome."""
        if self.reading is None:
            return self
        try:
            return self._replace(outcome=self.reading.measure(self.start), reading=None)
        except DumpError as error:
            return self._replace(outcome=error, reading=None)


def strips(
    file: FileWork,
    dump: DumpFile,
    over: streaming.Map[Any, Any],
    while_reading: Waiting,
) -> Iterator[Strip]:
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
                    yield Strip(position, indices, reading, start, rows * row_bytes)
        except DumpError as error:
            yield Strip(position, (), None, 0, outcome=error)


class _Waited:
    """A stored tensor that is read inside a context."""

    def __init__(self, array: StoredArray, while_reading: Waiting) -> None:
        self._array = array
        self._while_reading = while_reading
        self.rows, self.cols, self.dtype = array.rows, array.cols, array.dtype

    def read(self, row_start: int, row_stop: int, col_start: int, col_stop: int) -> NDArray[Any]:
        """Read that part."""
        with self._while_reading():
            return self._array.read(row_start, row_stop, col_start, col_stop)


def merged(found: Iterable[Strip]) -> dict[int, ErrorSums]:
    """The records by recipe, the strips' added in order.

    Raises
    ------
    DumpError
        If a strip could not be read.
    """
    records: dict[int, ErrorSums] = {}
    failed: DumpError | None = None
    for strip in found:
        if isinstance(strip.outcome, list):
            for index, record in zip(strip.indices, strip.outcome, strict=True):
                records[index] = records[index] + record if index in records else record
        elif isinstance(strip.outcome, DumpError):
            failed = failed or strip.outcome
    if failed:
        raise failed
    return records


def _array(dump: DumpFile, ref: TensorRef) -> StoredArray:
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
