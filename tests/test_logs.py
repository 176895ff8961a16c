"""A log for programs: one JSON object per line on stderr, whatever happens, and nothing else."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numscope import streams
from numscope.cli import run
from numscope.dumps import Problem
from numscope.logs import AsJson, as_object
from tests.batches import small_dump
from tests.examples import REPOSITORY

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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("analyze", "Missing argument 'DUMP'."),
        ("analyze dump --jobs none", "Invalid value for '--jobs': 'none' is not a valid integer"),
        ("analyze dump --nonsense", "No such option '--nonsense'."),
        ("analyze dump --scheduler here", "--scheduler and --scheduler-file need --engine dask"),
        ("scan dump", "No such option '--log-json'. Did you mean '--json'?"),
        ("no-command", "No such command 'no-command'."),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_wrong_usage_is_an_object_wherever_the_option_stands(
    arguments: str, why: str, events: Events, *, is_first: bool
) -> None:
    words = arguments.split()
    words.insert(1 if is_first else len(words), "--log-json")
    code, (line,) = events(*words)
    assert code == 2
    assert line["event"] == "error"
    assert line["message"].startswith(why.removesuffix("."))


def test_wrong_usage_is_an_object_where_the_environment_asks_for_it(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMSCOPE_ANALYZE_LOG_JSON", "yes")
    assert events("analyze") == (2, [{"event": "error", "message": "Missing argument 'DUMP'."}])


@pytest.mark.parametrize("said", ["0", "nonsense"])
def test_an_environment_that_does_not_ask_for_it_changes_nothing(
    said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMSCOPE_ANALYZE_LOG_JSON", said)
    monkeypatch.setenv("NUMSCOPE_MERGE_LOG_JSON", "1")
    assert run(["analyze", "dump", "--nonsense"]) == 2
    assert "No such option" in capsys.readouterr().err.splitlines()[-1]


def test_what_libraries_say_is_an_object_a_line(tmp_path: Path) -> None:
    """Warnings, and the traceback of a fault of numscope itself."""
    (tmp_path / "sitecustomize.py").write_text(
        "import warnings\n"
        "from numscope import json_text\n"
        "def fail(*_, **__):\n"
        "    warnings.warn('not so good')\n"
        "    raise RuntimeError('two\\nlines')\n"
        "from numscope.commands import merge\n"
        "merge.working = fail\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "numscope", "merge", "--log-json"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
    )
    assert (done.returncode, done.stdout) == (1, b"")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["event"] for line in lines} == {"note"}
    said = [line["message"] for line in lines]
    assert any(line.endswith("UserWarning: not so good") for line in said)
    assert said[-2:] == ["RuntimeError: two", "lines"]


def test_lines_of_several_threads_stay_whole() -> None:
    stream = io.StringIO()
    lines = streams.ByLine(stream, as_object)

    def write(word: str) -> None:
        for _ in range(100):
            lines.write(word)
            lines.write(f" {word}\n")

    threads = [threading.Thread(target=write, args=(word,)) for word in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines.write("a rest")
    lines.flush()
    said = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert sorted(said) == ["a rest", *["one one"] * 100, *["other other"] * 100]
