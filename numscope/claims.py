"""Whose a results folder is: one dump's, which may be analysed into it again.

Nothing here knows what is in the files that say so.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from numscope import runs
from numscope.errors import ResultsError
from numscope.results import (
    CHARTS,
    FINDINGS,
    FINDINGS_TABLE,
    LAYERS,
    PARTS,
    PLANS,
    RECIPES,
    RUN,
    TENSORS,
    Results,
    read_json,
)

#: What a folder of results holds, in whatever state it is.
_MARKS = (TENSORS, LAYERS, RECIPES, FINDINGS, FINDINGS_TABLE, CHARTS, PARTS, PLANS)


def claim(folder: Path, dump: str, *, fresh: bool = False) -> Results:
    """The folder for the results of analysing `dump`, made if need be, and certain to be writable.

    Parameters
    ----------
    fresh
        Whether the results of another dump in that folder may be replaced.

    Raises
    ------
    ResultsError
        If it cannot be written, or holds the results of another dump.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = _broken_link(folder) or error.strerror
        raise ResultsError(
            f"cannot write results to {folder}: {why}; choose another folder with --out"
        ) from error
    if not fresh:
        _refuse_others(folder, dump)
    return Results(folder)


def opened(folder: Path) -> Results:
    """A folder of results that are read.

    Raises
    ------
    ResultsError
        If the folder is a link to nowhere.
    """
    if why := _broken_link(folder):
        raise ResultsError(f"cannot read results from {folder}: {why}")
    return Results(folder)


def _broken_link(folder: Path) -> str | None:
    """What is wrong with a folder that leads nowhere by a link, its own or one above it."""
    for path in (folder, *folder.parents):
        if path.is_symlink() and not path.exists():
            return f"{path} is a link to {path.readlink()}, and nothing is there"
    return None


def _refuse_others(folder: Path, dump: str) -> None:
    advice = "choose another folder with --out, or replace them with --fresh"
    try:
        found = read_json(folder / RUN)["dump"]
    except FileNotFoundError:
        if not any((folder / name).exists() for name in _MARKS):
            return
        found = _planned(folder)
        if found is None:
            raise ResultsError(f"{folder} holds results without a {RUN}; {advice}") from None
    except OSError as error:
        raise ResultsError(f"{folder / RUN} cannot be read: {error.strerror}; {advice}") from error
    except (ValueError, TypeError, LookupError) as error:
        is_torn = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        found = _planned(folder) if is_torn else None
        if found is None:
            raise ResultsError(f"{folder / RUN} was not written by numscope; {advice}") from error
    if found != dump:
        raise ResultsError(f"{folder} holds the results of {found}, not of {dump}; {advice}")


def _planned(folder: Path) -> str | None:
    """The dump that the last run begun in a folder is about, if its plan is there and whole.

    A plan is as good as run.json, of which the loss of a machine may leave nothing, or a half.
    """
    begun = runs.begun(folder / PLANS)
    return begun[-1].plan.dump if begun else None
