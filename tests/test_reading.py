"""Commands that read results say so if a run has not ended in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.examples import Call
from tests.test_cli import analysed, folder, results
from tests.test_readme import EXTRAS

__all__ = ["analysed", "folder", "results"]


@pytest.mark.parametrize(
    "line",
    [
        ("findings", "results"),
        ("findings", "results", "--json"),
        ("report", "results"),
        ("plot", "results"),
        ("check", "results", "underflow>=0"),
        ("compare", "results", "twin"),
        ("advise", "results", "--json"),
        ("export", "results", "--tensorboard", "runs"),
    ],
    ids=lambda line: " ".join((line[0], *line[2:])),
)
def test_a_run_that_is_not_finished_is_remarked_upon(
    line: tuple[str, ...], results: Path, call: Call
) -> None:
    library = EXTRAS.get(line[0])
    if library:
        pytest.importorskip(library, reason="that extra is not installed")
    shutil.copytree(results, "twin")
    facts = json.loads((results / "run.json").read_text())
    before = call(*line)
    (results / "run.json").write_text(json.dumps({**facts, "finished": False}))
    said = "a run there is not finished: tables and charts may be of an earlier one"
    remark = f"warning: results: {said}\n"
    assert call(*line) == (before.code, before.out, remark + before.err)
    assert call(*line, "-q").err == ""
    (results / "run.json").write_text("{")
    assert remark not in call(*line).err
