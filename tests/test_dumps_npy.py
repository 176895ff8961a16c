"""The .npy reader: every version and byte order; never a pickle, never a guess in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from numscope import dumps
from numscope.errors import DumpError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _read(path: Path, npy_dtype: str | None = None) -> np.ndarray[Any, Any]:
    with dumps.open_file(path.parent, path.name, npy_dtype=npy_dtype) as dump:
        (array,) = dump.values()
        return array.read(0, array.rows).reshape(array.shape)


def _save(folder: Path, values: Any, version: tuple[int, int] = (1, 0)) -> Path:
    path = folder / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asanyarray(values), version, allow_pickle=True)
    return path


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("descr", ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_every_version_and_order(
    tmp_path: Path, version: tuple[int, int], descr: str, order: Any
) -> None:
    path = _save(tmp_path, X.astype(descr, order=order), version)
    read = _read(path)
    np.testing.assert_array_equal(read, X)
    assert read.dtype == np.dtype(descr).newbyteorder("=")


def test_bfloat16_is_recognised_with_a_remark(tmp_path: Path) -> None:
    path = _save(tmp_path, X.astype(ml_dtypes.bfloat16))
    with dumps.open_file(tmp_path, path.name) as dump:
        assert [remark.message for remark in dump.remarks] == [
            "arrays of descr V2 taken as bfloat16"
        ]
    read = _read(path)
    assert read.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(read.astype(np.float32), X)


def test_float8_e5m2_which_numpy_cannot_load_is_read(tmp_path: Path) -> None:
    read = _read(_save(tmp_path, X.astype(ml_dtypes.float8_e5m2)))
    assert read.dtype == ml_dtypes.float8_e5m2
    np.testing.assert_array_equal(read.astype(np.float32), X.astype(ml_dtypes.float8_e5m2))


@pytest.mark.parametrize(
    ("values", "npy_dtype"),
    [
        (X.astype(ml_dtypes.bfloat16).view(np.uint16), "bfloat16"),
        (X.astype(ml_dtypes.bfloat16).view(np.int16), "bfloat16"),
        (X.astype(ml_dtypes.float8_e4m3fn), "float8_e4m3fn"),
    ],
)
def test_bits_without_a_type_are_read_only_when_told(
    tmp_path: Path, values: np.ndarray[Any, Any], npy_dtype: str
) -> None:
    path = _save(tmp_path, values)
    with pytest.raises(DumpError, match=f"--npy-dtype {npy_dtype}"):
        _read(path)
    read = _read(path, npy_dtype)
    assert str(read.dtype) == npy_dtype
    assert read.tobytes() == values.tobytes()


def test_the_option_changes_nothing_that_is_certain(tmp_path: Path) -> None:
    assert _read(_save(tmp_path, X), "bfloat16").dtype == np.float32


def test_an_unknown_type_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown dtype 'bf17'"):
        _read(_save(tmp_path, X), "bf17")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3),
        np.array([True]),
        np.array([1j]),
        np.array(["2024-01-01"], "M8[ns]"),
        np.array([3], "m8[25s]"),
        np.array(["ab", "c"]),
        np.array(["a" * 20_000]),
        np.array([b"ab", b"c"]),
    ],
    ids=lambda values: str(values.dtype),
)
def test_what_holds_no_floats_is_passed_over_with_a_count(tmp_path: Path, values: Any) -> None:
    path = _save(tmp_path, values)
    with dumps.open_file(tmp_path, path.name) as dump:
        assert not dump
        assert [(remark.message, remark.count) for remark in dump.remarks] == [
            ("tensors of no float type passed over", 1)
        ]


def _header(text: str, version: int = 1) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text.encode()


def _described(descr: str, shape: str) -> bytes:
    return _header(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}") + bytes(8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (_header("__import__('os').getcwd()"), "not a literal"),
        (_header("[1, 2]"), "exactly descr, fortran_order and shape"),
        (_header("{'descr': '<f4', 'fortran_order': False}"), "exactly descr"),
        (_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}"), "fortran_order 0"),
        (_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "whole numbers"),
        (
            _header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}") + bytes(8),
            "cut short",
        ),
        (_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1<<62,)}"), "not a literal"),
        (_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "never loaded"),
        (_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"), "records"),
        (_header("{}", version=9), "version 9"),
        (b"\x93NUMPY\1\0\xff\xff{}", "cut short within its header"),
        (_header("(" * 5000), "not a literal"),
        (_described("<i" + "9" * 5000, "(1,)"), "unknown type ('<i999"),
        (_described("<f" + "9" * 5000, "(1,)"), "unknown type ('<f999"),
        (_described("<f4", "(0x" + "f" * 5000 + ",)"), "has the shape of too many digits"),
        (_described("<f4", "(0x8000000000000000, 0)"), "numbers below 2**63"),
        (_described("<f4", "(" + "1," * 65 + ")"), "at most 64 whole numbers"),
        (_described("<f4", "(0x4000000000000000, 0x4000000000000000, 0)"), "refused"),
        (_header("{'descr': '<f4', 'fortran_order': 0x" + "f" * 5000 + ", 'shape': ()}"), "digits"),
    ],
    ids=range(20),
)
def test_refuses_what_the_format_forbids(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(DumpError) as caught:
        _read(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_object_arrays_are_refused(tmp_path: Path) -> None:
    path = _save(tmp_path, np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(DumpError, match="pickled Python objects, which are never loaded"):
        _read(path)
