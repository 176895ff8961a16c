"""A run whose results folder is taken from it says so, and leaves it to whoever has it."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numscope import analysis, batches, gallery, merging, parts, runs, tenure
from numscope.cli import run
from numscope.errors import ResultsError
from numscope.parts import Origin
from numscope.results import Results
from numscope.runs import RunPlan
from numscope.shards import Shard
from numscope.tenure import Tenure
from tests.batches import contents, small_dump, start
from tests.examples import Call

PLAN = RunPlan(
    "/dump", ("analyze", "/dump"), {"--recipe": "ling"}, {}, (Origin("a", 1, 2, "0", 1),)
)
OTHER = replace(PLAN, command=("analyze", "/my dump"), settings={"--recipe": "e5m2"})


def _hold(folder: Path, plan: RunPlan = PLAN, shard: Shard | None = None) -> Tenure:
    """Begin a run in a results folder."""
    folder.mkdir(exist_ok=True)
    shard = shard or Shard()
    runs.begin(folder / "plans", plan, shard)
    return Tenure(folder / "plans", plan, shard)


def _said(held: Tenure) -> str:
    with pytest.raises(ResultsError) as caught:
        held.confirm()
    return str(caught.value)


# Whose folder it is.


@pytest.mark.parametrize("split", [Shard(), Shard(1, 2), Shard(3, 3)], ids=str)
def test_the_same_run_may_begin_again_and_be_split_otherwise(split: Shard, tmp_path: Path) -> None:
    held = _hold(tmp_path)
    held.confirm()
    again = _hold(tmp_path, replace(PLAN, command=("analyze", "dump", "--jobs", "2")), split)
    more = _hold(tmp_path, replace(PLAN, files=()), split)
    for each in (held, again, more):
        each.confirm()


@pytest.mark.parametrize("split", [Shard(), Shard(1, 2)], ids=str)
@pytest.mark.parametrize("other", [OTHER, replace(OTHER, dump="/my dump", settings={})])
def test_another_run_takes_the_folder_and_is_named(
    other: RunPlan, split: Shard, tmp_path: Path
) -> None:
    held = _hold(tmp_path)
    held.confirm()
    taker = _hold(tmp_path, other, split)
    assert _said(held) == (
        f"another run has begun in {tmp_path} meanwhile, and this one ends here:"
        " numscope analyze '/my dump'; choose another folder with --out"
    )
    taker.confirm()


def test_other_shards_of_the_same_split_are_refused_by_the_merge_alone(tmp_path: Path) -> None:
    held = _hold(tmp_path, shard=Shard(1, 2))
    _hold(tmp_path, OTHER, Shard(2, 2)).confirm()
    held.confirm()


def test_a_folder_that_is_taken_away_is_not_made_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    held = _hold(out)
    shutil.rmtree(out / "plans")
    assert _said(held) == f"{out}/plans was emptied meanwhile; the same command goes on"
    shutil.rmtree(out)
    gone = (
        f"{out} was removed or moved away meanwhile; put it back, or say where it is with --out,"
        " and the same command goes on"
    )
    assert _said(held) == gone
    with pytest.raises(ResultsError) as caught:
        runs.begin(out / "plans", PLAN, Shard())
    assert str(caught.value) == gone
    assert not out.exists()


def test_now_and_then_is_not_all_the_time(tmp_path: Path) -> None:
    now = [0.0]
    _hold(tmp_path)
    held = Tenure(tmp_path / "plans", PLAN, Shard(), clock=lambda: now[0])
    _hold(tmp_path, OTHER)
    now[0] = 0.9
    held.confirm_now_and_then()
    now[0] = 1.1
    with pytest.raises(ResultsError, match="another run has begun"):
        held.confirm_now_and_then()


def test_what_is_amended_began_when_it_did(tmp_path: Path) -> None:
    _hold(tmp_path, shard=Shard(1, 2))
    _hold(tmp_path, shard=Shard(2, 2))
    more = replace(PLAN, command=("analyze", "more"))
    runs.amend(tmp_path / "plans", more, Shard(1, 2))
    first, last = runs.begun(tmp_path / "plans")
    assert (first.plan, first.shard, last.shard) == (more, Shard(1, 2), Shard(2, 2))
    runs.amend(tmp_path / "plans", more, Shard(1, 3))
    assert len(runs.begun(tmp_path / "plans")) == 2


def test_the_advice_after_a_stop_promises_nothing_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    batch = batches.begin(Results(tmp_path / "out"), replace(PLAN, files=()), [], Shard())
    assert "the same command goes on from there" in batch.advice()
    shutil.rmtree(tmp_path / "out")
    assert batch.advice().startswith(f"{tmp_path}/out was removed or moved away meanwhile; put it")


# Runs.


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of twelve files, not to be changed."""
    return small_dump(tmp_path_factory.mktemp("small") / "dump")


