"""A results folder belongs to one dump, and keeps nothing of an earlier run but what is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from numscope import runs
from numscope.claims import claim, opened
from numscope.errors import ResultsError
from numscope.parts import part_name
from numscope.results import Results
from numscope.runs import RunPlan
from numscope.shards import Shard
from tests.examples import layer_rows, row

ADVICE = "choose another folder with --out, or replace them with --fresh"


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


# Whose folder it is.


def test_a_new_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    assert claim(tmp_path / "a" / "b", "/dump") == Results(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_claiming_leaves_nothing_behind(tmp_path: Path) -> None:
    claim(tmp_path, "/dump")
    assert _names(tmp_path) == []


def test_a_folder_of_other_things_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    claim(tmp_path, "/dump")
    assert _names(tmp_path) == ["notes.txt"]


def test_the_same_dump_again_is_welcome(tmp_path: Path) -> None:
    claim(tmp_path, "/dump").keep_run({"dump": "/dump"})
    assert claim(tmp_path, "/dump") == Results(tmp_path)


def test_another_dump_is_refused_and_named(tmp_path: Path) -> None:
    claim(tmp_path, "/dump").keep_run({"dump": "/dump"})
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path, "/other")
    assert str(caught.value) == (f"{tmp_path} holds the results of /dump, not of /other; {ADVICE}")


@pytest.mark.parametrize("name", ["tensors.csv", "layers.csv", "findings.md", "charts", "parts"])
def test_results_of_an_unknown_dump_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path, "/dump")
    assert str(caught.value) == f"{tmp_path} holds results without a run.json; {ADVICE}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'"text"', b"3"])
def test_a_run_json_of_something_else_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path, "/dump")
    assert str(caught.value) == f"{tmp_path / 'run.json'} was not written by numscope; {ADVICE}"


def test_a_run_json_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path, "/dump")
    expected = f"{tmp_path / 'run.json'} cannot be read: Is a directory; {ADVICE}"
    assert str(caught.value) == expected


def _plan(folder: Path, dump: str) -> None:
    runs.begin(folder / "plans", RunPlan(dump, ("analyze",), {}, {}, ()), Shard())


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"dump": "/du', b"\0\0\0", b"\xff"])
def test_a_run_json_that_was_torn_is_made_up_for_by_the_plan(
    content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    _plan(tmp_path, "/dump")
    assert claim(tmp_path, "/dump") == Results(tmp_path)
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path, "/other")
    assert str(caught.value) == f"{tmp_path} holds the results of /dump, not of /other; {ADVICE}"
    (plan,) = (path for path in (tmp_path / "plans").iterdir() if path.stem.isalnum())
    plan.write_bytes(plan.read_bytes()[:-1])
    with pytest.raises(ResultsError, match=r"without a run\.json|was not written by numscope"):
        claim(tmp_path, "/dump")


@pytest.mark.parametrize("content", ["[]", "{}", "3", '{"dump": NaN}', "[" * 100_000])
def test_no_plan_makes_a_run_json_of_something_else_numscopes(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    _plan(tmp_path, "/dump")
    with pytest.raises(ResultsError, match=r"run\.json was not written by numscope"):
        claim(tmp_path, "/dump")


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"dump": "/other"}), "{}"])
def test_fresh_takes_any_folder(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    assert claim(tmp_path, "/dump", fresh=True) == Results(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ResultsError) as caught:
        claim(tmp_path / "out", "/dump")
    assert str(caught.value) == (
        f"cannot write results to {tmp_path / 'out'}: File exists; choose another folder with --out"
    )


@pytest.mark.parametrize("below", ["", "a/b"])
def test_a_link_to_nowhere_is_called_that(below: str, tmp_path: Path) -> None:
    link = tmp_path / "out"
    link.symlink_to("scratch/out")
    why = f"{link} is a link to scratch/out, and nothing is there"
    with pytest.raises(ResultsError) as caught:
        claim(link / below, "/dump")
    assert str(caught.value) == (
        f"cannot write results to {link / below}: {why}; choose another folder with --out"
    )
    with pytest.raises(ResultsError) as caught:
        opened(link / below)
    assert str(caught.value) == f"cannot read results from {link / below}: {why}"
    (tmp_path / "scratch" / "out").mkdir(parents=True)
    assert claim(link / below, "/dump") == opened(link / below) == Results(link / below)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ResultsError, match=r"cannot write results to .*: Permission denied"):
        claim(tmp_path, "/dump")


def test_a_folder_on_a_read_only_disk_is_refused() -> None:
    with pytest.raises(ResultsError, match=r"cannot write results to /proc/.*; choose another"):
        claim(Path("/proc/numscope-out"), "/dump", fresh=True)


# What is kept.


def test_tables_are_read_back_as_they_were_kept(tmp_path: Path) -> None:
    rows, results = [row(), row(step=120)], Results(tmp_path)
    results.keep_tensors(rows)
    results.keep_layers(layer_rows(*rows))
    assert _names(tmp_path) == ["layers.csv", "tensors.csv"]
    assert results.tensor_rows() == rows
    assert results.layer_rows() == layer_rows(*rows)


@pytest.mark.parametrize(
    ("read", "name"), [(Results.tensor_rows, "tensors.csv"), (Results.layer_rows, "layers.csv")]
)
def test_a_missing_table_comes_with_the_command_that_makes_it(
    read: object, name: str, tmp_path: Path
) -> None:
    with pytest.raises(ResultsError) as caught:
        read(Results(tmp_path))  # type: ignore[operator]
    assert str(caught.value) == (
        f"{tmp_path} holds no {name}; make it with `numscope analyze DUMP_DIR --out {tmp_path}`"
    )


@pytest.mark.parametrize(
    ("read", "name"), [(Results.tensor_rows, "tensors.csv"), (Results.layer_rows, "layers.csv")]
)
def test_a_table_without_a_row_is_none(read: object, name: str, tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep_tensors([])
    results.keep_layers([])
    with pytest.raises(ResultsError, match=rf"{name} has no rows; make it with `numscope analyze"):
        read(results)  # type: ignore[operator]


def test_the_tables_are_listed_with_what_explains_them(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.keep_tensors([])
    results.keep_layers([])
    results.keep_recipes("")
    results.keep_findings("", "")
    results.keep_run({})
    assert {*results.tables} == {*tmp_path.iterdir()}


def test_the_run_is_kept_as_readable_json(tmp_path: Path) -> None:
    Results(tmp_path).keep_run({"dump": "/dümp", "skipped": []})
    text = (tmp_path / "run.json").read_text(encoding="utf-8")
    assert text == '{\n  "dump": "/dümp",\n  "skipped": []\n}\n'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"dump": NaN}', "NaN is no number"),
        ('{"dump": [-Infinity]}', "-Infinity is no number"),
        ('{"dump": 1e999}', "1e999 is no number"),
        ("[" * 100_000, "it is nested too deeply"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ],
)
def test_a_run_that_is_no_json_is_refused(content: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ResultsError) as caught:
        Results(tmp_path).run_facts()
    assert str(caught.value) == f"{tmp_path / 'run.json'} cannot be read: {why}"
    with pytest.raises(ResultsError, match=r"run\.json was not written by numscope"):
        claim(tmp_path, "/dump")


def test_a_run_that_cannot_be_read_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(ResultsError) as caught:
        Results(tmp_path).run_facts()
    assert str(caught.value) == f"{tmp_path / 'run.json'} cannot be read: Is a directory"


def test_a_run_with_a_name_that_is_no_text_is_kept(tmp_path: Path) -> None:
    name = os.fsdecode(b"/d\xffmp")
    Results(tmp_path).keep_run({"dump": name})
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == {"dump": name}
    assert claim(tmp_path, name) == Results(tmp_path)


def test_charts_are_kept_below_their_folder(tmp_path: Path) -> None:
    written = Results(tmp_path).keep_charts({"a.png": b"1", "e5m2/a.png": b"2"})
    assert written == [tmp_path / "charts" / "a.png", tmp_path / "charts" / "e5m2" / "a.png"]
    assert [path.read_bytes() for path in written] == [b"1", b"2"]


# What an earlier run left.


def test_charts_that_the_run_has_listed_are_removed_with_the_folders_that_this_empties(
    tmp_path: Path,
) -> None:
    results = Results(tmp_path)
    results.keep_charts(dict.fromkeys(["a.png", "a.csv", "e5m2/a.svg", "ling/a.svg"], b""))
    (tmp_path / "charts" / "mine.png").write_text("mine")
    (tmp_path / "charts" / "ling" / "mine.txt").write_text("mine")
    results.forget_charts(["a.png", "a.csv", "e5m2/a.svg", "ling/a.svg", "gone.png"])
    assert _names(tmp_path) == ["charts/ling/mine.txt", "charts/mine.png"]
    assert not (tmp_path / "charts" / "e5m2").exists()


@pytest.mark.parametrize(
    "listed",
    ["x", None, 7, ["../a.png", "/a.png", "x/../../a.png", "a.txt", "", 7, None, ["a.png"]]],
)
def test_only_names_of_charts_are_taken_from_the_list(listed: object, tmp_path: Path) -> None:
    Results(tmp_path).keep_run({"charts": listed})
    assert Results(tmp_path).listed_charts() == []
    Results(tmp_path).keep_run({"charts": ["e5m2/a.svg", "a.png"]})
    assert Results(tmp_path).listed_charts() == ["e5m2/a.svg", "a.png"]
    (tmp_path / "run.json").write_text("{")
    assert Results(tmp_path).listed_charts() == []


def test_starting_over_removes_only_files_of_numscope(tmp_path: Path) -> None:
    own = [f"parts/{part_name('a')}"]
    others = ["parts/mine.csv", "parts/notes.txt", "plans/mine.json", "plans/shard-1-of-2.json"]
    for name in (*own, *others, "tensors.csv", "recipes.csv", "run.json", "mine.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    Results(tmp_path).forget()
    assert _names(tmp_path) == sorted([*others, "run.json", "mine.csv"])


def test_without_earlier_parts_there_is_nothing_to_remove(tmp_path: Path) -> None:
    assert Results(tmp_path).other_parts(but=[]) == []
    Results(tmp_path).forget_leftovers()
    assert _names(tmp_path) == []


def test_parts_of_other_files_are_known_by_their_names(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.parts.mkdir()
    for path in ("a.safetensors", "rank1/a.safetensors", "b.npy"):
        (results.parts / part_name(path)).write_text(path)
    results.forget_parts(results.other_parts(but=["rank1/a.safetensors", "new.npy"]))
    (kept,) = results.parts.iterdir()
    assert kept.read_text() == "rank1/a.safetensors"


@pytest.mark.parametrize(
    "change",
    [
        lambda results: results.keep_tensors([row()]),
        lambda results: results.keep_layers(layer_rows(row())),
        lambda results: results.keep_run({}),
        lambda results: results.keep_findings("a", "b"),
        lambda results: results.keep_recipes("a"),
        lambda results: results.keep_charts({"a.png": b"1"}),
        lambda results: results.forget_charts(["mine.png"]),
        lambda results: results.forget_parts([results.parts / "a.csv"]),
        lambda results: results.forget(),
    ],
)
def test_without_the_folder_nothing_in_it_is_changed(
    change: Callable[[Results], object], tmp_path: Path
) -> None:
    for name in ("tensors.csv", "layers.csv", "report.html", "charts/mine.png", "parts/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def refuse() -> None:
        raise ResultsError("it is another's")

    before = _names(tmp_path)
    with pytest.raises(ResultsError, match="it is another's"):
        change(Results(tmp_path, refuse))
    assert _names(tmp_path) == before
    assert all((tmp_path / name).stat().st_size == 0 for name in before)


def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    (tmp_path / "charts" / "folder.png" / "x").mkdir(parents=True)
    with pytest.raises(ResultsError, match=r"cannot remove .*folder\.png: "):
        Results(tmp_path).forget_charts(["folder.png"])
