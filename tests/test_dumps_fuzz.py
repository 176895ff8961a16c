"""Damaged files: whatever bytes change, a file is read or refused in one line, in little memory."""

from __future__ import annotations

import io
import tempfile
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from numscope import dumps
from numscope.errors import DumpError

MEMORY_LIMIT = 32 << 20
X = np.arange(40, dtype=np.float32).reshape(5, 8)


def _npy(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


SEEDS = {
    "plain.safetensors": save({"layers.0.fc.input": X, "ids": np.arange(4)}, {"step": "1"}),
    "plain.npy": _npy(X),
    "fortran.npy": _npy(np.asfortranarray(X)),
    "bfloat16.npy": _npy(X.astype(ml_dtypes.bfloat16)),
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
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(name: str, data: st.DataObject) -> None:
    content = data.draw(damaged(SEEDS[name]))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_bytes(content)
        tracemalloc.start()
        try:
            _read_everything(folder, name)
            assert tracemalloc.get_traced_memory()[1] < MEMORY_LIMIT
        finally:
            tracemalloc.stop()


def _read_everything(folder: str, name: str) -> None:
    message = ""
    try:
        with dumps.open_file(folder, name) as dump:
            for array in dump.values():
                rows = min(array.rows, 64)
                read = array.read(0, rows, 0, min(array.cols, 64))
                assert read.shape == (rows, min(array.cols, 64))
    except DumpError as error:
        message = str(error)
    assert "\n" not in message
