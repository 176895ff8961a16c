"""numscope knows its own files, and neither replaces nor removes somebody else's."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from numscope.authorship import is_own
from numscope.cli import run
from tests.examples import SMALL_RUN, Call
from tests.test_cli import analysed, folder, results
from tests.test_readme import EXTRAS

__all__ = ["analysed", "folder", "results"]

MINE = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\x11tEXtSoftware\0Matplotlib version3.9",
    "csv": b"name,tokens\nmine,1\n",
    "svg": b"<svg>numscope</svg>",
    "html": b"<html>numscope",
    "md": b"# Mine\n",
}


def _put(path: Path) -> bytes:
    """Put somebody else's file there."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(MINE[path.suffix[1:]])
    return path.read_bytes()


# Telling one from the other.


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("more", [(), ("--heatmap", "--all-layers", "--style", "paper", "--loss")])
def test_all_that_is_drawn_is_known(
    suffix: str, more: tuple[str, ...], results: Path, call: Call
) -> None:
    shutil.rmtree(results / "charts")
    assert call("plot", "results", "--format", suffix, *more).code == 0
    drawn = [path for path in (results / "charts").rglob("*") if path.is_file()]
    assert len(drawn) >= 13
    assert [path for path in drawn if not is_own(path)] == []


def test_charts_of_recipes_side_by_side_are_known(tmp_path: Path) -> None:
    out = tmp_path / "out"
    recipes = ("--recipe", "ling", "--recipe", "mx-e4m3")
    assert run(["analyze", str(SMALL_RUN), "-o", str(out), "-q", *recipes]) == 0
    drawn = [path for path in (out / "charts").rglob("*") if path.is_file()]
    assert any(path.name.startswith("recipes_") for path in drawn)
    assert [path for path in drawn if not is_own(path)] == []


def test_what_other_commands_write_is_known(results: Path, call: Call) -> None:
    pytest.importorskip(EXTRAS["report"], reason="that extra is not installed")
    call("report", "results")
    call("advise", "results")
    call("compare", "results", "results", "-o", "compared")
    written = [results / "report.html", results / "advise.csv"]
    written += [path for path in Path("compared").rglob("*") if path.is_file()]
    assert len(written) == 10
    assert [path for path in written if not is_own(path)] == []


@pytest.mark.parametrize("suffix", [*MINE, "txt"])
def test_what_says_nothing_of_numscope_is_somebody_elses(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"file.{suffix}"
    path.write_bytes(MINE.get(suffix, b"numscope") * 20_000)
    assert not is_own(path)
    assert not is_own(tmp_path / f"missing.{suffix}")
    assert not is_own(tmp_path)


def test_an_empty_file_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "overview.png").touch()
    assert is_own(tmp_path / "overview.png")


# Leaving it alone.


def test_analyze_and_merge_leave_files_of_their_charts_names(tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    overview = out / "charts" / "overview.png"
    call("analyze", SMALL_RUN, "-o", out, "--no-charts")
    mine = _put(overview)
    said = f"{overview}: was not written by numscope and stays: move it away for the chart of that"
    for command in (("analyze", SMALL_RUN, "-o", out), ("merge", out)):
        code, answer, err = call(*command)
        assert (code, f"warning: {said}" in err) == (0, True)
        assert overview.read_bytes() == mine
        assert str(overview) not in answer
        facts = json.loads((out / "run.json").read_text())
        assert "overview.png" not in facts["charts"]
        assert len(facts["charts"]) == 12
    assert call("analyze", SMALL_RUN, "-o", out, "--no-charts").code == 0
    assert [path.name for path in (out / "charts").iterdir()] == ["overview.png"]
    assert call("analyze", SMALL_RUN, "-o", out, "--fresh").err.count("overview.png") == 0
    assert is_own(overview)


def test_what_plot_has_drawn_is_drawn_again(tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    call("analyze", SMALL_RUN, "-o", out, "--no-charts")
    for command in (("plot", out), ("plot", out), ("analyze", SMALL_RUN, "-o", out)):
        code, _, err = call(*command)
        assert (code, "not written by numscope" in err) == (0, False)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (("plot", "results", "--format", "svg"), "results/charts/overview.svg"),
        (("report", "results"), "results/report.html"),
        (("advise", "results"), "results/advise.csv"),
        (("compare", "results", "results", "-o", "compared"), "compared/compare.md"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_other_commands_refuse_to_replace_somebody_elses_file(
    line: tuple[str, ...], name: str, results: Path, call: Call
) -> None:
    mine = _put(results.parent / name)
    before = sorted(results.rglob("*"))
    code, out, err = call(*line)
    assert (code, out) == (1, "")
    assert err.startswith(f"numscope: {name} was not written by numscope")
    assert (results.parent / name).read_bytes() == mine
    assert sorted(results.rglob("*")) == before
    os.truncate(name, 0)
    assert call(*line).code == 0


def test_a_chosen_name_is_chosen(results: Path, call: Call) -> None:
    _put(results / "mine.csv")
    assert call("advise", "results", "--out", "results/mine.csv").code == 0
    assert is_own(results / "mine.csv")


# What is made of tables does not outlive them.


def test_pages_and_advice_go_with_the_tables_that_they_were_made_of(
    results: Path, call: Call
) -> None:
    pytest.importorskip(EXTRAS["report"], reason="that extra is not installed")
    call("report", "results")
    call("advise", "results")
    assert call("analyze", SMALL_RUN, "-o", "results").err.count("removed") == 0
    made = [results / "report.html", results / "advise.csv"]
    assert all(path.exists() for path in made)
    err = call("analyze", SMALL_RUN, "-o", "results", "--kinds", "gradient").err
    for path in made:
        assert f"warning: results/{path.name}: was made of earlier tables: removed" in err
        assert not path.exists()
        _put(path)
    call("analyze", SMALL_RUN, "-o", "results")
    assert [path.read_bytes() for path in made] == [MINE["html"], MINE["csv"]]