#: What a second run asks for, and the tables that it makes when nobody disturbs it.
ASKED = ("--recipe", "e5m2:1x64")


@pytest.fixture(scope="module")
def theirs(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("theirs") / "out"
    assert run(["analyze", str(dump), "-o", str(out), "--no-charts", "-q", *ASKED]) == 0
    return contents(out)


def _meanwhile(
    patch: pytest.MonkeyPatch, moment: tuple[object, str], event: Callable[[], object]
) -> None:
    """Let something happen once, the second time that a function is called, or the only time."""
    patch.setattr(tenure, "_EVERY_SECONDS", 0.0)
    module, name = moment
    function, happened = getattr(module, name), list[str]()

    def disturbed(*arguments: Any, **options: Any) -> Any:
        if not happened:
            happened.append(name)
            event()
        return function(*arguments, **options)

    patch.setattr(module, name, disturbed)


MOMENTS = {
    "measuring": (analysis, "measure_file"),
    "merging": (merging, "sorted_rows"),
    "drawing": (gallery, "chart_files"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_of_two_runs_the_later_one_has_the_folder(
    moment: str,
    dump: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    theirs: dict[str, bytes],
) -> None:
    command = ("analyze", str(dump), "-o", str(tmp_path), *ASKED)
    said: list[str] = []

    def another() -> None:
        process = start(*command)
        said.append(process.communicate(timeout=60)[1])
        assert process.returncode == 0

    with monkeypatch.context() as patch:
        _meanwhile(patch, MOMENTS[moment], another)
        code, out, err = call("analyze", dump, "-o", tmp_path)
    assert (code, out) == (1, "")
    line = f"numscope: another run has begun in {tmp_path} meanwhile, and this one ends here:"
    assert f"{line} {shlex.join(['numscope', *command])};" in err
    first = shlex.join(["numscope", "analyze", str(dump), "-o", str(tmp_path)])
    whose = f"numscope: {tmp_path} holds an unfinished run, whose place this one takes: {first}"
    assert whose in said[0].splitlines()
    assert contents(tmp_path) == theirs
    facts = json.loads((tmp_path / "run.json").read_text())
    assert (facts["finished"], facts["command"]) == (True, list(command))
    assert {*facts["charts"]} == {path.name for path in (tmp_path / "charts").iterdir()}
    again = call("analyze", dump, "-o", tmp_path, *ASKED)
    assert (again.code, again.err) == (0, "numscope: 12 of 12 dump files were finished before\n")


def test_two_runs_at_once_never_leave_mixed_tables(
    dump: Path, tmp_path: Path, theirs: dict[str, bytes]
) -> None:
    ours = tmp_path / "ours"
    assert run(["analyze", str(dump), "-o", str(ours), "--no-charts", "-q"]) == 0
    out = tmp_path / "out"
    both = [start("analyze", dump, "-o", out, "--no-charts", *more) for more in ((), ASKED)]
    errors = [each.communicate(timeout=60)[1] for each in both]
    codes = [each.returncode for each in both]
    # One may have ended before the other began.
    assert sorted(codes) in ([0, 0], [0, 1]), errors
    recipes = json.loads((out / "run.json").read_text())["recipes"]
    last = 0 if "ling" in recipes else 1
    assert codes[last] == 0, errors
    assert contents(out) == (contents(ours), theirs)[last]


@pytest.mark.parametrize(
    ("moment", "shard"),
    [*((moment, ()) for moment in MOMENTS), ("measuring", ("--shard", "1/2"))],
)
def test_a_folder_that_goes_during_a_run_is_an_error(
    moment: str,
    shard: tuple[str, ...],
    dump: Path,
    tmp_path: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, moved = tmp_path / "out", tmp_path / "moved"
    with monkeypatch.context() as patch:
        _meanwhile(patch, MOMENTS[moment], lambda: out.rename(moved))
        code, answer, err = call("analyze", dump, "-o", out, *shard)
    assert (code, answer) == (1, "")
    assert err.splitlines()[-1] == (
        f"numscope: {out} was removed or moved away meanwhile; put it back, or say where it is"
        " with --out, and the same command goes on"
    )
    assert not out.exists()
    assert call("analyze", dump, "-o", moved, "--no-charts").code == 0


def test_a_part_that_is_taken_away_again_and_again_is_told(
    dump: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = "rank0/step_3.safetensors"
    read = parts.read_part

    def lose(folder: Path, wanted: Origin) -> Any:
        return None if wanted.path == victim else read(folder, wanted)

    monkeypatch.setattr(merging, "read_part", lose)
    code, _, err = call("analyze", dump, "-o", tmp_path, "--no-charts")
    assert code == 3
    assert f"error: {victim}: has no part: it was taken away from {tmp_path}/parts twice" in err
    assert victim.encode() not in contents(tmp_path)["tensors.csv"]


def test_a_merge_during_which_another_run_begins_makes_no_tables(
    dump: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shard in ("1/2", "2/2"):
        call("analyze", dump, "-o", tmp_path, "--shard", shard)
    _meanwhile(
        monkeypatch,
        MOMENTS["merging"],
        lambda: run(["analyze", str(dump), "-o", str(tmp_path), "--shard", "1/3", *ASKED]),
    )
    code, _, err = call("merge", tmp_path)
    assert code == 1
    assert f"another run has begun in {tmp_path} meanwhile, and this one ends here" in err
    assert not (tmp_path / "tensors.csv").exists()


def test_what_is_amended_leaves_a_run_that_began_meanwhile_its_folder(tmp_path: Path) -> None:
    held = _hold(tmp_path)

    def confirm() -> None:
        _hold(tmp_path, OTHER)
        held.confirm()

    more = replace(PLAN, command=("analyze", "more"))
    with pytest.raises(ResultsError, match="another run has begun"):
        runs.amend(tmp_path / "plans", more, Shard(), confirm)
    (begun,) = runs.begun(tmp_path / "plans")
    assert begun.plan == OTHER


def test_a_shard_over_finished_results_is_a_run_that_is_not_finished(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    call("analyze", dump, "-o", tmp_path, "--no-charts")
    assert not Results(tmp_path).is_unfinished
    call("analyze", dump, "-o", tmp_path, "--shard", "1/2")
    assert Results(tmp_path).is_unfinished


def test_files_that_are_measured_again_count_once(
    dump: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    read, lost = parts.read_part, {"rank0/step_3.safetensors"}

    def lose(folder: Path, wanted: Origin) -> Any:
        if wanted.path in lost:
            lost.discard(wanted.path)
            return None
        return read(folder, wanted)

    merge = batches.Batch.merge

    def merged(batch: batches.Batch, *arguments: Any) -> Any:
        result = merge(batch, *arguments)
        said.append(batch.advice())
        return result

    monkeypatch.setattr(merging, "read_part", lose)
    monkeypatch.setattr(batches.Batch, "merge", merged)
    assert call("analyze", dump, "-o", tmp_path, "--no-charts").code == 0
    assert not lost
    count = said[0].split(" dump files")[0]
    first, _, all_of_them = count.split(" ")
    assert first == all_of_them
