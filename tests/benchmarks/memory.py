"""Peak memory of `numscope analyze` on one tensor that is far larger than that."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

MB = 2**20


def peak_of_analyze(size: int) -> int:
    """Peak resident bytes of analysing a bfloat16 gradient of `size` bytes.

    To be asked first: a child's peak is at least what this process holds when it starts it.
    The file is a hole but for its header: it takes no room on the disk, and reads as zeros.
    """
    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        dump = Path(folder) / "dump"
        dump.mkdir()
        write_hollow_dump(dump / "step_000001.safetensors", size)
        command = [sys.executable, "-m", "numscope", "analyze", str(dump)]
        command += ["--out", str(Path(folder) / "results"), "--no-charts", "--quiet"]
        subprocess.run(command, check=True)  # noqa: S603 (our own command)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def write_hollow_dump(path: Path, size: int) -> None:
    """Write a safetensors file of one gradient with 4096 columns."""
    entry = {"dtype": "BF16", "shape": [size // 8192, 4096], "data_offsets": [0, size]}
    header = json.dumps({"layers.0.mlp.fc1.gradient": entry}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
