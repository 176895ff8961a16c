"""What processes that do not talk to each other know of a run: plans, and the shards begun."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from numscope import runs
from numscope.dumps import Problem
from numscope.errors import ResultsError
from numscope.parts import Origin
from numscope.runs import RunPlan
from numscope.shards import Shard
from numscope.together import whole_run

FILES = tuple(Origin(f"step_{n}.npy", n, 10**18 + n, "0" * 24, 100 + n) for n in range(6))
PLAN = RunPlan(
    dump="/dump",
    command=("analyze", "dump"),
    settings={"--recipe": "ling"},
    recipes={"ling": {"tile": "1x128", "amax_floor": 1e-4}},
    files=FILES,
    problems=(Problem(os.fsdecode(b"odd\xff"), "is empty"), Problem("a", "b", failure=False)),
)


def _begin(folder: Path, *shards: Shard, plan: RunPlan = PLAN) -> None:
    for shard in shards:
        runs.begin(folder, replace(plan, command=("analyze", "--shard", str(shard))), shard)


def _plans(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith("shard-")]


def _age(path: Path, seconds: float = 7200) -> None:
    """Make a file as old as if it had been written so long ago."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def _order(folder: Path, *shards: Shard) -> None:
    """Make shards as if they had begun one after the other, whatever the clock's resolution."""
    for n, shard in enumerate(shards):
        os.utime(folder / f"shard-{shard.index}-of-{shard.count}.json", (10**9 + n, 10**9 + n))


# Plans.


def test_a_plan_is_read_as_it_was_kept(tmp_path: Path) -> None:
    runs.begin(tmp_path, PLAN, Shard(2, 3))
    (one,) = runs.begun(tmp_path)
    assert (one.shard, one.plan) == (Shard(2, 3), PLAN)


def test_shards_that_found_the_same_dump_share_a_plan(tmp_path: Path) -> None:
    shards = [Shard(n, 40) for n in range(1, 41)]
    _begin(tmp_path, *shards)
    (plan,) = _plans(tmp_path)
    notes = sum(path.stat().st_size for path in tmp_path.iterdir()) - plan.stat().st_size
    assert notes < 40 * 120
    found = runs.begun(tmp_path)
    assert sorted(each.shard for each in found) == shards
    assert {each.plan.command[-1] for each in found} == {str(each) for each in shards}
    assert len({id(each.plan.files) for each in found}) == 1
    assert whole_run(tmp_path).plan.files == FILES


@pytest.mark.parametrize("content", [b"", b'"abc"', b"{}", b"7", b"["])
def test_a_damaged_plan_has_not_begun_and_is_replaced(content: bytes, tmp_path: Path) -> None:
    _begin(tmp_path, Shard())
    (plan,) = _plans(tmp_path)
    plan.write_bytes(content)
    assert runs.begun(tmp_path) == []
    with pytest.raises(ResultsError, match="there is nothing to merge"):
        whole_run(tmp_path)
    _begin(tmp_path, Shard())
    assert len(runs.begun(tmp_path)) == 1


@pytest.mark.parametrize(
    "content",
    [b"", b'"abc"', b"{}", b"[" * 100_000, b'{"plan": 7, "command": []}', b'{"plan": "../x"}'],
)
def test_a_damaged_note_has_not_begun(content: bytes, tmp_path: Path) -> None:
    _begin(tmp_path, Shard(1, 2), Shard(2, 2))
    (tmp_path / "shard-1-of-2.json").write_bytes(content)
    assert [each.shard for each in runs.begun(tmp_path)] == [Shard(2, 2)]
    _begin(tmp_path, Shard(1, 2))
    assert len(runs.begun(tmp_path)) == 2


