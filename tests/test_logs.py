"""A log for programs: one JSON object per line on stderr, whatever happens, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numscope.cli import run
from numscope.dumps import Problem
from numscope.logs import AsJson
from tests.batches import small_dump

Events = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def events(capsys: pytest.CaptureFixture[str]) -> Events:
    """Run a command line; its exit code and the lines of its log."""

    def events(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
        code = run([str(each) for each in arguments])
        return code, [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return events


def test_every_line_is_an_object_with_an_event(events: Events, tmp_path: Path) -> None:
    dump = small_dump(tmp_path / "dump", 4)
    (dump / "rank0" / "step_7.safetensors").write_bytes(b"not a dump at all")
    code, lines = events("analyze", dump, "-o", tmp_path / "out", "--no-charts", "--log-json")
    assert code == 3
    (progress,) = [line for line in lines if line["event"] == "progress"]
    assert (progress["files"], progress["total_files"], progress["failures"]) == (4, 4, 0)
    assert progress["bytes"] == progress["total_bytes"] > 0
    assert progress["seconds_left"] == 0
    (unread,) = [line for line in lines if line["event"] == "unread"]
    assert unread["where"] == "rank0/step_7.safetensors"


def test_errors_are_objects_too(events: Events, tmp_path: Path) -> None:
    code, lines = events("merge", tmp_path, "--log-json")
    message = f"no run has begun in {tmp_path}: there is nothing to merge"
    assert (code, lines) == (1, [{"event": "error", "message": message}])


def test_quiet_says_what_is_missing_and_nothing_else(events: Events, tmp_path: Path) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    command = ("analyze", dump, "-o", out, "--no-charts", "--log-json", "--quiet")
    assert events(*command) == (0, [])
    (dump / "rank0" / "step_7.safetensors").write_bytes(b"not a dump at all")
    code, lines = events(*command)
    assert code == 3
    assert [line["event"] for line in lines] == ["unread"]


def test_remarks_are_warnings() -> None:
    lines: list[str] = []
    AsJson(lines.append, quiet=False).problems([Problem("a.npy", "odd", failure=False)])
    assert lines == ['{"event": "warning", "where": "a.npy", "message": "odd"}\n']
