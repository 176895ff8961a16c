"""`make bench`: memory on 8 GB, whole dumps, reading, speed beside NumPy, and capturing."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from rich.console import Console

from tests.benchmarks import batch, memory, reading, speed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=8192, help="rows of 4096 values")
    parser.add_argument("--repetitions", type=int, default=5, help="how often each takes its turn")
    parser.add_argument("--gigabytes", type=int, default=8, help="size of the large tensor")
    parser.add_argument("--files", type=int, default=20_000, help="how many small files")
    parser.add_argument("--megabytes", type=int, default=2000, help="size of the large dump")
    arguments = parser.parse_args()
    console = Console()
    peak = memory.peak_of_analyze(arguments.gigabytes * 10**9 // 8192 * 8192)
    console.print(
        f"peak memory of analysing a tensor of {arguments.gigabytes} GB: {peak / memory.MB:.0f} MB"
    )
    console.print(batch.whole(arguments.megabytes, arguments.repetitions))
    console.print(batch.several(arguments.megabytes // 4, speed.EIGHT))
    console.print(batch.small(arguments.files))
    console.print(reading.scans(arguments.files))
    console.print(reading.reads(arguments.rows, arguments.repetitions))
    x = speed.tensor(arguments.rows)
    console.print(speed.compare(x, arguments.repetitions))
    console.print(speed.several(x, arguments.repetitions))
    if find_spec("torch"):
        from tests.benchmarks import capturing

        console.print(capturing.compare(steps=50, repetitions=41))


if __name__ == "__main__":
    main()
