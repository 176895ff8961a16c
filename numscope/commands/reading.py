"""The results that a command reads, with a remark where a run has not ended in them.

Nothing here knows what a command is for.
"""
# ruff: noqa: PLC0415 (`--help` needs none of it)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from numscope.results import Results


def reading(folder: Path, *, quiet: bool) -> Results:
    """The results in a folder; unless quiet, a line on stderr says that their run is unfinished.

    Raises
    ------
    ResultsError
        If the folder leads nowhere.
    """
    from numscope.claims import opened
    from numscope.console import literal

    results = opened(folder)
    if results.is_unfinished and not quiet:
        click.echo(
            f"warning: {literal(str(folder))}: a run there is not finished:"
            " tables and charts may be of an earlier one",
            err=True,
        )
    return results
