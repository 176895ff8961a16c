"""The options of commands in batch jobs: shards, engines, memory, logs.

They turn text into values and complain in one line. The only place that reads what SLURM sets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from numscope import amounts
from numscope.errors import UsageError
from numscope.shards import Shard, parse

F = TypeVar("F", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)i?B?", re.IGNORECASE)


class ShardType(click.ParamType[Shard]):
    """A shard `I/N`, or `slurm`: the one that this task of a job array is."""

    name = "i/n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Shard:
        """The shard."""
        if isinstance(value, Shard):
            return value
        try:
            return shard_of_slurm(os.environ) if value == "slurm" else parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class Size(click.ParamType[int]):
    """A number of bytes such as `500M` or `4G`, in powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        match = _SIZE.fullmatch(str(value).strip())
        if not match:
            self.fail(f"{value!r} is not a size such as 500M or 4G", param, ctx)
        return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def shard_of_slurm(environment: Mapping[str, str]) -> Shard:
    """The shard of a task of a SLURM job array, however its tasks are numbered.

    Raises
    ------
    UsageError
        If it is no such task, or the array has gaps.
    """
    names = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")
    if not all(environment.get(name, "").isdigit() for name in names):
        raise UsageError(f"this is no task of a job array: {names[0]} and {names[1]} are not set")
    task, count = (int(environment[name]) for name in names)
    first = int(environment.get("SLURM_ARRAY_TASK_MIN", 1))
    step = int(environment.get("SLURM_ARRAY_TASK_STEP", 1))
    last = int(environment.get("SLURM_ARRAY_TASK_MAX", first + (count - 1) * step))
    if last != first + (count - 1) * step or (task - first) % step:
        raise UsageError(
            f"the job array {first}-{last} has {amounts.counted(count, 'task')}, so it has gaps;"
            f" use --shard $SLURM_ARRAY_TASK_ID/N"
        )
    return Shard((task - first) // step + 1, count)


def batch(command: F) -> F:
    """The options that say who works, where and how much at once."""
    for option in reversed(
        (
            click.option("--jobs", type=click.IntRange(min=1), help="Threads; all usable CPUs."),
            click.option(
                "--memory",
                type=Size(),
                metavar="SIZE",
                help="What tensors may take in memory, such as 4G; a quarter of what is usable.",
            ),
            click.option(
                "--shard",
                type=ShardType(),
                metavar="I/N",
                default="1/1",
                help="Measure only this shard of N; slurm takes it from the job array.",
            ),
            click.option(
                "--engine",
                type=click.Choice(["threads", "dask"]),
                default="threads",
                show_default=True,
                help="What to measure with: this machine, or a Dask cluster.",
            ),
            click.option(
                "--scheduler", metavar="ADDRESS", help="Of a Dask cluster, such as tcp://host:8786."
            ),
            click.option(
                "--scheduler-file",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="That a Dask scheduler has written its address to.",
            ),
            click.option("--fresh", is_flag=True, help="Start over, whatever the folder holds."),
            logging,
        )
    ):
        command = option(command)
    return command


def logging(command: F) -> F:
    """`--log-json`."""
    return click.option(
        "--log-json", is_flag=True, help="Log to stderr as one JSON object per line."
    )(command)