@pytest.mark.parametrize("name", ["", "shard-1-of-2.json", "plan"])
def test_what_cannot_be_read_is_no_run_that_has_not_begun(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    _begin(folder, Shard(1, 2))
    path = _plans(folder)[0] if name == "plan" else folder / name
    path.rename(tmp_path / "aside")
    # As good as a folder that must not be read, also for the superuser.
    (path.write_text if path == folder else lambda _: path.mkdir())("")
    with pytest.raises(ResultsError, match=rf"^{path} cannot be read: (Is|Not) a directory$"):
        whole_run(folder)


def test_plans_that_nobody_uses_are_forgotten_in_time(tmp_path: Path) -> None:
    _begin(tmp_path, Shard())
    (first,) = _plans(tmp_path)
    _begin(tmp_path, Shard(), plan=replace(PLAN, files=FILES[:5]))
    assert len(_plans(tmp_path)) == 2
    _age(first)
    _begin(tmp_path, Shard(), plan=replace(PLAN, files=FILES[:5]))
    (second,) = _plans(tmp_path)
    assert second != first
    _age(second)
    _begin(tmp_path, Shard())
    assert {*_plans(tmp_path)} == {first}


def test_an_old_plan_that_is_used_again_is_as_good_as_new(tmp_path: Path) -> None:
    _begin(tmp_path, Shard())
    (plan,) = _plans(tmp_path)
    _age(plan)
    (tmp_path / "shard-1-of-1.json").unlink()
    before = plan.stat().st_mtime
    _begin(tmp_path, Shard())
    assert plan.stat().st_mtime > before + 3600


# Shards that do not belong together.


def test_shards_of_two_dumps_are_refused(tmp_path: Path) -> None:
    _begin(tmp_path, Shard(1, 2))
    _begin(tmp_path, Shard(2, 2), plan=replace(PLAN, dump="/other"))
    _order(tmp_path, Shard(1, 2), Shard(2, 2))
    with pytest.raises(ResultsError) as caught:
        whole_run(tmp_path)
    assert str(caught.value) == (
        "shard 1/2 was run on /dump, shard 2/2 on /other: run all shards on the same dump"
    )


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"--module": "fc"}, "1/2 was run without --module, shard 2/2 with --module fc"),
        ({"--module": "fc"}, {}, "1/2 was run with --module fc, shard 2/2 without --module"),
        ({"--layers": "0"}, {"--layers": "4"}, "with --layers 0, shard 2/2 with --layers 4"),
    ],
)
def test_shards_with_different_options_are_refused(
    first: dict[str, str], second: dict[str, str], message: str, tmp_path: Path
) -> None:
    _begin(tmp_path, Shard(1, 2), plan=replace(PLAN, settings=first))
    _begin(tmp_path, Shard(2, 2), plan=replace(PLAN, settings=second))
    _order(tmp_path, Shard(1, 2), Shard(2, 2))
    with pytest.raises(ResultsError, match=f"{message}: run the shards again"):
        whole_run(tmp_path)


# A dump that changes between the shards.


def test_what_the_last_shard_found_is_the_dump(tmp_path: Path) -> None:
    before = (Problem(FILES[5].path, "cannot be read"), Problem("a", "b", failure=False))
    now = (Problem(FILES[0].path, "is cut short"),)
    _begin(tmp_path, Shard(1, 3), plan=replace(PLAN, files=FILES[:5], problems=before))
    _begin(tmp_path, Shard(2, 3), plan=replace(PLAN, files=FILES[:4], problems=before))
    _begin(tmp_path, Shard(3, 3), plan=replace(PLAN, files=FILES[1:3] + FILES[5:], problems=now))
    _order(tmp_path, Shard(1, 3), Shard(2, 3), Shard(3, 3))
    run = whole_run(tmp_path)
    assert run.plan.files == FILES[1:3] + FILES[5:]
    assert run.plan.problems == now
    message = "was no longer in the dump when shard 3/3 began: its rows are left out"
    assert run.gone == tuple(Problem(FILES[n].path, message, failure=False) for n in (3, 4))


def test_of_a_dump_that_only_grows_nothing_is_gone(tmp_path: Path) -> None:
    _begin(tmp_path, Shard(2, 2), plan=replace(PLAN, files=FILES[:4]))
    _begin(tmp_path, Shard(1, 2))
    _order(tmp_path, Shard(2, 2), Shard(1, 2))
    run = whole_run(tmp_path)
    assert (run.plan.files, run.gone) == (FILES, ())
