"""The options of commands in batch jobs: shards, engines, memory, logs.

They turn text into values and complain in one line. The only place that reads what SLURM sets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from numscope import amounts
from numscope.errors import UsageError
from numscope.options import LocalPath, ParamType, with_options
from numscope.ranges import MOST_DIGITS
from numscope.shards import Shard, parse

F = TypeVar("F", bound=Callable[..., Any])

_NUMBER = rf"\d{{1,{MOST_DIGITS}}}"
_SIZE = re.compile(rf"({_NUMBER}(?:\.{_NUMBER})?)([KMGT]?)i?B?", re.IGNORECASE)
_TASK_NUMBER = re.compile(_NUMBER)


class ShardType(ParamType[Shard]):
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


class Size(ParamType[int]):
    """A number of bytes such as `500M` or `4G`, in powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes."""
        match = _SIZE.fullmatch(str(value).strip())
        if not match:
            self.fail(f"{str(value)[:40]!r} is not a size such as 500M or 4G", param, ctx)
        size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
        if not size:
            self.fail(f"{value!r} is no memory at all; give a size such as 500M or 4G", param, ctx)
        return size


def shard_of_slurm(environment: Mapping[str, str]) -> Shard:
    """The shard of a task of a SLURM job array, however its tasks are numbered.

    Raises
    ------
    UsageError
        If it is no such task, or the array has gaps.
    """

    def number(word: str, otherwise: int | None = None) -> int:
        name = f"SLURM_ARRAY_TASK_{word}"
        text = environment.get(name, "" if otherwise is None else str(otherwise))
        if not text:
            raise UsageError(f"this is no task of a job array: {name} is not set")
        if not _TASK_NUMBER.fullmatch(text):
            raise UsageError(f"this is no task of a job array: {name} is {text[:40]!r}, no number")
        return int(text)

    task, count = number("ID"), number("COUNT")
    first, step = number("MIN", 1), max(1, number("STEP", 1))  # 0 only where there is one task
    last = number("MAX", first + (count - 1) * step)
    if last != first + (count - 1) * step or (task - first) % step:
        raise UsageError(
            f"the job array {first}-{last} has {amounts.counted(count, 'task')}, so it has gaps;"
            f" use --shard $SLURM_ARRAY_TASK_ID/N"
        )
    return Shard((task - first) // step + 1, count)


def check_engine(
    engine: Literal["threads", "dask"],
    scheduler: str | None,
    scheduler_file: Path | None,
    jobs: int | None,
    memory: int | None,
) -> None:
    """Refuse options that the engine could not follow.

    Raises
    ------
    UsageError
        If there are any.
    """
    has_scheduler = scheduler is not None or scheduler_file is not None
    if engine != "dask":
        if has_scheduler:
            raise UsageError("--scheduler and --scheduler-file need --engine dask")
        return
    if scheduler is not None and scheduler_file is not None:
        raise UsageError(
            f"--scheduler {scheduler} and --scheduler-file {scheduler_file} both name a scheduler;"
            " give one of them"
        )
    if has_scheduler and jobs is not None:
        raise UsageError(
            "--jobs is for threads of this machine; a named cluster has those of its workers"
        )
    if memory is not None:
        raise UsageError(
            "--memory is for --engine threads; a Dask worker has its own --memory-limit"
        )


def batch(command: F) -> F:
    """The options that say who works, where and how much at once."""
    return with_options(
        command,
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
            type=LocalPath(),
            metavar="FILE",
            help="That a Dask scheduler has written its address to.",
        ),
        click.option("--fresh", is_flag=True, help="Start over, whatever the folder holds."),
        logging,
    )


def logging(command: F) -> F:
    """`--log-json`."""
    return click.option(
        "--log-json", is_flag=True, help="Log to stderr as one JSON object per line."
    )(command)


def wants_json(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a command line asks for such a log, be it a wrong one."""
    if "--log-json" in words:
        return True
    command = next((word for word in words if not word.startswith("-")), "")
    said = environment.get(f"NUMSCOPE_{command}_LOG_JSON".upper(), "")
    try:
        return bool(said) and bool(click.BOOL.convert(said, None, None))
    except click.BadParameter:
        return False
