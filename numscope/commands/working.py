"""What the commands that may take long have in common: a log, being stopped, scanning a dump.

Nothing here knows what a command is for.
"""
# ruff: noqa: PLC0415 (`--help` needs none of it)

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from numscope.commands.ending import exit_code
from numscope.errors import NumscopeError

if TYPE_CHECKING:
    from numscope.dumps import Scan
    from numscope.logs import Log
    from numscope.stopping import Stopping


@contextmanager
def working(
    *, quiet: bool, verbose: bool, log_json: bool = False
) -> Iterator[tuple[Log, Stopping]]:
    """What a long command talks to, and what happens when it is stopped or fails.

    Raises
    ------
    click.exceptions.Exit
        If it is stopped or fails, with the exit code; why has been said by then.
    """
    from rich.console import Console

    from numscope.logs import ForPeople
    from numscope.stopping import Stopped, stoppable

    log: Log = (
        json_log(quiet=quiet)
        if log_json
        else ForPeople(Console(stderr=True), quiet=quiet, verbose=verbose)
    )
    try:
        with stoppable(log.failure) as stopping:
            try:
                yield log, stopping
            except (Stopped, Exception):
                # Who is interrupted in the middle of an import may call it a failure of his own.
                if stopping.stopped is None:
                    raise
                stopping.speak(stopping.stopped)
                raise click.exceptions.Exit(stopping.stopped.exit_code) from None
    except (NumscopeError, OSError) as error:
        log.failure(str(error))
        raise click.exceptions.Exit(exit_code(error)) from error


def json_log(*, quiet: bool) -> Log:
    """The log for programs, on stderr."""
    from numscope.logs import AsJson

    return AsJson(partial(click.echo, err=True, nl=False), quiet=quiet)


def scanned(log: Log, dump: str, **scan_options: Any) -> Scan:
    """The dump's tensors, with the log counting files meanwhile."""
    from numscope import dumps

    with log.counting("scanning") as count:
        return dumps.scan(dump, on_progress=count, **scan_options)
