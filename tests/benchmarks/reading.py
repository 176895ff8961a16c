"""How long scans of many small files take, and reading a tensor beside `numpy.fromfile`.

Everything is in the page cache: what is measured is what numscope adds.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.table import Table
from safetensors.numpy import save

from numscope import dumps
from tests.benchmarks.speed import medians
from tests.torch_files import Tensor, file_of

SMALL = np.ones((4, 8), np.float32)


def scans(files: int) -> Table:
    """The table of formats: seconds for so many files of one small tensor each."""
    table = Table("format", "seconds", "ms/file", title=f"scan of {files} small files")
    for name, content in _contents().items():
        with TemporaryDirectory(prefix="numscope-bench-") as folder:
            for index in range(files):
                step = Path(folder, f"step_{index // 100:06d}")
                step.mkdir(exist_ok=True)
                (step / f"layers.{index % 100}.fc.input.{name}").write_bytes(content)
            start = time.perf_counter()
            found = dumps.scan(folder)
            seconds = time.perf_counter() - start
        assert len(found) == files
        table.add_row(name, f"{seconds:.1f}", f"{1000 * seconds / files:.3f}")
    return table


def _contents() -> dict[str, bytes]:
    npy = io.BytesIO()
    np.save(npy, SMALL)
    return {
        "safetensors": save({"data": SMALL}),
        "npy": npy.getvalue(),
        "pt": file_of(tensor=Tensor(SMALL)).zip_bytes(),
    }


def reads(rows: int, repetitions: int) -> Table:
    """The table of ways to read: each as a multiple of `numpy.fromfile` of the same bytes."""
    values = np.zeros((rows, 4096), np.float32)
    table = Table("from a .pt", "of numpy.fromfile", title=f"reading {values.nbytes / 1e6:.0f} MB")
    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        raw = Path(folder, "raw")
        values.tofile(raw)
        Path(folder, "x.pt").write_bytes(file_of(t=Tensor(values)).zip_bytes())
        (ref,) = dumps.scan(folder)
        ways: dict[str, Callable[[], object]] = {
            "whole": lambda: dumps.load(ref),
            "128 rows at a time": lambda: _read_blocks(ref),
        }
        by_numpy, *seconds = medians(
            repetitions, lambda: np.fromfile(raw, np.float32), *ways.values()
        )
    for name, second in zip(ways, seconds, strict=True):
        table.add_row(name, f"{second / by_numpy:.2f}")
    return table


def _read_blocks(ref: dumps.TensorRef) -> None:
    with dumps.open_file(ref.root, ref.path) as dump:
        array = dump[ref.key]
        for row in range(0, array.rows, 128):
            array.read(row, min(row + 128, array.rows))
