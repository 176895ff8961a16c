"""Runs of `numscope analyze` in processes of their own, and dumps that are quickly analysed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.examples import REPOSITORY, gradient, save_dump

TABLES = ("tensors.csv", "layers.csv")


def small_dump(folder: Path, files: int = 12) -> Path:
    """A dump of many small files: an activation and a gradient of two layers per step and rank."""
    for step in range(files // 2):
        for rank in range(2):
            names = [f"layers.{layer}.fc" for layer in (0, 4)]
            tensors = {}
            for seed, name in enumerate(names):
                tensors[f"{name}.activation"] = gradient(8, 40, seed + step)
                tensors[f"{name}.gradient"] = gradient(8 + step, 40, seed + rank)
            save_dump(folder / f"rank{rank}" / f"step_{step}.safetensors", tensors)
    return folder


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Begin a command line in a process of its own."""
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "numscope", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        **options,
    )


def contents(results: Path) -> dict[str, bytes]:
    """The tables' bytes."""
    return {name: (results / name).read_bytes() for name in TABLES}
