"""The safetensors reader: what the format allows is read, anything else is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from numscope import dumps
from numscope.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def _raw(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def _entry(dtype: str, shape: list[Any], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def _write(folder: Path, content: bytes) -> Path:
    (folder / "x.safetensors").write_bytes(content)
    return folder


def _read(folder: Path) -> dict[str, Any]:
    with dumps.open_file(folder, "x.safetensors") as dump:
        return {str(key[0]): array.read(0, array.rows) for key, array in dump.items()}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_reads_what_the_library_writes(tmp_path: Path, dtype: type[np.floating[Any]]) -> None:
    save_file({"b": X.astype(dtype), "a": X[:1].astype(dtype)}, str(tmp_path / "x.safetensors"))
    values = _read(tmp_path)
    np.testing.assert_array_equal(values["b"], X.astype(dtype))
    np.testing.assert_array_equal(values["a"], X[:1].astype(dtype))
    assert values["b"].dtype == dtype


@pytest.mark.parametrize(
    ("code", "dtype"),
    [
        ("BF16", ml_dtypes.bfloat16),
        ("F8_E4M3", ml_dtypes.float8_e4m3fn),
        ("F8_E5M2", ml_dtypes.float8_e5m2),
        ("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
        ("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
        ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_keeps_the_bits_of_types_numpy_does_not_know(
    tmp_path: Path, code: str, dtype: type[Any]
) -> None:
    values = np.array([[1.0, 2.0], [0.5, 4.0]]).astype(dtype)
    data = values.tobytes()
    _write(tmp_path, _raw({"t": _entry(code, [2, 2], 0, len(data))}, data))
    read = _read(tmp_path)["t"]
    assert read.dtype == values.dtype
    assert read.tobytes() == data


def test_four_bit_values_are_taken_low_half_first(tmp_path: Path) -> None:
    _write(tmp_path, _raw({"t": _entry("F4", [2, 2], 0, 2)}, bytes([0x21, 0xF7])))
    expected = np.array([[0.5, 1.0], [6.0, -6.0]], np.float32)
    np.testing.assert_array_equal(_read(tmp_path)["t"].astype(np.float32), expected)


def test_six_bit_values_are_taken_from_the_lowest_bits_on(tmp_path: Path) -> None:
    codes = [0b000001, 0b011111, 0b100000, 0b001000]
    packed = sum(code << (6 * place) for place, code in enumerate(codes)).to_bytes(3, "little")
    _write(tmp_path, _raw({"t": _entry("F6_E2M3", [4], 0, 3)}, packed))
    read = _read(tmp_path)["t"]
    np.testing.assert_array_equal(read.view(np.uint8), [codes])
    np.testing.assert_array_equal(read.astype(np.float32), [[0.125, 7.5, -0.0, 1.0]])


def test_integers_are_passed_over_with_a_count(tmp_path: Path) -> None:
    save_file(
        {"t": X, "ids": np.arange(3), "mask": np.ones(2, bool)}, str(tmp_path / "x.safetensors")
    )
    with dumps.open_file(tmp_path, "x.safetensors") as dump:
        assert list(dump) == [("t",)]
        (remark,) = dump.remarks
    assert (remark.message, remark.count, remark.failure) == (
        "tensors of no float type passed over",
        2,
        False,
    )


def test_metadata_is_given_as_it_is(tmp_path: Path) -> None:
    save_file({"t": X}, str(tmp_path / "x.safetensors"), metadata={"step": "7"})
    with dumps.open_file(tmp_path, "x.safetensors") as dump:
        assert dump.metadata == {"step": "7"}


def test_headers_longer_than_the_first_read_are_read(tmp_path: Path) -> None:
    tensors = {f"layers.{i}.mlp.fc1.activation": X + i for i in range(500)}
    save_file(tensors, str(tmp_path / "x.safetensors"))
    values = _read(tmp_path)
    assert len(values) == 500
    np.testing.assert_array_equal(values["layers.321.mlp.fc1.activation"], X + 321)


GOOD = _entry("F32", [2], 0, 8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello", "is a text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\1\2\3", "3 bytes"),
        ((1 << 63).to_bytes(8, "little") + b"{}", "the format allows 100000000"),
        (_raw({"t": GOOD}, b"1234567"), "cut short"),
        (_raw({"t": GOOD}, b"123456789"), "bytes behind its last tensor: 1"),
        (_raw({"t": GOOD, "u": _entry("F32", [2], 12, 20)}, bytes(20)), "hole"),
        (_raw({"t": GOOD, "u": _entry("F32", [2], 4, 12)}, bytes(12)), "overlaps"),
        (_raw({"t": _entry("F32", [3], 0, 8)}, bytes(8)), "does not fit its 8 bytes"),
        (_raw({"t": _entry("F32", [-2], 0, 8)}, bytes(8)), "whole numbers"),
        (_raw({"t": _entry("F32", [True, 2], 0, 8)}, bytes(8)), "whole numbers"),
        (_raw({"t": _entry("F32", [1 << 32, 1 << 32, 0], 0, 0)}, b""), "overflows"),
        (_raw({"t": _entry("F4", [3], 0, 2)}, bytes(2)), "does not fit"),
        (_raw({"t": _entry("f32", [2], 0, 8)}, bytes(8)), "unknown dtype 'f32'"),
        (_raw({"t": _entry("F32", [2], 8, 0)}, bytes(8)), "data_offsets"),
        (_raw({"t": {"dtype": "F32", "shape": [2]}}, bytes(8)), "data_offsets None"),
        (_raw({"__metadata__": {"step": 7}, "t": GOOD}, bytes(8)), "strings"),
        (_raw(b'{"t": 1, "t": 2}', b""), "'t' twice"),
        (_raw(b'{"t": NaN}', b""), "NaN is no number"),
        (_raw(b"[" * 10_000, b""), "does not begin with '{'"),
        (_raw(b'{"t":' * 10_000, b""), "nested too deeply"),
        (_raw(b'{"t": "\xff"}', b""), "UTF-8"),
        (_raw(b" {}", b""), "does not begin with '{'"),
        (_raw({"t": _entry("F32", [1] * 65, 0, 4)}, bytes(4)), "at most 64 whole numbers"),
        (_raw({"t": _entry("F32", [1 << 63, 0], 0, 0)}, b""), "at most 64 whole numbers"),
        (_raw({"t": _entry("F32", ["x" * 5000], 0, 4)}, bytes(4)), "has the shape ['xxx"),
        (_raw({"t" * 4097: GOOD}, bytes(8)), "a name of 4097 characters"),
        (_raw(b'{"t": 1' + b"9" * 5000 + b"}", b""), "not JSON"),
    ],
)
def test_refuses_what_the_format_forbids(tmp_path: Path, content: bytes, message: str) -> None:
    _write(tmp_path, content)
    with pytest.raises(DumpError) as caught:
        _read(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_name_that_is_twice_among_many_is_found_in_no_time(tmp_path: Path) -> None:
    names = ", ".join(f'"{number}": 1' for number in [*range(100_000), 99_999])
    _write(tmp_path, _raw(b"{" + names.encode() + b"}", b""))
    with pytest.raises(DumpError, match="'99999' twice"):
        _read(tmp_path)


def test_an_index_tells_what_is_missing(tmp_path: Path) -> None:
    save_file({"layers.0.input": X}, str(tmp_path / "m-1-of-2.safetensors"))
    weight_map = {
        "layers.0.input": "m-1-of-2.safetensors",
        "layers.1.input": "m-1-of-2.safetensors",
        "layers.2.input": "m-2-of-2.safetensors",
        "layers.3.input": "../other.safetensors",
        "layers.4.input": "m" * 300,
        "layers.5.input": "\0",
    }
    index = json.dumps({"metadata": {}, "weight_map": weight_map})
    (tmp_path / "m.safetensors.index.json").write_text(index)
    scan = dumps.scan(tmp_path)
    assert [ref.key for ref in scan] == [("layers.0.input",)]
    messages = [problem.message for problem in scan.problems if problem.failure]
    assert len(messages) == 5
    assert "'\\x00', which is missing" in messages[0]
    assert "outside its folder" in messages[1]
    assert "'layers.1.input' is in 'm-1-of-2.safetensors', where it is not" in messages[2]
    assert "'m-2-of-2.safetensors', which is missing" in messages[3]
    assert "which is missing" in messages[4]
