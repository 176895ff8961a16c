"""From parts to tables: all rows in order, written as they pass; what is missing is told.

The dump is not looked at: a run's tables follow from its parts alone, whoever has measured them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from numscope import amounts
from numscope.dumps import Problem
from numscope.parts import Origin, read_part
from numscope.results import Results
from numscope.sorting import sorted_rows
from numscope.tables import LayerRow, LayerSums, Row

_OUTDATED = "was made of earlier tables: removed"


@dataclass(slots=True)
class Merged:
    """What the parts gave.

    Attributes
    ----------
    layers
        The rows of layers.csv; none if no part has a row, and then no table is written.
    tensors
        How many tensors have rows.
    missing
        The files that have no part.
    problems
        What the parts say could not be read, and what is remarkable about the rows.
    """

    layers: list[LayerRow] = field(default_factory=list)
    tensors: int = 0
    missing: list[Origin] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def merge(results: Results, files: Sequence[Origin]) -> Merged:
    """Write tensors.csv and layers.csv from the parts of these files.

    Raises
    ------
    ResultsError
        If they cannot be written.
    """
    merged = Merged()
    rows = sorted_rows(_rows(results.parts, files, merged), results.parts)
    first = next(rows, None)
    if first is not None:
        sums, tensors = LayerSums(), _Tensors()
        results.keep_tensors(_passing(chain([first], rows), sums, tensors))
        merged.layers = sums.rows()
        outdated = results.keep_layers(merged.layers)
        merged.problems.extend(Problem(str(each), _OUTDATED, failure=False) for each in outdated)
        merged.tensors = tensors.count
        merged.problems.extend(tensors.remarks())
    return merged


def _rows(folder: Path, files: Iterable[Origin], merged: Merged) -> Iterator[Row]:
    for file in files:
        part = read_part(folder, file)
        if part is None:
            merged.missing.append(file)
            continue
        merged.problems.extend(part.problems)
        yield from part.rows


def _passing(rows: Iterable[Row], sums: LayerSums, tensors: _Tensors) -> Iterator[Row]:
    for row in rows:
        sums.add(row)
        tensors.add(row)
        yield row


class _Tensors:
    """Counts tensors, and those that are not finite, as their rows pass one after the other."""

    def __init__(self) -> None:
        self.count = 0
        self._last: tuple[str, str] | None = None
        self._worst: Row | None = None
        self._not_finite = 0

    def add(self, row: Row) -> None:
        name = (row.path, row.key)
        if name == self._last:
            return
        self._last = name
        self.count += 1
        if _not_finite(row):
            self._not_finite += 1
            if self._worst is None or _not_finite(row) > _not_finite(self._worst):
                self._worst = row

    def remarks(self) -> list[Problem]:
        """One remark if any tensor holds NaN or infinite values, about the one with the most."""
        worst = self._worst
        if worst is None:
            return []
        where = f"{worst.path}:{worst.key}" if worst.key else worst.path
        others = amounts.others(self._not_finite - 1, "tensor")
        message = (
            f"holds {worst.nan_count:,} NaN and"
            f" {amounts.counted(worst.inf_count, 'infinite value')},"
            f" which are counted and left out of every sum{others}"
        )
        return [Problem(where, message, failure=False)]


def _not_finite(row: Row) -> float:
    """The share of values that are NaN or infinite."""
    return (row.nan_count + row.inf_count) / max(1, row.count)
