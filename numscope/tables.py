"""The tables: one row per tensor and recipe, and the same merged to layers; CSV in and out.

A row's fields are the columns. Floats are written so that they read back to the same bits. Nothing
here measures: every number comes from an `ErrorSums`, and merging adds those.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from numscope.errors import ResultsError
from numscope.measure import ErrorSums, added_values
from numscope.writing import replacing
from numscope.written import parse_tile

if TYPE_CHECKING:
    from numscope.dumps.refs import TensorRef
    from numscope.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The part that both tables share: how it was quantized, the sums, and what follows from them.

    `recipe` is what the user asked for and groups a series; `element`, `tile` and `scale` say what
    was done, so a gradient's row and column tiles are two rows of one recipe.
    All other fields are those of `ErrorSums`.
    """

    recipe: str
    element: str
    tile: str
    scale: str
    count: int
    zeros: int
    nan_count: int
    inf_count: int
    underflow_count: int
    saturated_count: int
    sum_xx: float
    sum_yy: float
    sum_xy: float
    sum_ee: float
    amax: float
    max_abs_error: float
    row_count: int
    zero_rows: int
    flushed_rows: int
    sum_row_cosine: float
    min_row_cosine: float
    tile_count: int
    zero_tiles: int
    scale_min: float
    scale_max: float
    tile_range_log2_max: float
    underflow: float
    underflow_nonzero: float
    zeros_after: float
    saturated: float
    distortion: float
    cosine: float
    sqnr_db: float
    mse: float
    relative_error: float
    overflow_count: int
    overflow_zeros: int
    overflow: float

    @property
    def sums(self) -> ErrorSums:
        """The addable record that this row was derived from."""
        return ErrorSums(*_SUM_VALUES(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Measured):
    """One tensor under one recipe: a line of tensors.csv."""

    step: int | None
    tokens: int | None
    rank: int | None
    microbatch: int | None
    layer: int | None
    kind: str
    module: str
    path: str
    key: str
    rows: int
    cols: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(Measured):
    """All tensors of one layer, kind, step and recipe, merged: a line of layers.csv."""

    tokens: int | None
    step: int | None
    layer: int | None
    kind: str
    tensors: int


_ALL_SUM_NAMES = tuple(field.name for field in fields(ErrorSums))
_SUM_VALUES = attrgetter(*_ALL_SUM_NAMES)
#: Columns that came later stand at the end of the tables.
_LATER_NAMES = ("overflow_count", "overflow_zeros", "overflow")
_SUM_NAMES = tuple(name for name in _ALL_SUM_NAMES if name not in _LATER_NAMES)
_RATIO_NAMES = (
    "underflow",
    "underflow_nonzero",
    "zeros_after",
    "saturated",
    "distortion",
    "cosine",
    "sqnr_db",
    "mse",
    "relative_error",
)
_RECIPE_NAMES = ("recipe", "element", "tile", "scale")

TENSOR_COLUMNS: tuple[str, ...] = (
    *("step", "tokens", "rank", "microbatch", "layer", "kind", "module", "path", "key"),
    *("rows", "cols", "dtype"),
    *_RECIPE_NAMES,
    *_SUM_NAMES,
    *_RATIO_NAMES,
    *_LATER_NAMES,
)
_LAYER_KEY = ("tokens", "step", "layer", "kind", *_RECIPE_NAMES)
LAYER_COLUMNS: tuple[str, ...] = (
    *(*_LAYER_KEY, "tensors"),
    *_SUM_NAMES,
    *_RATIO_NAMES,
    *_LATER_NAMES,
)
_COLUMNS: dict[type, tuple[str, ...]] = {Row: TENSOR_COLUMNS, LayerRow: LAYER_COLUMNS}
_ORDER: dict[type, tuple[str, ...]] = {
    Row: (*TENSOR_COLUMNS[:9], *_RECIPE_NAMES),
    LayerRow: _LAYER_KEY,
}
_SORTED_BY = {kind: attrgetter(*names) for kind, names in _ORDER.items()}
_LAYER_VALUES = attrgetter(*_LAYER_KEY)
_VALUES = {kind: attrgetter(*columns) for kind, columns in _COLUMNS.items()}
_SURROGATES = "backslashreplace"


_R = TypeVar("_R", Row, LayerRow)


def row(ref: TensorRef, recipe: Recipe, sums: ErrorSums, *, label: str) -> Row:
    """The line of tensors.csv for `ref` quantized with `recipe`, under the name `label`."""
    *lead, cols = ref.shape or (1,)
    return Row(
        step=ref.step,
        tokens=ref.tokens,
        rank=ref.rank,
        microbatch=ref.microbatch,
        layer=ref.layer,
        kind=ref.kind or "",
        module=ref.module,
        path=ref.path,
        key=ref.key_text,
        rows=math.prod(lead),
        cols=cols,
        dtype=ref.dtype,
        recipe=label,
        element=recipe.element,
        tile=recipe.tile_text,
        scale=recipe.scale,
        **_numbers(sums),
    )


def merge_layers(rows: Iterable[Row]) -> list[LayerRow]:
    """All modules, ranks and micro-batches of each layer, kind, step and recipe as one row, sorted.

    The records are added in the order of `sort_rows`, so the result does not depend on the order of
    `rows`.
    """
    merged = LayerSums()
    for each in sort_rows(rows):
        merged.add(each)
    return merged.rows()


def added_rows(rows: Iterable[Measured]) -> ErrorSums:
    """The record of one row or more taken together, the same as of their `sums`, but sooner."""
    return added_values(map(_SUM_VALUES, rows))


class LayerSums:
    """Rows of tensors merged to rows of layers as they pass by in the order of `sort_rows`."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], tuple[int, ErrorSums]] = {}

    def add(self, row: Row) -> None:
        """Take one more row in."""
        key = _LAYER_VALUES(row)
        known = self._sums.get(key)
        self._sums[key] = (known[0] + 1, known[1] + row.sums) if known else (1, row.sums)

    def rows(self) -> list[LayerRow]:
        """The merged rows so far, sorted."""
        return sort_rows(
            LayerRow(**dict(zip(_LAYER_KEY, key, strict=True)), tensors=count, **_numbers(sums))
            for key, (count, sums) in self._sums.items()
        )


def sort_rows(rows: Iterable[_R]) -> list[_R]:
    """The rows in the tables' order: by identity, then by recipe; what is not known comes last."""
    return sorted(rows, key=order)


def order(row: Row | LayerRow) -> tuple[tuple[bool, Any], ...]:
    """What rows are sorted by."""
    values = _SORTED_BY[type(row)](row)
    return tuple((value is None, 0 if value is None else value) for value in values)


def write_csv(
    path: Path, rows: Iterable[_R], kind: type[_R], confirm: Callable[[], object] = lambda: None
) -> None:
    """Write rows of one kind, with a header, by rename into a folder that is there; none is kept.

    `confirm` is as for `writing.replacing`.

    Raises
    ------
    ResultsError
        If the file cannot be written.
    """
    with replacing(path, durable=True, inside=path.parent, confirm=confirm) as file:
        write = csv.writer(_Lines(lambda line: file.write(line.encode(errors=_SURROGATES))))
        write.writerow(_COLUMNS[kind])
        write.writerows(map(_VALUES[kind], rows))


def to_csv(rows: Iterable[_R], kind: type[_R]) -> str:
    r"""The rows as CSV text with a header and `\n` line ends; empty where a value is not known."""
    return csv_text([_COLUMNS[kind], *map(_VALUES[kind], rows)])


def csv_text(records: Iterable[Iterable[object]]) -> str:
    r"""The records as CSV text, a line each with `\n` at its end; `None` is an empty cell."""
    lines: list[str] = []
    csv.writer(_Lines(lines.append)).writerows(records)
    return "".join(lines)


class _Lines:
    r"""What a `csv.writer` writes to: its lines end in `\r\n` and are passed on with `\n`.

    Only so does the writer of Python 3.11 quote a name with `\r` in it.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def write(self, line: str) -> None:
        self._write(line.removesuffix("\r\n") + "\n")


def read_csv(path: Path, kind: type[_R]) -> list[_R]:
    """The rows of a table that `write_csv` wrote, equal to those that were written.

    Columns that this version does not know are ignored.

    Raises
    ------
    ResultsError
        If the file cannot be read or is not such a table.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(from_csv(file, kind, path))
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror or error}") from error


