"""Rows are sorted the same way however few of them fit into memory, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from numscope import sorting, tables
from numscope.errors import ResultsError
from tests.examples import row

ROWS = [
    row(step=step, rank=rank, layer=layer, module=f"layers.{layer}\r,{name}")
    for step in (0, None, 60)
    for rank in (None, 0, 3)
    for layer in (0, 12)
    for name in ("b", "a")
]


@pytest.mark.parametrize("fit", [1, 2, 7, 36, 37, 100])
def test_any_number_of_rows_is_sorted(
    fit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "ROWS_IN_MEMORY", fit)
    shuffled = ROWS[::2] + ROWS[-1::-2]
    assert list(sorting.sorted_rows(shuffled, tmp_path)) == tables.sort_rows(ROWS)
    assert list(tmp_path.iterdir()) == []


def test_no_rows_are_no_rows(tmp_path: Path) -> None:
    assert list(sorting.sorted_rows([], tmp_path)) == []


def test_no_room_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "ROWS_IN_MEMORY", 2)
    with pytest.raises(ResultsError, match=r"cannot sort rows in .*missing: No such file"):
        list(sorting.sorted_rows(ROWS, tmp_path / "missing"))
