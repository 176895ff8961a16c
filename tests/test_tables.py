"""The tables keep every bit, add up, and appear whole or not at all."""

from __future__ import annotations

import math
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope import measure, recipe, tables, writing
from numscope.errors import ResultsError
from numscope.measure import ErrorSums
from numscope.tables import LayerRow, Measured, Row
from tests.examples import SUMS, gradient, layer_rows, row

# Literally as in DESIGN.md, section 6, with what came later at the end: other people's scripts
# depend on names and order.
TENSOR_COLUMNS = (
    "step,tokens,rank,microbatch,layer,kind,module,path,key,rows,cols,dtype,recipe,element,tile,scale,"
    "count,zeros,nan_count,inf_count,underflow_count,saturated_count,sum_xx,sum_yy,sum_xy,sum_ee,amax,max_abs_error,"
    "row_count,zero_rows,flushed_rows,sum_row_cosine,min_row_cosine,tile_count,zero_tiles,scale_min,scale_max,tile_range_log2_max,"
    "underflow,underflow_nonzero,zeros_after,saturated,distortion,cosine,sqnr_db,mse,relative_error,"
    "overflow_count,overflow_zeros,overflow"
)
LAYER_COLUMNS = (
    "tokens,step,layer,kind,recipe,element,tile,scale,tensors,"
    + TENSOR_COLUMNS[TENSOR_COLUMNS.index("count,zeros") :]
)


def _header(text: str) -> str:
    return text.split("\n", 1)[0]


def test_tensors_csv_has_the_documented_columns() -> None:
    assert _header(tables.to_csv([], Row)) == TENSOR_COLUMNS


def test_layers_csv_has_the_documented_columns() -> None:
    assert _header(tables.to_csv([], LayerRow)) == LAYER_COLUMNS


@pytest.mark.parametrize(("kind", "columns"), [(Row, TENSOR_COLUMNS), (LayerRow, LAYER_COLUMNS)])
def test_a_rows_fields_are_the_columns(kind: type[Measured], columns: str) -> None:
    assert {field.name for field in fields(kind)} == set(columns.split(","))


def test_a_line_of_tensors_csv() -> None:
    header, line, end = tables.to_csv([row()], Row).split("\n")
    assert (header, end) == (TENSOR_COLUMNS, "")
    assert line == (
        "60,30720,,,4,gradient,layers.4.mlp.fc1,step_000060.safetensors,layers.4.mlp.fc1.gradient,"
        "1,4,bfloat16,ling,float8_e4m3fn,1x128,float32,"
        "4,1,0,0,1,0,100.0,25.0,40.0,1.0,2.5,0.5,"
        "1,0,0,0.75,0.75,1,0,0.5,0.5,3.0,"
        "0.25,0.3333333333333333,0.5,0.0,0.75,0.8,20.0,0.25,0.1,"
        "0,0,0.0"
    )


def test_a_line_of_layers_csv() -> None:
    (header, line, end) = tables.to_csv(layer_rows(row(), row(rank=1)), LayerRow).split("\n")
    assert (header, end) == (LAYER_COLUMNS, "")
    assert line.startswith(
        "30720,60,4,gradient,ling,float8_e4m3fn,1x128,float32,2,8,2,0,0,2,0,200.0,"
    )


@pytest.mark.parametrize(
    ("shape", "rows", "cols"),
    [((3, 5), 3, 5), ((2, 3, 5), 6, 5), ((2, 1, 3, 1, 5), 6, 5), ((5,), 1, 5), ((), 1, 1)],
)
def test_rows_and_cols_are_those_of_the_flattened_tensor(
    shape: tuple[int, ...], rows: int, cols: int
) -> None:
    assert (row(shape=shape).rows, row(shape=shape).cols) == (rows, cols)


def test_a_key_is_joined_and_an_unknown_kind_is_empty() -> None:
    odd = row(key=("model", 3, "x"), kind=None)
    assert (odd.key, odd.kind) == ("model/3/x", "")


def test_the_label_names_the_series_and_the_tile_says_what_was_done() -> None:
    turned = row("ling:128x1", label="ling")
    assert (turned.recipe, turned.tile) == ("ling", "128x1")


def test_a_row_gives_back_the_sums_that_it_was_made_of() -> None:
    assert row().sums == SUMS


def test_rows_are_added_as_their_sums() -> None:
    other = replace(SUMS, count=7, sum_xx=1e16, amax=4.0, scale_min=0.125)
    rows = [row(), row(sums=other), row()]
    assert tables.added_rows(rows) == SUMS + other + SUMS


_VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**63),
    int | None: st.none() | st.integers(0, 2**63),
    float: st.floats(),
    str: st.text(st.characters(codec="utf-8")),
}


def _rows(kind: type[Any]) -> st.SearchStrategy[list[Any]]:
    values = {name: _VALUES[hint] for name, hint in get_type_hints(kind).items()}
    values["tile"] = st.sampled_from(["1x128", "128x1", "1x*", "*x*"])
    return st.lists(st.builds(kind, **values), max_size=3)