def from_csv(lines: Iterable[str], kind: type[_R], name: object) -> Iterator[_R]:
    """The rows that `to_csv` wrote, one after the other.

    Parameters
    ----------
    lines
        With their ends.
    kind
        Which table.
    name
        What to call it in messages.

    Raises
    ------
    ResultsError
        If it is not such a table.
    """
    columns = _COLUMNS[kind]
    readers = _READERS_OF[kind]
    try:
        records = csv.reader(lines)
        header = next(records, [])
        missing = set(columns) - set(header)
        if missing:
            raise ResultsError(f"{name} is not a numscope table: no column {min(missing)}")
        wanted = [(column, header.index(column), readers[column]) for column in columns]
        for record in records:
            if len(record) < len(header):
                raise ResultsError(f"{name} cannot be read: a line is too short")
            yield kind(**{column: read(record[place]) for column, place, read in wanted})
    except (ValueError, csv.Error) as error:
        raise ResultsError(f"{name} cannot be read: {error}") from error


def _numbers(sums: ErrorSums) -> dict[str, Any]:
    return {name: getattr(sums, name) for name in (*_SUM_NAMES, *_RATIO_NAMES, *_LATER_NAMES)}


def _optional_int(text: str) -> int | None:
    return int(text) if text else None


_READERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    str: str,
    int | None: _optional_int,
}


@cache
def _tile(text: str) -> str:
    """The text, if it is a tile: charts and recipes are told apart by it."""
    parse_tile(text)
    return text


def _readers(kind: type, columns: Iterable[str]) -> dict[str, Callable[[str], Any]]:
    """What reads each column of that kind of row."""
    types = get_type_hints(kind)
    return {name: _READERS[types[name]] for name in columns} | {"tile": _tile}


_READERS_OF = {kind: _readers(kind, columns) for kind, columns in _COLUMNS.items()}
