"""`numscope analyze` on whole dumps beside the least that anyone could do, and beside a script.

The floor reads the same bytes with two threads and takes their maximum. The script measures with
plain NumPy, on a part of the dump, and its time is taken in proportion. All files are in the page
cache. Only the ratios carry over to another machine.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes
import numpy as np
from rich.table import Table
from safetensors.numpy import save_file

import numscope
from numscope import dumps
from tests.benchmarks import plain
from tests.benchmarks.speed import tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK = 8 * 2**20
#: The script measures so many files.
_SAMPLE = 2

#: Runs a command and prints its seconds and peak resident KB.
_WATCH = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


class _Run(NamedTuple):
    """Seconds and peak resident bytes of a process."""

    seconds: float
    peak: int


def whole(megabytes: int, repetitions: int) -> Table:
    """The table of analysing a dump of large files: half activations, half gradients."""
    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        dump = _large_dump(Path(folder, "dump"), megabytes)
        files = sorted(dump.rglob("*.safetensors"))
        size = sum(path.stat().st_size for path in files)
        floors, runs = [], []
        for _ in range(repetitions):
            floors.append(_timed_floor(files))
            runs.append(_analyze(dump, Path(folder, "out")))
        script = _timed_script(files[:_SAMPLE]) * len(files) / _SAMPLE
    floor = sorted(floors)[repetitions // 2]
    run = sorted(runs)[repetitions // 2]
    table = Table("what", "seconds", "of the floor", title=f"{size / 1e9:.1f} GB of bfloat16")
    for name, seconds in (
        ("two threads read and take the maximum", floor),
        ("numscope analyze, with its start", run.seconds),
        ("a script in NumPy", script),
    ):
        table.add_row(name, f"{seconds:.2f}", f"{seconds / floor:.1f}")
    table.caption = f"peak memory {run.peak / 2**20:.0f} MB"
    return table


def several(megabytes: int, recipes: Sequence[str]) -> str:
    """What one run with several recipes costs, as a share of a run for each."""
    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        dump, out = _large_dump(Path(folder, "dump"), megabytes), Path(folder, "out")
        _analyze(dump, out)  # whatever is read or compiled for the first time
        together = _analyze(dump, out, recipes).seconds
        alone = sum(_analyze(dump, out, [recipe]).seconds for recipe in recipes)
    return (
        f"{len(recipes)} recipes in one run: {together / alone:.2f} of the time of a run for each"
    )


def small(files: int) -> Table:
    """The table of analysing many files of 64 KB, and of doing so again."""
    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        dump, out = Path(folder, "dump"), Path(folder, "out")
        values = tensor(128, 256)
        for index in range(files):
            step = dump / f"step_{index // 100:06d}"
            step.mkdir(parents=True, exist_ok=True)
            kind = ("activation", "gradient")[index % 2]
            name = f"layers.{index % 100 // 2}.fc.{kind}"
            save_file({name: values}, str(step / f"{name}.safetensors"))
        first = _analyze(dump, out)
        again = _analyze(dump, out, is_fresh=False)
    table = Table("run", "seconds", "ms/file", "peak MB", title=f"{files} files of 64 KB")
    for name, run in (("first", first), ("again, nothing is new", again)):
        per_file = 1000 * run.seconds / files
        table.add_row(name, f"{run.seconds:.1f}", f"{per_file:.2f}", f"{run.peak / 2**20:.0f}")
    return table


def _large_dump(folder: Path, megabytes: int) -> Path:
    values = tensor(4096, 4096)
    for index in range(max(megabytes * 10**6 // values.nbytes, _SAMPLE)):
        kind = ("activation", "gradient")[index % 2]
        path = folder / f"step_{index // 2:06d}" / f"{kind}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({f"layers.0.fc.{kind}": values}, str(path))
    return folder


def _timed_floor(files: list[Path]) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_maximum, files))
    return time.perf_counter() - begin


def _maximum(path: Path) -> int:
    """The largest bits of a file, read a chunk at a time."""
    largest = 0
    buffer = np.empty(_CHUNK // 2, np.uint16)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer.data):
            largest = max(largest, int(buffer[: count // 2].max()))
    return largest


def _timed_script(files: list[Path]) -> float:
    ling = numscope.recipe("ling")
    begin = time.perf_counter()
    for path in files:
        for ref in dumps.scan(path):
            x = dumps.load(ref).astype(ml_dtypes.bfloat16)
            plain.measure(x, ling)
            if ref.kind == "gradient":
                plain.measure(x, ling.transpose)
    return time.perf_counter() - begin


def _analyze(dump: Path, out: Path, recipes: Sequence[str] = (), *, is_fresh: bool = True) -> _Run:
    command = [sys.executable, "-m", "numscope", "analyze", str(dump), "--out", str(out)]
    for recipe in recipes:
        command += ["--recipe", recipe]
    command += ["--no-charts", "--quiet", *(["--fresh"] if is_fresh else [])]
    # A process begins with the peak of the one that it is forked from: here a small one.
    done = subprocess.run(  # noqa: S603 (our own command)
        [sys.executable, "-c", _WATCH, *command], check=True, capture_output=True, text=True
    )
    seconds, kilobytes = done.stdout.split()
    return _Run(float(seconds), int(kilobytes) * 1024)