def _bits(value: Any) -> Any:
    """A value that is equal only for the same bits; all NaNs count as one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    return value


def _all_bits(rows: list[Any]) -> list[list[Any]]:
    return [[_bits(getattr(each, field.name)) for field in fields(each)] for each in rows]


@pytest.mark.parametrize("kind", [Row, LayerRow])
@given(data=st.data())
def test_reading_gives_the_bits_that_were_written(
    kind: Any, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(_rows(kind))
    path = tmp_path_factory.getbasetemp() / "round_trip.csv"
    tables.write_csv(path, rows, kind)
    assert _all_bits(tables.read_csv(path, kind)) == _all_bits(rows)


@pytest.mark.parametrize(
    "name", ["a,b", 'say "x"', "two\nlines", "\r", "\r\n", " x ", "é", "\x00", "'", "\ufeff", ""]
)
def test_odd_characters_in_names_survive(name: str, tmp_path: Path) -> None:
    path = tmp_path / "tensors.csv"
    tables.write_csv(path, [row(module=name, path=name, key=(name,))], Row)
    (back,) = tables.read_csv(path, Row)
    assert (back.module, back.path, back.key) == (name, name, name)


@pytest.mark.parametrize("value", [math.inf, -0.0, 5e-324, 1e-45, 1 / 3, 1.7976931348623157e308])
def test_extreme_floats_survive(value: float, tmp_path: Path) -> None:
    path = tmp_path / "tensors.csv"
    tables.write_csv(path, [row(sums=ErrorSums(sum_xx=value, scale_min=value))], Row)
    (back,) = tables.read_csv(path, Row)
    assert (_bits(back.sum_xx), _bits(back.scale_min)) == (_bits(value), _bits(value))


def test_a_file_name_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    name = b"step_\xff.npy".decode(errors="surrogateescape")
    tables.write_csv(tmp_path / "tensors.csv", [row(path=name)], Row)
    (back,) = tables.read_csv(tmp_path / "tensors.csv", Row)
    assert back.path == r"step_\udcff.npy"


# Merging: parts add up to the whole.

COUNTS = [name for name, hint in get_type_hints(ErrorSums).items() if hint is int]
SUM_NAMES = ["sum_xx", "sum_yy", "sum_xy", "sum_ee", "sum_row_cosine"]
EXTREMES = [
    *("amax", "max_abs_error", "min_row_cosine", "scale_min", "scale_max", "tile_range_log2_max")
]


@given(
    cuts=st.lists(st.integers(1, 39), unique=True, max_size=4).map(sorted),
    cols=st.integers(1, 300),
    seed=st.integers(0, 9),
)
def test_merged_parts_equal_the_whole(cuts: list[int], cols: int, seed: int) -> None:
    ling = recipe("ling")
    x = gradient(40, cols, seed)
    parts = [
        row(sums=measure(part, ling), microbatch=i) for i, part in enumerate(np.split(x, cuts))
    ]
    (merged,) = tables.merge_layers(parts)
    (whole,) = tables.merge_layers([row(sums=measure(x, ling))])
    assert merged.tensors == len(cuts) + 1
    for name in (*COUNTS, *EXTREMES):
        assert getattr(merged, name) == getattr(whole, name), name
    for name in (*SUM_NAMES, "distortion", "cosine", "mse", "sqnr_db", "relative_error"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), rel=1e-12), name
    assert merged.underflow == whole.underflow


def test_ratios_of_a_merged_row_follow_from_the_sums_not_from_the_ratios() -> None:
    large = ErrorSums(count=90, underflow_count=9, row_count=9, sum_row_cosine=9.0)
    small = ErrorSums(count=10, underflow_count=6, row_count=1, sum_row_cosine=0.5)
    (merged,) = layer_rows(row(sums=large), row(sums=small, module="layers.4.attn.qkv"))
    assert (merged.underflow, merged.distortion) == (0.15, 0.95)


def test_modules_ranks_and_micro_batches_become_one_layer() -> None:
    rows = [
        row(module=module, rank=rank, microbatch=microbatch)
        for module in ("fc1", "fc2")
        for rank in (0, 1)
        for microbatch in (None, 3)
    ]
    (merged,) = layer_rows(*rows)
    assert (merged.tensors, merged.count) == (8, 32)


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": 30721},
        {"step": 61},
        {"layer": 5},
        {"layer": None},
        {"kind": "activation"},
        {"label": "mine"},
        {"recipe": "ling:128x1"},
        {"recipe": "e5m2"},
        {"recipe": "ling:e8m0"},
    ],
    ids=str,
)
def test_what_differs_in_more_than_the_module_stays_apart(other: dict[str, Any]) -> None:
    assert [each.tensors for each in layer_rows(row(), row(**other))] == [1, 1]


# Order.

ORDERED = [
    row(step=2),
    row(step=10, layer=1),
    row(step=10, layer=4, module="a"),
    row(step=10, layer=4, module="b"),
    row(step=10, layer=4, module="b", label="mine"),
    row("ling:128x1", step=10, layer=16),
    row(step=10, layer=16),
    row(step=10, layer=None),
    row(step=None),
]


@given(st.permutations(ORDERED))
def test_rows_are_sorted_whatever_their_order_was(rows: list[Row]) -> None:
    assert tables.sort_rows(rows) == ORDERED


@given(st.permutations(ORDERED))
def test_layers_do_not_depend_on_the_order_of_the_rows(rows: list[Row]) -> None:
    assert tables.to_csv(tables.merge_layers(rows), LayerRow) == tables.to_csv(
        tables.merge_layers(ORDERED), LayerRow
    )


def test_layers_are_sorted_by_tokens_with_the_unknown_last() -> None:
    merged = layer_rows(row(tokens=None), row(tokens=100, step=1), row(tokens=9, step=2))
    assert [each.tokens for each in merged] == [9, 100, None]


# Writing: whole or not at all.


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk: writing fails in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "tensors.csv"
    tables.write_csv(path, [row()], Row)
    before = path.read_bytes()
    with _files_of_at_most(1000), pytest.raises(ResultsError, match="File too large") as caught:
        tables.write_csv(path, [row()] * 100, Row)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_no_partial_file(tmp_path: Path) -> None:
    with _files_of_at_most(1000), pytest.raises(ResultsError):
        writing.write_bytes(tmp_path / "charts" / "a.png", bytes(2000))
    assert list(tmp_path.rglob("*.*")) == []


def test_nobody_sees_a_file_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    rename = Path.replace

    def watch(self: Path, target: Path) -> Path:
        seen.extend(path.name for path in tmp_path.iterdir() if not path.name.startswith("."))
        assert self.read_text() == "whole"
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", watch)
    writing.write_text(tmp_path / "findings.md", "whole")
    assert seen == []
    assert [path.name for path in tmp_path.iterdir()] == ["findings.md"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot write .*file/a\.csv: (Not a dir|File exists)"):
        writing.write_text(tmp_path / "file" / "a.csv", "")


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_whole_when_it_is_asked_whether_it_may_take_its_place(
    durable: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    seen: list[str] = []

    def look() -> None:
        (partial,) = tmp_path.glob(".a.*")
        seen.extend([path.read_text(), partial.read_text()])

    writing.write_text(path, "new", durable=durable, confirm=look)
    assert (seen, path.read_text()) == (["old", "new"], "new")


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("store/a.csv")
    (tmp_path / "new.csv").symlink_to("store/b.csv")
    for name in ("link.csv", "new.csv"):
        writing.write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
    assert {path.name: path.read_text() for path in (tmp_path / "store").iterdir()} == {
        "a.csv": "new",
        "b.csv": "new",
    }


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(ResultsError, match=f"cannot write .*/{name}: it is no regular file"):
            writing.write_text(tmp_path / name, "")
    assert (tmp_path / "pipe").is_fifo()
    with (tmp_path / "file").open("wb") as file:
        for name in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            with pytest.raises(ResultsError, match="it is no regular file"):
                writing.write_text(Path(name), "lost to whoever has the file")


# Reading.


def test_columns_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    header, line, _ = tables.to_csv([row()], Row).split("\n")
    (tmp_path / "t.csv").write_text(f"{header},later\n{line},7\n")
    assert tables.read_csv(tmp_path / "t.csv", Row) == [row()]


def _without_a_column(text: str) -> str:
    return text.replace("underflow_count", "underflows", 1)


def _with_a_word_for_a_number(text: str) -> str:
    return text.replace("30720", "many", 1)


def _with_half_a_line(text: str) -> str:
    return text[: len(text) - 60]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without_a_column, "is not a numscope table: no column underflow_count"),
        (_with_a_word_for_a_number, "cannot be read: invalid literal for int"),
        (_with_half_a_line, "cannot be read: "),
        (lambda text: text.replace("1x128", "wide"), "cannot be read: tile 'wide' is not written"),
        (lambda _: "", "is not a numscope table"),
        (lambda _: "<html>", "is not a numscope table"),
    ],
)
def test_a_damaged_table_is_refused_in_one_line(damage: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "tensors.csv"
    path.write_text(damage(tables.to_csv([row()], Row)))
    with pytest.raises(ResultsError) as caught:
        tables.read_csv(path, Row)
    message = str(caught.value)
    assert message.startswith(f"{path} {words}")
    assert "\n" not in message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ResultsError, match=r"t\.csv cannot be read"):
        tables.read_csv(tmp_path / "t.csv", Row)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"t\.csv cannot be read: No such file or directory$"):
        tables.read_csv(tmp_path / "t.csv", Row)
