"""The commands that look at results: plot's further options, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numscope.measure import ErrorSums
from numscope.results import Results
from tests.examples import Call, layer_rows, row
from tests.test_cli import CHARTS, analysed, folder, results

__all__ = ["analysed", "folder", "results"]

pytestmark = pytest.mark.usefixtures("results")


def stems(out: str, results: Path) -> set[str]:
    """The pictures that a command says it wrote, and that are there."""
    names = {line.rpartition("/")[2].partition(".")[0] for line in out.splitlines()}
    assert all(list((results / "charts").glob(f"{name}.*")) for name in names)
    return names


# plot.


def test_heatmaps_and_small_multiples_come_beside_the_charts(call: Call, results: Path) -> None:
    done = call("plot", "results", "--heatmap", "--all-layers", "--dpi", 40)
    assert (done.code, done.err) == (0, "")
    assert stems(done.out, results) == {
        "overview",
        *CHARTS,
        *(f"{name}_{sort}" for name in CHARTS for sort in ("heatmap", "layers")),
    }


def test_the_loss_is_another_chart_of_the_same_table(call: Call, results: Path) -> None:
    before = (results / "charts" / "gradients_distortion_1x128.csv").read_bytes()
    done = call("plot", "results", "--loss", "--dpi", 40, "--kinds", "gradient")
    assert done.code == 0
    assert "gradients_distortion_loss_1x128" in stems(done.out, results)
    assert "activations" not in done.out
    assert (results / "charts" / "gradients_distortion_1x128.csv").read_bytes() == before


def test_the_other_distortion_is_the_cosine_of_whole_tensors(call: Call, results: Path) -> None:
    assert call("plot", "results", "--distortion", "cosine", "--dpi", 40).code == 0
    lines = (results / "charts" / "gradient_transpose_cosine_128x1.csv").read_text().splitlines()
    assert all(float(value) > 0.998 for line in lines[1:] for value in line.split(",")[1:])


@pytest.mark.parametrize(
    "options",
    [
        ["--smooth", "3", "--mark-findings", "--zero-rows", "one"],
        ["--style", "paper", "--xscale", "log", "--kinds", "activation", "--format", "pdf"],
    ],
)
def test_options_change_the_pictures_and_no_table_of_underflow(
    options: list[str], call: Call, results: Path
) -> None:
    charts = results / "charts"
    tables = {path.name: path.read_bytes() for path in charts.glob("*underflow*.csv")}
    pictures = {path.read_bytes() for path in charts.iterdir()}
    assert call("plot", "results", *options).code == 0
    assert {path.name: path.read_bytes() for path in charts.glob("*underflow*.csv")} == tables
    suffix = options[-1] if "--format" in options else "png"
    drawn = list(charts.glob(f"activations*.{suffix}"))
    assert drawn
    assert not pictures & {path.read_bytes() for path in drawn}


def test_kinds_that_are_not_there_are_named(call: Call) -> None:
    line = "numscope: none of these kinds in results; it has activation, gradient\n"
    assert call("plot", "results", "--kinds", "weight") == (1, "", line)


# check.


def test_check_says_what_failed_where_first_and_how_badly(call: Call) -> None:
    code, out, err = call("check", "results", "underflow<0.1", "amax<inf")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        (
            "failed: underflow<0.1 in 18 of 195 rows,"
            " first 0.1264 at 184.3 K tokens (gradient, 128x1, layer 0, ling),"
            " worst 0.2867 at 337.9 K tokens (gradient, 128x1, layer 16, ling)"
        ),
        "1 of 2 rules passed",
    ]


def test_check_of_rules_that_are_kept_is_done(call: Call) -> None:
    assert call("check", "results", "underflow[1x128]<0.001", "-q") == (0, "", "")
    done = call("check", "results", "underflow[activation]<0.001", "--verbose")
    assert done.out.splitlines() == [
        "passed: underflow[activation]<0.001 in all 65 rows",
        "1 of 1 rule passed",
    ]


def test_check_for_scripts(call: Call, folder: Path) -> None:
    (folder / "rules.toml").write_text('rules = ["distortion[gradient,128x1]>0.98"]')
    code, out, err = call("check", "results", "--file", "rules.toml", "mse<9", "--json")
    assert (code, err) == (1, "")
    kept, broken = json.loads(out)
    assert (kept["rule"], kept["passed"], kept["first"]) == ("mse<9", True, None)
    assert (broken["passed"], broken["worst"]["layer"], broken["worst"]["tokens"]) == (
        False,
        16,
        368640,
    )
    assert broken["worst"]["value"] == pytest.approx(0.6365, abs=1e-4)


def test_check_answers_with_null_where_a_number_is_not_finite(call: Call, tmp_path: Path) -> None:
    exact = row(sums=ErrorSums(count=4, sum_xx=1.0))
    Results(tmp_path).keep_layers(layer_rows(exact))
    out = call("check", tmp_path, "sqnr_db<100", "--json").out
    (broken,) = json.loads(out)
    assert (broken["passed"], broken["worst"]["value"]) == (False, None)
    assert "Infinity" not in out


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["underflow[weight]<1"], "matches nothing in the results"),
        (["underflow"], "is not written like"),
        ([], "there is no rule to check"),
        (["--file", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_check_that_checks_nothing_is_wrong_usage(rules: list[str], words: str, call: Call) -> None:
    code, out, err = call("check", "results", *rules)
    assert (code, out) == (2, "")
    assert err.startswith("numscope: ")
    assert words in err
