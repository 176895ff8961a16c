"""Reading by blocks: any block of any view equals the same block of the whole array."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope import dumps
from numscope.dumps import strided
from numscope.dumps.arrays import StoredArray, contiguous_array, packed_array, strided_array
from numscope.dumps.sources import MemorySource
from numscope.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = np.arange(4096, dtype=np.uint16).view(np.float16)
SOURCE = MemorySource(NUMBERS.tobytes())


def _as_numpy(array: StoredArray) -> np.ndarray[Any, Any]:
    """The whole view, by NumPy's own strides, as rows and columns."""
    strides = tuple(2 * step for step in array.strides) if array.strides is not None else None
    view = np.lib.stride_tricks.as_strided(NUMBERS[array.offset // 2 :], array.shape, strides)
    return view.reshape(array.rows, array.cols)


@st.composite
def views(draw: st.DrawFn) -> StoredArray:
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    strides = tuple(draw(st.sampled_from([0, 1, 2, 3, 6, 17, 36, 120])) for _ in shape)
    offset = 2 * draw(st.integers(0, 50))
    return strided_array(SOURCE, offset, NUMBERS.dtype, shape, strides)


@given(views(), st.data(), st.sampled_from([16, 256, 1 << 24]), st.sampled_from([1, 64, 1 << 13]))
def test_any_block_of_any_view(
    array: StoredArray, data: st.DataObject, read_limit: int, call_cost: int
) -> None:
    row_start = data.draw(st.integers(0, array.rows))
    row_stop = data.draw(st.integers(row_start, array.rows))
    col_start = data.draw(st.integers(0, array.cols))
    col_stop = data.draw(st.integers(col_start, array.cols))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strided, "READ_LIMIT", read_limit)
        patch.setattr(strided, "_CALL_COST", call_cost)
        read = array.read(row_start, row_stop, col_start, col_stop)
    expected = _as_numpy(array)[row_start:row_stop, col_start:col_stop]
    assert read.flags.c_contiguous
    assert read.tobytes() == expected.tobytes()


@given(st.sampled_from([4, 6]), st.data())
def test_any_block_of_packed_values(bits: int, data: st.DataObject) -> None:
    rows, cols = 5, 8
    codes = np.arange(rows * cols) * 7 % (1 << bits)
    packed = sum(int(code) << (bits * place) for place, code in enumerate(codes))
    source = MemorySource(packed.to_bytes(rows * cols * bits // 8, "little"))
    array = packed_array(source, 0, np.dtype(np.uint8), (rows, cols), bits)
    row_start, col_start = data.draw(st.integers(0, rows)), data.draw(st.integers(0, cols))
    row_stop = data.draw(st.integers(row_start, rows))
    col_stop = data.draw(st.integers(col_start, cols))
    read = array.read(row_start, row_stop, col_start, col_stop)
    expected = codes.reshape(rows, cols)[row_start:row_stop, col_start:col_stop]
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize(
    ("shape", "rows", "cols"),
    [((), 1, 1), ((7,), 1, 7), ((2, 3), 2, 3), ((2, 3, 4), 6, 4), ((0, 5), 0, 5), ((5, 0), 5, 0)],
)
def test_any_rank_is_taken_as_rows_and_columns(
    shape: tuple[int, ...], rows: int, cols: int
) -> None:
    array = contiguous_array(SOURCE, 0, NUMBERS.dtype, shape)
    assert (array.rows, array.cols) == (rows, cols)
    assert array.read(0, rows).shape == (rows, cols)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (4097,), (1,)),
        (2, (4096,), (1,)),
        (0, (2, 3), (4096, 1)),
        (-2, (1,), (1,)),
        (0, (2,), (-1,)),
        (0, (2, 2), (1,)),
        (0, (1 << 40, 1 << 40), (1, 0)),
        (0, (1 << 62, 1 << 62, 0), (1, 1, 1)),
        (0, (1 << 80, 0), (1, 1)),
        (0, (4, 4), (1 << 63, 1)),
        (0, (1,) * 65, (1,) * 65),
    ],
)
def test_a_view_that_leaves_its_data_is_refused(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    with pytest.raises(DumpError):
        strided_array(SOURCE, offset, NUMBERS.dtype, shape, strides)


@pytest.mark.parametrize("shape", [(1 << 80, 0), (1 << 62, 0), (1 << 40, 0, 1 << 30), (1,) * 65])
def test_a_shape_that_numpy_cannot_have_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"too big|too large|[Mm]aximum"):
        np.empty(0 if 0 in shape else 1, NUMBERS.dtype).reshape(shape)
    with pytest.raises(DumpError):
        contiguous_array(SOURCE, 0, NUMBERS.dtype, shape)
    with pytest.raises(DumpError):
        packed_array(SOURCE, 0, NUMBERS.dtype, shape, 4)


@dataclass
class Watched:
    """A source that notes the largest of the reads it is asked for."""

    data: MemorySource
    largest: int = 0

    @property
    def size(self) -> int:
        return self.data.size

    def read_into(self, target: memoryview, offset: int) -> None:
        self.largest = max(self.largest, len(target))
        self.data.read_into(target, offset)


@pytest.mark.parametrize("call_cost", [1, 1 << 13])
@pytest.mark.parametrize("strides", [(1, 8), (9, 2), (1, 64), (64, 8), (1, 400)])
def test_no_read_is_larger_than_the_limit_and_the_result(
    strides: tuple[int, int], call_cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided, "_CALL_COST", call_cost)
    monkeypatch.setattr(strided, "READ_LIMIT", 64)
    source = Watched(SOURCE)
    array = strided_array(source, 0, NUMBERS.dtype, (40, 6), strides)
    array.read(0, 40)
    assert 0 < source.largest <= 64


def test_a_view_of_terabytes_of_one_value_is_legal() -> None:
    array = strided_array(SOURCE, 2, NUMBERS.dtype, (1 << 20, 1 << 20), (0, 0))
    np.testing.assert_array_equal(array.read(5, 7, 0, 4), np.full((2, 4), NUMBERS[1]))


def test_a_block_outside_of_the_tensor_is_refused() -> None:
    array = contiguous_array(SOURCE, 0, NUMBERS.dtype, (4, 4))
    with pytest.raises(IndexError, match=r"rows 3:5 and columns 0:4 are not inside 4 x 4"):
        array.read(3, 5)


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((100, 100), np.float32))
    with dumps.open_file(tmp_path, "x.npy") as dump:
        os.truncate(path, 1000)
        with pytest.raises(DumpError, match="cut short while being read"):
            dump[()].read(0, 100)


def test_a_tensor_that_memory_does_not_hold_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise MemoryError

    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    (ref,) = dumps.scan(tmp_path)
    monkeypatch.setattr(StoredArray, "read", read)
    with pytest.raises(DumpError, match=r"x\.npy is larger than the memory: 24 bytes"):
        dumps.load(ref)


def test_threads_may_read_the_same_tensor(tmp_path: Path) -> None:
    values = np.arange(64 * 1000, dtype=np.float32).reshape(64, 1000)
    np.save(tmp_path / "x.npy", values)
    with dumps.open_file(tmp_path, "x.npy") as dump, ThreadPoolExecutor(8) as pool:
        array = dump[()]
        for row, read in enumerate(pool.map(lambda row: array.read(row, row + 1), range(64))):
            np.testing.assert_array_equal(read[0], values[row])
