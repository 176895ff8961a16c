"""Damaged files: whatever bytes change, a file is read or refused in one line, in little memory."""

from __future__ import annotations

import gzip
import io
import tempfile
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from numscope import dumps
from numscope.errors import DumpError
from tests.dumps_shared import dumps_folder
from tests.torch_files import Tensor, TorchFile, call, dictionary, file_of, name, plain

MEMORY_LIMIT = 32 << 20
X = np.arange(40, dtype=np.float32).reshape(5, 8)
BF16 = X.astype(ml_dtypes.bfloat16)
TORCH = file_of(
    **{
        "layers.0.fc.input": Tensor(BF16, "BFloat16Storage"),
        "layers.0.fc.weight": Tensor(X, key="1", size=(8, 5), stride=(1, 8)),
    }
)


def _npy(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def _npz() -> bytes:
    file = io.BytesIO()
    arrays: dict[str, Any] = {"layers.0.fc.input": X, "step": np.int64(3)}
    np.savez_compressed(file, **arrays)
    return file.getvalue()


SEEDS = {
    "plain.safetensors": save({"layers.0.fc.input": X, "ids": np.arange(4)}, {"step": "1"}),
    "plain.npy": _npy(X),
    "fortran.npy": _npy(np.asfortranarray(X)),
    "bfloat16.npy": _npy(BF16),
    "packed.npz": _npz(),
    "zip.pt": TORCH.zip_bytes(),
    "packed.pt": replace(TORCH, compression=zipfile.ZIP_DEFLATED).zip_bytes(),
    "legacy.pt": file_of(t=Tensor(X)).legacy_bytes(4),
    "zip.pt.gz": gzip.compress(TORCH.zip_bytes(), mtime=0),
}


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes overwritten, cut out, doubled, or cut off at the end, mostly near the start."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.one_of(st.integers(0, min(200, len(data))), st.integers(0, len(data))))
        stop = min(len(data), start + draw(st.integers(0, 9)))
        data[start:stop] = draw(
            st.one_of(
                st.binary(max_size=9),
                st.sampled_from([b"0", b"9" * 8, b"-1", b'"', b"{", b"\xff" * 8, b"\0" * 8]),
            )
        )
    return bytes(data[: draw(st.one_of(st.just(len(data)), st.integers(0, len(data))))])


@pytest.mark.parametrize("name", SEEDS)
@settings(deadline=None)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    _check(name, data.draw(damaged(SEEDS[name])))


REAL = sorted(
    path
    for folder in ("ok", "hostile")
    for path in (dumps_folder() / "edge" / folder).glob("*.pt*")
)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_damaged_files_of_others_are_read_or_refused(path: Path, data: st.DataObject) -> None:
    _check(path.name, data.draw(damaged(path.read_bytes())))


@settings(deadline=None)
@given(data=st.data())
def test_damaged_pickles_in_sound_archives(data: st.DataObject) -> None:
    opcodes = data.draw(damaged(TORCH.opcodes))
    _check("zip.pt", TorchFile(opcodes, TORCH.storages).zip_bytes())


INTEGERS = st.one_of(
    st.integers(-2, 70),
    st.builds(
        lambda bits, more, sign: sign * ((1 << bits) + more),
        st.sampled_from([31, 32, 53, 61, 62, 63, 64, 80, 1000, 16_600]),
        st.integers(-2, 2),
        st.sampled_from([1, 1, -1]),
    ),
)
LISTS = st.one_of(st.lists(INTEGERS, max_size=4), st.just([1] * 65), st.just([1 << 62] * 64))


@settings(deadline=None)
@given(data=st.data())
def test_numbers_of_any_size_in_torch_files(data: st.DataObject) -> None:
    fields: dict[Any, st.SearchStrategy[Any]] = {
        "size": st.builds(tuple, LISTS),
        "stride": st.builds(tuple, LISTS),
        "offset": INTEGERS,
        "count": INTEGERS,
    }
    chosen = data.draw(st.fixed_dictionaries({}, optional=fields))
    inner = {data.draw(INTEGERS): replace(Tensor(X), **chosen).opcodes()}
    file = TorchFile(dictionary({"a": dictionary(inner)}), {"0": X.tobytes()})
    content = data.draw(st.sampled_from([file.zip_bytes(), file.legacy_bytes(4)]))
    _check("x.pt", content)


@settings(deadline=None)
@given(shape=LISTS, code=st.sampled_from("fiVuUSbcM"), size=INTEGERS, unit=st.booleans())
def test_numbers_of_any_size_in_numpy_headers(
    shape: list[int], code: str, size: int, unit: bool
) -> None:
    lengths = "".join(f"{hex(n)}, " for n in shape)
    descr = f"<{code}{_digits(size)}{'[ns]' * unit}"
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({lengths})}}".encode()
    content = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(64)
    _check("x.npy", content)
    array = _pickled(descr, tuple(shape))
    _check("x.pt", TorchFile(dictionary({"a": array})).zip_bytes())


def _pickled(code: str, shape: tuple[int, ...]) -> bytes:
    dtype = call(name("numpy", "dtype"), plain(code))
    data = plain(bytearray(4))
    return call(name("numpy.core.numeric", "_frombuffer"), data, dtype, plain(shape), plain("C"))


@settings(deadline=None)
@given(shape=LISTS, offsets=st.lists(INTEGERS, max_size=3))
def test_numbers_of_any_size_in_safetensors(shape: list[int], offsets: list[int]) -> None:
    numbers = [", ".join(_digits(n) for n in values) for values in (shape, offsets)]
    text = '{{"t": {{"dtype": "F32", "shape": [{}], "data_offsets": [{}]}}}}'.format(*numbers)
    header = text.encode()
    _check("x.safetensors", len(header).to_bytes(8, "little") + header + bytes(64))


def _digits(number: int) -> str:
    """A number in digits, as JSON wants it, also where Python does not write it."""
    return str(number) if abs(number) < 1 << 1000 else "9" * 5000


def _check(name: str, content: bytes) -> None:
    """Read all there is, or get one line; never another exception, never much memory."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(content)
        tracemalloc.start()
        try:
            message = _read_everything(folder, name)
            assert tracemalloc.get_traced_memory()[1] < MEMORY_LIMIT
        finally:
            tracemalloc.stop()
    assert "\n" not in message


def _read_everything(folder: str, name: str) -> str:
    try:
        scan = dumps.scan(folder)
        with dumps.open_file(folder, name) as dump:
            for array in dump.values():
                rows, cols = min(array.rows, 64), min(array.cols, 64)
                assert array.read(0, rows, 0, cols).shape == (rows, cols)
    except DumpError as error:
        return str(error)
    return "".join(problem.message for problem in scan.problems)
