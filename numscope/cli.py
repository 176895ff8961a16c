"""The command line: the commands put together, run, and their errors said in one line.

The commands are in `commands`, one module each; the process begins and ends here.
"""
# ruff: noqa: D301 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

import click

from numscope import starting, stopping, streams
from numscope.batch_options import wants_json
from numscope.commands.advise import advise
from numscope.commands.analyze import analyze
from numscope.commands.answering import stop_writing
from numscope.commands.check import check
from numscope.commands.compare import compare
from numscope.commands.ending import NOTHING_DONE, exit_code
from numscope.commands.export import export
from numscope.commands.findings import findings
from numscope.commands.merge import merge
from numscope.commands.plot import plot
from numscope.commands.recipes import recipes
from numscope.commands.report import report
from numscope.commands.scan import scan
from numscope.commands.working import json_log
from numscope.errors import NumscopeError
from numscope.options import Commands
from numscope.starting import INTERRUPTED
from numscope.version import __version__


@click.group(
    cls=Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
    epilog="Every option can be set by the environment: NUMSCOPE_ANALYZE_OUT=results.",
)
@click.version_option(__version__, prog_name="numscope")
def cli() -> None:
    """What FP8 and MX block quantization lose in a training run's activations and gradients.

    \b
    numscope scan DUMP_DIR       what is in there and how it was understood
    numscope analyze DUMP_DIR    the main job: tables and charts
    """


COMMANDS = (advise, analyze, check, compare, export, findings, merge, plot, recipes, report, scan)

for _command in COMMANDS:
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    streams.settle()
    words = sys.argv[1:] if arguments is None else arguments
    if sys.stderr is not None and wants_json(words, os.environ):
        from numscope.logs import as_object  # noqa: PLC0415 (`--help` logs nothing)

        sys.stderr = streams.ByLine(sys.stderr, as_object)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # our threads are enough; NumPy reads this when imported
    starting.finish()
    code = run(arguments)
    if stopping.is_stop(code):
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, OSError, ValueError):  # there is none, or no reader
                stream.flush()
        stopping.end(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Every error is one line on stderr, or one object."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    fail = json_log(quiet=False).failure if wants_json(words, os.environ) else _complain
    try:
        code = cli.main(words, prog_name="numscope", standalone_mode=False, obj=words)
    except (KeyboardInterrupt, click.exceptions.Abort):
        fail("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        if fail is _complain:
            error.show()
        else:
            fail(error.format_message())
        return error.exit_code
    except (BrokenPipeError, SystemExit):  # click exits for a broken pipe
        if not _has_reader(sys.stdout):  # a help that was read far enough
            stop_writing(sys.stdout)
            return 0
        stop_writing(sys.stderr)  # there is nobody left to complain to
        return NOTHING_DONE
    except (NumscopeError, OSError) as error:
        fail(str(error))
        return exit_code(error)
    return code if isinstance(code, int) else 0


def _complain(text: str) -> None:
    click.echo(f"numscope: {text}", err=True)


def _has_reader(stream: TextIO) -> bool:
    """Whether the other end of a pipe is still open; so it is for what is no pipe."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return not any(event & select.POLLERR for _, event in poll.poll(0))
