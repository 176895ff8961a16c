"""Profiles of the random tests, and what several files of tests need.

`pytest --hypothesis-profile=thorough` looks much further.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from numscope.cli import run
from tests.examples import Call, Outcome

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("quick")

# A shell starts what runs in its background deaf to Ctrl-C, and so would be the commands tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in this process."""

    def call(*arguments: object) -> Outcome:
        code = run([str(each) for each in arguments])
        return Outcome(code, *capsys.readouterr())

    return call
