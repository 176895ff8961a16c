"""`--quiet` and `--verbose` do what the help of each command says."""

from __future__ import annotations

import click
import pytest

from numscope.cli import cli
from tests.examples import SAMPLE_DUMPS, Call
from tests.test_cli import analysed, folder, results
from tests.test_readme import EXTRAS

__all__ = ["analysed", "folder", "results"]

LINES = {
    "advise": ("results",),
    "analyze": ("dump", "--no-charts"),
    "check": ("results", "underflow[activation]<0.01", "underflow[gradient]<0"),
    "compare": ("results", "results"),
    "export": ("results", "--tensorboard", "runs"),
    "findings": ("results",),
    "merge": ("results", "--no-charts"),
    "plot": ("results",),
    "recipes": (),
    "report": ("results",),
    "scan": ("dump",),
}

#: What these say with --verbose they say where there are many remarks or findings: see `test_cli`.
SAYS_MORE_OF_MANY = {"analyze", "findings", "merge", "scan"}


def _help(command: str, name: str) -> str:
    """What the help says of that option."""
    (found,) = (each for each in cli.commands[command].params if each.name == name)
    assert isinstance(found, click.Option)
    assert found.help
    return found.help


def test_all_commands_are_tried() -> None:
    assert LINES.keys() == cli.commands.keys()


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("command", LINES)
def test_the_help_says_what_verbosity_does(command: str, call: Call) -> None:
    if command in EXTRAS:
        pytest.importorskip(EXTRAS[command], reason="that extra is not installed")
    usual, quiet, verbose = (
        call(command, *LINES[command], *option).out for option in ([], ["--quiet"], ["--verbose"])
    )
    said = _help(command, "quiet")
    assert said.startswith("Say nothing but errors") == (quiet == "")
    is_answer = said == "Say nothing but the answer and errors."
    assert (said.startswith("Changes nothing") or is_answer) == (quiet == usual)
    said = _help(command, "verbose")
    if command not in SAYS_MORE_OF_MANY:
        assert said.startswith("Changes nothing") == (verbose == usual)


def test_scanning_quietly_shows_no_progress(call: Call) -> None:
    usual, quiet = (call("scan", SAMPLE_DUMPS, *option) for option in ([], ["--quiet"]))
    assert quiet == (0, usual.out, "")
