"""The .npz reader: each member is an .npy file, stored or compressed, and read in little memory."""

from __future__ import annotations

import tracemalloc
import zipfile
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from numscope import dumps
from numscope.dumps import scratch
from numscope.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_members_are_keys(tmp_path: Path, save: Any) -> None:
    values = {
        "layers.0.fc.input": X,
        "layers.0.fc.grad_output": X.astype(ml_dtypes.bfloat16),
        "turned": np.asfortranarray(X),
        "ids": np.arange(4),
    }
    save(tmp_path / "step_7.npz", **values)
    scan = dumps.scan(tmp_path)
    kinds = {ref.key: (ref.kind, ref.dtype, ref.step) for ref in scan}
    assert kinds == {
        ("layers.0.fc.input",): ("activation", "float32", 7),
        ("layers.0.fc.grad_output",): ("gradient", "bfloat16", 7),
        ("turned",): (None, "float32", 7),
    }
    for ref in scan:
        np.testing.assert_array_equal(dumps.load(ref).astype(np.float32), X)
    assert [problem.failure for problem in scan.problems] == [False, False]


def test_a_compressed_tensor_is_read_by_rows_in_little_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", t=values)
    with dumps.open_file(tmp_path, "x.npz") as dump:
        tracemalloc.start()
        for row in range(0, 4096, 128):
            block = dump["t",].read(row, row + 128)
            np.testing.assert_array_equal(block, values[row : row + 128])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 << 20


def _damage(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_damaged_members_are_an_error_when_they_are_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", t=values)
    _damage(tmp_path / "x.npz", 150_000)
    with dumps.open_file(tmp_path, "x.npz") as dump, pytest.raises(DumpError, match="is damaged"):
        dump["t",].read(0, 64)


def test_a_member_that_unpacks_to_something_else_than_it_says(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", t=np.zeros((100, 100), np.float32))
    data = (tmp_path / "x.npz").read_bytes()
    size = (100 * 100 * 4 + 128).to_bytes(4, "little")
    assert size in data
    (tmp_path / "x.npz").write_bytes(data.replace(size, (10**8).to_bytes(4, "little")))
    with (
        dumps.open_file(tmp_path, "x.npz") as dump,
        pytest.raises(DumpError, match="does not unpack"),
    ):
        dump["t",].read(0, 100)


def test_members_that_are_no_arrays_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", t=X)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("notes.txt", "hello")
    with dumps.open_file(tmp_path, "x.npz") as dump:
        assert list(dump) == [("t",)]
        assert [(remark.count, remark.failure) for remark in dump.remarks] == [(1, False)]


def test_no_room_for_unpacking_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch, "_nameless_file", no_room)
    np.savez_compressed(tmp_path / "x.npz", t=np.ones((100, 100), np.float32))
    with (
        dumps.open_file(tmp_path, "x.npz") as dump,
        pytest.raises(DumpError, match="No space left"),
    ):
        dump["t",].read(0, 100)
