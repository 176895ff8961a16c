"""A run that was stopped goes on where it was, whoever takes part in it, to the same tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numscope import analysis, parts, writing
from numscope.cli import run
from numscope.outcomes import FileResult
from numscope.plans import FileWork
from tests.batches import contents, small_dump, start
from tests.examples import REPOSITORY, Call, gradient, save_dump


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of twelve files, not to be changed."""
    return small_dump(tmp_path_factory.mktemp("small") / "dump")


@pytest.fixture(scope="module")
def whole(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables of an undisturbed run."""
    results = tmp_path_factory.mktemp("whole") / "out"
    assert run(["analyze", str(dump), "-o", str(results), "--no-charts", "-q"]) == 0
    return contents(results)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are measured from now on."""
    paths: list[str] = []
    measure = analysis.measure_file

    def watch(file: FileWork, *rest: Any) -> FileResult:
        paths.append(file.path)
        return measure(file, *rest)

    monkeypatch.setattr(analysis, "measure_file", watch)
    return paths


# Going on.


def test_what_is_finished_is_not_measured_again(
    dump: Path, tmp_path: Path, call: Call, measured: list[str], whole: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    assert call("analyze", dump, "-o", out, "--no-charts").code == 0
    assert len(measured) == 12
    code, _, err = call("analyze", dump, "-o", out, "--no-charts")
    assert (code, len(measured)) == (0, 12)
    assert err == "numscope: 12 of 12 dump files were finished before\n"
    assert contents(out) == whole


@pytest.mark.parametrize(
    "options",
    [
        ["--recipe", "e5m2:1x64"],
        ["--kinds", "gradient"],
        ["--tokens-per-step", "512"],
        ["--layer-offset", "1"],
        ["--fresh"],
    ],
)
def test_other_options_measure_anew(
    options: list[str], dump: Path, tmp_path: Path, call: Call, measured: list[str]
) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    call("analyze", dump, "-o", out, "--no-charts")
    call("analyze", dump, "-o", other, "--no-charts", *options)
    measured.clear()
    assert call("analyze", dump, "-o", out, "--no-charts", *options).code == 0
    assert len(measured) == 12
    assert contents(out) == contents(other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: path.write_text(path.read_text().replace("gradient", "gradiemt", 1)),
    ],
)
def test_a_damaged_part_is_measured_again(
    damage: Callable[[Path], object],
    dump: Path,
    tmp_path: Path,
    call: Call,
    measured: list[str],
    whole: dict[str, bytes],
) -> None:
    out = tmp_path / "out"
    call("analyze", dump, "-o", out, "--no-charts")
    measured.clear()
    damage(out / "parts" / parts.part_name("rank1/step_3.safetensors"))
    assert call("analyze", dump, "-o", out, "--no-charts").code == 0
    assert measured == ["rank1/step_3.safetensors"]
    assert contents(out) == whole


@pytest.mark.parametrize("content", [b"", b'{\n  "numscope": "0.1'])
def test_a_run_whose_run_json_is_torn_goes_on(
    content: bytes,
    dump: Path,
    tmp_path: Path,
    call: Call,
    measured: list[str],
    whole: dict[str, bytes],
) -> None:
    call("analyze", dump, "-o", tmp_path, "--no-charts")
    measured.clear()
    for command in (("analyze", dump, "-o", tmp_path), ("merge", tmp_path)):
        (tmp_path / "run.json").write_bytes(content)
        assert call(*command, "--no-charts").code == 0
        assert json.loads((tmp_path / "run.json").read_text())["finished"] is True
    assert (measured, contents(tmp_path)) == ([], whole)


def test_a_growing_dump_costs_only_what_is_new(
    tmp_path: Path, call: Call, measured: list[str]
) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    call("analyze", dump, "-o", out, "--no-charts")
    measured.clear()
    small_dump(tmp_path / "more", 6)
    for rank in ("rank0", "rank1"):
        (tmp_path / "more" / rank / "step_2.safetensors").replace(
            dump / rank / "step_2.safetensors"
        )
    touched = dump / "rank0" / "step_0.safetensors"
    os.utime(touched, (1e9, 1e9))
    assert call("analyze", dump, "-o", out, "--no-charts").code == 0
    assert sorted(measured) == [
        f"rank{r}/step_{s}.safetensors" for r, s in ((0, 0), (0, 2), (1, 2))
    ]
    call("analyze", dump, "-o", tmp_path / "anew", "--no-charts")
    assert contents(out) == contents(tmp_path / "anew")


def test_parts_that_are_lost_meanwhile_are_made_again(
    dump: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    whole: dict[str, bytes],
) -> None:
    write, lost = parts.write_part, list[str]()

    def write_and_lose(folder: Path, origin: parts.Origin, part: parts.Part) -> None:
        write(folder, origin, part)
        if not lost:
            lost.append(origin.path)
            (folder / parts.part_name(origin.path)).unlink()

    monkeypatch.setattr(parts, "write_part", write_and_lose)
    assert call("analyze", dump, "-o", tmp_path, "--no-charts", "-q").code == 0
    assert contents(tmp_path) == whole


# Shards.


def test_shards_together_make_the_tables_of_one_run(
    dump: Path, tmp_path: Path, call: Call, measured: list[str], whole: dict[str, bytes]
) -> None:
    for shard in ("2/3", "3/3", "1/3"):
        code, out, err = call("analyze", dump, "-o", tmp_path, "--shard", shard)
        assert (code, out) == (0, "")
        assert err.endswith(
            f"numscope: shard {shard}: 4 of 4 dump files are finished;"
            f" when all shards are: numscope merge {tmp_path}\n"
        )
    assert sorted(measured) == sorted(set(measured))
    assert not (tmp_path / "tensors.csv").exists()
    measured.clear()
    assert call("merge", tmp_path, "--no-charts").code == 0
    assert contents(tmp_path) == whole
    assert measured == []


def test_a_merge_needs_no_dump(tmp_path: Path, call: Call) -> None:
    dump, out = small_dump(tmp_path / "dump", 2), tmp_path / "out"
    for shard in ("1/2", "2/2"):
        call("analyze", dump, "-o", out, "--shard", shard)
    dump.rename(tmp_path / "gone")
    assert call("merge", out).code == 0
    assert (out / "charts" / "overview.png").is_file()
    facts = json.loads((out / "run.json").read_text())
    assert (facts["files"], facts["tensors"], facts["finished"]) == (2, 8, True)


def test_a_missing_shard_is_named(dump: Path, tmp_path: Path, call: Call) -> None:
    call("analyze", dump, "-o", tmp_path, "--shard", "2/3")
    code, _, err = call("merge", tmp_path, "--no-charts")
    assert code == 3
    assert err.splitlines() == [
        f"error: {dump}: shard {n}/3 has not been run: its files are missing" for n in (1, 3)
    ]
    assert contents(tmp_path)["tensors.csv"].count(b"\n") == 1 + 4 * 6
    skipped = json.loads((tmp_path / "run.json").read_text())["skipped"]
    assert len(skipped) == 2


def test_a_shard_that_is_not_finished_is_named(dump: Path, tmp_path: Path, call: Call) -> None:
    for shard in ("1/2", "2/2"):
        call("analyze", dump, "-o", tmp_path, "--shard", shard)
    (tmp_path / "parts" / parts.part_name("rank0/step_3.safetensors")).unlink()
    code, _, err = call("merge", tmp_path, "--no-charts")
    assert code == 3
    assert err.startswith("error: rank0/step_3.safetensors: has no part: run shard ")


def test_of_a_shard_that_is_not_finished_the_missing_files_are_counted(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    call("analyze", dump, "-o", tmp_path, "--shard", "1/1", "--no-charts")
    for step in (1, 2):
        (tmp_path / "parts" / parts.part_name(f"rank0/step_{step}.safetensors")).unlink()
    err = call("merge", tmp_path, "--no-charts").err
    assert err == (
        "error: rank0/step_1.safetensors: has no part (and 1 more file like it):"
        " run shard 1/1 again\n"
    )


def test_shards_with_other_options_are_refused(dump: Path, tmp_path: Path, call: Call) -> None:
    call("analyze", dump, "-o", tmp_path, "--shard", "1/2")
    call("analyze", dump, "-o", tmp_path, "--shard", "2/2", "--recipe", "e5m2:1x64")
    code, _, err = call("merge", tmp_path)
    assert code == 1
    assert err == (
        "numscope: shard 1/2 was run with --recipe ling, shard 2/2 with"
        " --recipe e5m2:1x64: run the shards again with the same options\n".replace(
            "e5m2:1x64", _label("e5m2:1x64")
        )
    )


def test_shards_of_two_dumps_are_refused(dump: Path, tmp_path: Path, call: Call) -> None:
    other, out = small_dump(tmp_path / "other", 4), tmp_path / "out"
    call("analyze", dump, "-o", out, "--shard", "1/2")
    assert call("analyze", other, "-o", out, "--shard", "2/2", "--fresh").code == 0
    code, _, err = call("merge", out)
    assert (code, (out / "tensors.csv").exists()) == (1, False)
    assert err == (
        f"numscope: shard 1/2 was run on {dump}, shard 2/2 on {other}:"
        " run all shards on the same dump\n"
    )


def _label(recipe: str) -> str:
    from numscope.written import parse

    return str(parse(recipe))


def test_nothing_to_merge_is_one_line(tmp_path: Path, call: Call) -> None:
    assert call("merge", tmp_path) == (
        1,
        "",
        f"numscope: no run has begun in {tmp_path}: there is nothing to merge\n",
    )


def test_another_split_replaces_the_one_before(
    dump: Path, tmp_path: Path, call: Call, measured: list[str], whole: dict[str, bytes]
) -> None:
    call("analyze", dump, "-o", tmp_path, "--shard", "1/2")
    for shard in ("1/3", "2/3", "3/3"):
        call("analyze", dump, "-o", tmp_path, "--shard", shard)
    assert call("merge", tmp_path, "--no-charts", "-q").code == 0
    assert contents(tmp_path) == whole
    assert len(measured) == 12


def test_a_file_that_comes_between_two_shards_is_not_forgotten(tmp_path: Path, call: Call) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    call("analyze", dump, "-o", out, "--shard", "1/2")
    save_dump(dump / "rank0" / "step_9.safetensors", {"layers.0.fc.gradient": gradient(4, 8)})
    call("analyze", dump, "-o", out, "--shard", "2/2")
    missing = call("merge", out, "--no-charts")
    again = [call("analyze", dump, "-o", out, "--shard", shard).code for shard in ("1/2", "2/2")]
    assert again == [0, 0]
    assert call("merge", out, "--no-charts", "-q").code == 0
    call("analyze", dump, "-o", tmp_path / "anew", "--no-charts")
    assert contents(out) == contents(tmp_path / "anew")
    # By whom the new file was to be measured depends on its size alone.
    assert missing.code in (0, 3)


def test_a_file_that_goes_between_two_shards_is_left_out_and_told(
    tmp_path: Path, call: Call, measured: list[str]
) -> None:
    dump, out = small_dump(tmp_path / "dump", 6), tmp_path / "out"
    call("analyze", dump, "-o", out, "--shard", "1/2")
    victim = measured[0]
    (dump / victim).rename(tmp_path / "victim")
    assert call("analyze", dump, "-o", out, "--shard", "2/2").code == 0
    told = f"warning: {victim}: was no longer in the dump when shard 2/2 began: its rows are left"
    assert told in call("merge", out, "--no-charts").err
    assert victim.encode() not in contents(out)["tensors.csv"]
    (warning,) = json.loads((out / "run.json").read_text())["warnings"]
    assert warning["where"] == victim
    call("analyze", dump, "-o", out, "--shard", "1/2")
    assert call("merge", out, "--no-charts").code == 0
    call("analyze", dump, "-o", tmp_path / "less", "--no-charts")
    assert contents(out) == contents(tmp_path / "less")


def test_what_was_measured_of_a_file_that_comes_back_is_used_again(
    tmp_path: Path, call: Call, measured: list[str]
) -> None:
    dump, out = small_dump(tmp_path / "dump", 6), tmp_path / "out"
    for shard in ("1/2", "2/2"):
        call("analyze", dump, "-o", out, "--shard", shard)
    assert call("merge", out, "--no-charts").code == 0
    tables = contents(out)
    (dump / "rank1").rename(tmp_path / "unmounted")
    call("analyze", dump, "-o", out, "--shard", "2/2")
    assert call("merge", out, "--no-charts").err.count("was no longer in the dump") == 3
    assert contents(out)["tensors.csv"].count(b"\n") == 1 + 3 * 6
    (tmp_path / "unmounted").rename(dump / "rank1")
    call("analyze", dump, "-o", out, "--shard", "2/2")
    assert call("merge", out, "--no-charts").code == 0
    assert contents(out) == tables
    assert len(measured) == 6


@pytest.mark.parametrize("split", [[], ["--shard", "1/1"]])
def test_a_file_that_goes_between_two_runs_is_told(
    split: list[str], tmp_path: Path, call: Call
) -> None:
    dump, out = small_dump(tmp_path / "dump", 6), tmp_path / "out"
    options = ("analyze", dump, "-o", out, "--no-charts", *split)
    call(*options)
    for rank in ("rank0", "rank1"):
        (dump / rank / "step_1.safetensors").unlink()
    message = (
        "was measured before, and is no longer in the dump or no longer asked for:"
        " its rows are left out"
    )
    code, _, err = call(*options)
    assert code == 0
    assert err.splitlines()[1:] == [
        f"warning: rank{rank}/step_1.safetensors: {message}" for rank in (0, 1)
    ]
    assert call(*options).err == "numscope: 4 of 4 dump files were finished before\n"


@pytest.mark.parametrize(
    ("environment", "code", "words"),
    [
        ({"ID": "2", "COUNT": "3", "MIN": "1", "MAX": "3"}, 0, "shard 2/3: 4 of 4"),
        ({"ID": "2", "COUNT": "3", "MIN": "0", "MAX": "2"}, 0, "shard 3/3: 4 of 4"),
        ({"ID": "14", "COUNT": "3", "MIN": "10", "MAX": "14", "STEP": "2"}, 0, "shard 3/3: 4 of 4"),
        ({"ID": "1", "COUNT": "3"}, 0, "shard 1/3: 4 of 4"),
        ({"ID": "5", "COUNT": "2", "MIN": "3", "MAX": "5", "STEP": "1"}, 2, "it has gaps"),
        ({"ID": "7", "COUNT": "1", "MIN": "7", "MAX": "7", "STEP": "0"}, 0, "12/12 files"),
        ({"ID": "5", "COUNT": "2", "MIN": "4", "MAX": "5", "STEP": "x"}, 2, "TASK_STEP is 'x', no"),
        ({"ID": "2", "COUNT": "3", "MIN": "x"}, 2, "SLURM_ARRAY_TASK_MIN is 'x', no number"),
        ({"ID": "2", "COUNT": "3", "MAX": ""}, 2, "SLURM_ARRAY_TASK_MAX is not set"),
        ({"ID": "²", "COUNT": "3"}, 2, "SLURM_ARRAY_TASK_ID is '²', no number"),
        ({"ID": "9" * 5000, "COUNT": "3"}, 2, "SLURM_ARRAY_TASK_ID is '999"),
        ({}, 2, "this is no task of a job array"),
    ],
)
def test_slurm_says_which_shard(
    environment: dict[str, str],
    code: int,
    words: str,
    dump: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ID", "COUNT", "MIN", "MAX", "STEP"):
        monkeypatch.delenv(f"SLURM_ARRAY_TASK_{name}", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    outcome = call("analyze", dump, "-o", tmp_path, "--shard", "slurm")
    assert outcome.code == code
    assert words in outcome.err


# Faults.

_KILLED_AT_RANDOM = """
import os, random, signal, sys, time
from numscope.cli import run
from numscope.written import parse
from numscope.streaming import warm_up
import numscope.analysis, numscope.batches, numscope.workers, numscope.gallery, numscope.charts
dump, folder = sys.argv[1:]
warm_up(parse("ling"))
draw = random.Random(20)

def analyze(out, delay=None):
    child = os.fork()
    if not child:
        os._exit(run(["analyze", dump, "-o", out, "--no-charts", "--jobs", "2", "-q"]))
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def seconds(out):
    begin = time.monotonic()
    assert analyze(out) == 0
    return time.monotonic() - begin

longest = min(seconds(f"{folder}/timed_{n}") for n in range(2))
killed, rounds = 0, 0
while killed < 30 and rounds < 30:
    rounds += 1
    for _ in range(5):
        killed += analyze(f"{folder}/{rounds}", draw.uniform(0, longest)) == -signal.SIGKILL
    assert analyze(f"{folder}/{rounds}") == 0
print(killed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_moments_a_run_ends_in_the_same_tables(
    dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _KILLED_AT_RANDOM, str(dump), str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert int(done.stdout) >= 20
    for out in tmp_path.iterdir():
        assert contents(out) == whole, out
        assert not list(out.rglob(".*")), "a partial file was left"


def test_two_processes_at_once_make_the_same_tables(
    dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    both = [start("analyze", dump, "-o", tmp_path, "--no-charts") for _ in range(2)]
    errors = [each.communicate(timeout=60)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], errors
    assert contents(tmp_path) == whole


def test_a_shard_may_run_twice_at_once(
    dump: Path, tmp_path: Path, call: Call, whole: dict[str, bytes]
) -> None:
    shards = [
        start("analyze", dump, "-o", tmp_path, "--shard", shard) for shard in ("1/2", "2/2", "2/2")
    ]
    errors = [each.communicate(timeout=60)[1] for each in shards]
    assert [each.returncode for each in shards] == [0, 0, 0], errors
    assert call("merge", tmp_path, "--no-charts").code == 0
    assert contents(tmp_path) == whole


@pytest.mark.parametrize("victim", ["part", "table"])
def test_a_full_disk_ends_the_run_which_then_goes_on(
    victim: str, dump: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    import resource

    largest = {"part": 3000, "table": len(whole["tensors.csv"]) // 2}[victim]

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    out = tmp_path / "out"
    options = ("analyze", dump, "-o", out, "--no-charts")
    full = start(*options, preexec_fn=no_large_files)
    _, err = full.communicate(timeout=60)
    assert full.returncode == 1
    (line,) = [line for line in err.splitlines() if line.startswith("numscope: cannot write")]
    assert f"{out}/" in line
    assert "File too large" in line
    assert not (out / "tensors.csv").exists()
    kept = len(list((out / "parts").iterdir()))
    assert kept == (0 if victim == "part" else 12)
    again = start(*options)
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert contents(out) == whole


def _change_when_measured(
    monkeypatch: pytest.MonkeyPatch, victim: Path, change: Callable[[Path], object]
) -> None:
    """Change the file when it is about to be opened to be measured."""
    measure = analysis.measure_file

    def change_first(file: FileWork, *rest: Any) -> FileResult:
        if Path(file.root, file.path) == victim:
            change(victim)
        return measure(file, *rest)

    monkeypatch.setattr(analysis, "measure_file", change_first)


def _replace(path: Path) -> None:
    tensors = {"layers.0.fc.activation": np.ones((3, 4), np.float32)}
    save_dump(path.with_name("new"), tensors).replace(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "cannot be opened: No such file"),
        (lambda path: os.truncate(path, 700), "is cut short"),
        (_replace, "the file has changed since it was scanned"),
    ],
    ids=["deleted", "truncated", "replaced"],
)
def test_a_file_that_changes_during_the_run_costs_only_itself(
    change: Callable[[Path], object],
    message: str,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    victim = dump / "rank1" / "step_0.safetensors"
    good = victim.read_bytes()
    with monkeypatch.context() as patch:
        _change_when_measured(patch, victim, change)
        code, _, err = call("analyze", dump, "-o", out, "--no-charts")
    assert code == 3
    assert "error: rank1/step_0.safetensors" in err
    assert message in err
    assert contents(out)["tensors.csv"].count(b"rank0/step_0") == 6
    assert b"rank1/step_0" not in contents(out)["tensors.csv"]
    victim.write_bytes(good)
    assert call("analyze", dump, "-o", out, "--no-charts", "-q").code == 0
    call("analyze", dump, "-o", tmp_path / "anew", "--no-charts")
    assert contents(out) == contents(tmp_path / "anew")


def test_a_file_that_grows_during_the_run_is_left_for_the_next(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    victim = dump / "rank1" / "step_0.safetensors"
    good = victim.read_bytes()

    def append(path: Path) -> None:
        path.write_bytes(good + b"more to come")

    with monkeypatch.context() as patch:
        _change_when_measured(patch, victim, append)
        code, _, err = call("analyze", dump, "-o", out, "--no-charts")
    assert code == 0
    assert "warning: rank1/step_0.safetensors: is still being written" in err
    assert b"rank1/step_0" not in contents(out)["tensors.csv"]
    victim.write_bytes(good)
    assert call("analyze", dump, "-o", out, "--no-charts").code == 0
    assert b"rank1/step_0" in contents(out)["tensors.csv"]


def test_a_file_that_is_being_written_when_it_is_scanned_is_left(tmp_path: Path) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    whole = (dump / "rank0" / "step_1.safetensors").read_bytes()
    new = dump / "rank0" / "step_1.safetensors"
    new.write_bytes(b"")
    with new.open("wb", buffering=0) as file:
        process = start("analyze", dump, "-o", out, "--no-charts")
        at = 0
        while process.poll() is None:
            file.write(whole[at : at + 1])
            at += 1
            time.sleep(0.05)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "warning: rank0/step_1.safetensors: is still being written; left for the next run" in err


_AS_NOBODY = """
import os, sys
from numscope.cli import run
from numscope.written import parse
from numscope.streaming import warm_up
import numscope.analysis, numscope.batches, numscope.workers, numscope.gallery
warm_up(parse("ling"))
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(run(sys.argv[1:]))
"""


def _as_nobody(dump: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command line as another user, who may read the dump."""
    above = [path for path in dump.parents if path.parent.is_relative_to(tempfile.gettempdir())]
    for path in (*above, dump, *dump.rglob("*")):
        path.chmod(0o755)
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", _AS_NOBODY, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


needs_another_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user"
)


@needs_another_user
def test_a_folder_that_may_no_longer_be_written_is_one_line(tmp_path: Path) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    (out / "parts").mkdir(parents=True)
    (out / "run.json").write_text(json.dumps({"dump": str(dump)}))
    out.chmod(0o777)
    (out / "parts").chmod(0o555)
    done = _as_nobody(dump, "analyze", dump, "-o", out)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"numscope: cannot write {out}/parts/")
    assert last.endswith(": Permission denied")


@needs_another_user
@pytest.mark.parametrize("name", ["plans", "parts"])
def test_a_folder_that_may_not_be_read_is_one_line(name: str, tmp_path: Path, call: Call) -> None:
    dump, out = small_dump(tmp_path / "dump", 4), tmp_path / "out"
    call("analyze", dump, "-o", out, "--shard", "1/2")
    (out / name).chmod(0)
    done = _as_nobody(dump, "merge", out)
    (out / name).chmod(0o755)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"numscope: {out}/{name}")
    assert line.endswith(" cannot be read: Permission denied")


_OTHERS = (
    *(".film.part", ".movie.mkv.2024.part", ".a.csv.numscope", ".a.x.numscope"),
    writing.partial_name("a", process=10**20),
)


def test_partial_files_of_killed_processes_are_removed(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    (tmp_path / "parts").mkdir()
    (tmp_path / "run.json").write_text(json.dumps({"dump": str(dump)}))
    dead = tmp_path / "parts" / writing.partial_name("a.csv", process=child.pid)
    alive = tmp_path / "parts" / writing.partial_name("b.csv")
    elsewhere = tmp_path / "parts" / writing.partial_name("c.csv", "other", child.pid)
    for path in (dead, alive, elsewhere):
        path.write_text("half")
    assert call("analyze", dump, "-o", tmp_path, "--no-charts").code == 0
    assert [path.exists() for path in (dead, alive, elsewhere)] == [False, True, True]
    others = [tmp_path / "parts" / name for name in _OTHERS]
    for path in (elsewhere, *others):
        path.write_text("half")
        os.utime(path, (1e9, 1e9))
    writing.remove_leftovers(tmp_path / "parts")
    assert [path.exists() for path in (elsewhere, *others)] == [False, *[True] * len(others)]


# Being stopped.


@pytest.fixture
def large_dump(tmp_path: Path) -> Path:
    """A dump that takes long: a few small files, and then one that is a hole of 8 GB."""
    from tests.benchmarks.memory import write_hollow_dump

    dump = small_dump(tmp_path / "dump", 4)
    write_hollow_dump(dump / "rank1" / "step_9.safetensors", 8192 * 10**6)
    return dump


@pytest.mark.parametrize(
    ("signal_name", "code", "said"),
    [("SIGTERM", 143, "stopped by SIGTERM"), ("SIGINT", 130, "interrupted")],
)
def test_a_signal_stops_at_once_and_says_how_to_go_on(
    signal_name: str, code: int, said: str, large_dump: Path, tmp_path: Path
) -> None:
    import signal

    out = tmp_path / "out"
    process = start("analyze", large_dump, "-o", out, "--no-charts")
    deadline = time.monotonic() + 60
    while len(list((out / "parts").glob("*.csv"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    sent = time.monotonic()
    process.send_signal(getattr(signal, signal_name))
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < 2.5
    assert process.returncode == code
    assert err.splitlines()[-1] == (
        f"numscope: {said}; 4 of 5 dump files are finished and kept in {out}/parts;"
        " the same command goes on from there"
    )


_IN_A_CALLBACK = """
import ctypes, signal, sys, time
from numscope.stopping import stoppable
with stoppable(lambda text: print(text, file=sys.stderr, flush=True)) as stopping:
    stopping.advice = lambda: "go on"
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()
    time.sleep(60)
"""


def test_a_signal_that_is_lost_in_foreign_code_stops_in_time_all_the_same() -> None:
    begin = time.monotonic()
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _IN_A_CALLBACK],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert (ended.returncode, ended.stderr) == (143, "stopped by SIGTERM; go on\n")
    assert time.monotonic() - begin < 10


_WAITS_IN_THE_END = """
import atexit, signal, time
from numscope import cli, dumps
dumps.scan = lambda *_, **__: signal.raise_signal(signal.SIGTERM)
atexit.register(time.sleep, 60)
print("said", end="")
cli.main(["scan", "."])
"""


def test_a_run_that_was_stopped_does_not_wait_for_what_libraries_do_in_the_end() -> None:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _WAITS_IN_THE_END],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert (ended.returncode, ended.stdout) == (143, "said")
    assert ended.stderr == "numscope: stopped by SIGTERM\n"
