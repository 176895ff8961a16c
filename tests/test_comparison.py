"""Runs are aligned by layer and the nearest x, and what differs is said."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

from numscope.charts import side_by_side
from numscope.comparison import COLUMNS, Run, differences, largest, only_in, pairs, text, to_csv
from numscope.errors import UsageError
from numscope.findings import find
from numscope.gallery import comparison_files
from numscope.series import Series
from tests.examples import Call
from tests.stories import bump, noise_only, tables
from tests.test_charts import axes_of, table
from tests.test_cli import analysed, folder, results

__all__ = ["analysed", "folder", "results"]


def runs(*charts: Series) -> list[Run]:
    return [Run(name, (chart,)) for name, chart in zip("abc", charts, strict=False)]


def values(*shares: float, x: list[int], metric: str = "underflow") -> Series:
    return table([[share] for share in shares], x=x, metric=metric)


def test_points_pair_with_the_nearest_within_half_a_step() -> None:
    first = values(0.1, 0.2, 0.3, 0.4, x=[0, 10, 20, 30])
    other = values(0.5, 0.6, 0.7, x=[1, 14, 26])
    (pair,) = pairs(runs(first, other))
    assert pair.tolerance == 5.0
    assert pair.points == ((0, 0), (1, 1), (3, 2))
    (near,) = pairs(runs(first, other), tolerance=1)
    assert near.points == ((0, 0),)


def test_no_point_is_in_two_pairs() -> None:
    first = values(0.1, 0.2, 0.3, x=[0, 4, 8])
    (pair,) = pairs(runs(first, values(0.5, x=[5])), tolerance=10)
    assert pair.points == ((1, 0),)


def test_differences_are_of_layers_and_values_that_both_have() -> None:
    first = table([[0.1, 0.2, 0.3]], layers=[0, 4, 8])
    other = table([[0.4, float("nan"), 0.1]], layers=[8, 4, 12])
    (pair,) = pairs(runs(first, other))
    (only,) = differences(pair)
    assert (only.layer, only.first, only.other) == (8, 0.3, 0.4)
    assert only.change == pytest.approx(0.1)


@pytest.mark.parametrize(("metric", "worst"), [("underflow", 10), ("distortion", 0)])
def test_worse_is_what_the_metric_says(metric: str, worst: int) -> None:
    first = values(0.5, 0.5, 0.5, x=[0, 10, 20], metric=metric)
    (pair,) = pairs(runs(first, values(0.3, 0.9, 0.5, x=[0, 10, 20], metric=metric)))
    worse, better = largest(pair, 1), largest(pair, -1)
    assert worse
    assert better
    assert (worse.x_first, better.x_first) == (worst, 10 - worst)


def test_equal_runs_have_no_difference() -> None:
    first = values(0.5, 0.25, x=[0, 10])
    (pair,) = pairs(runs(first, first))
    assert largest(pair, 1) is largest(pair, -1) is None
    assert "2 of 2 points" in text(runs(first, first), [pair])
    assert "no difference" in text(runs(first, first), [pair])


def test_the_same_chart_with_another_tile_is_compared() -> None:
    first = values(0.5, x=[0])
    assert pairs(runs(first, replace(first, tile="1x32", recipe="mxfp8")))
    assert pairs(runs(first, replace(first, subject="gradients"))) == []


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([0, 10_000], "2 of 2 points, at the same tokens; "),
        ([3_000, 10_001], "2 of 2 points, at most 3 K tokens apart; "),
        ([40_000, 50_000], "0 of 2 points; nothing to compare."),
    ],
)
def test_it_is_said_how_far_apart_points_are_and_not_how_far_they_may_be(
    x: list[int], words: str
) -> None:
    first, other = values(0.5, 0.25, x=[0, 10_000]), values(0.5, 0.5, x=x)
    both = runs(first, other)
    assert f"- activations underflow, b: {words}" in text(both, pairs(both))


def test_steps_are_counted_where_x_is_the_step() -> None:
    first, other = (
        replace(values(0.5, 0.25, x=[start, start + 10]), x_name="step") for start in (0, 1)
    )
    both = runs(first, other)
    assert "2 of 2 points, at most 1 step apart; " in text(both, pairs(both))


def test_tiles_that_differ_and_layers_that_one_alone_has_are_told() -> None:
    first = table([[0.1, 0.2]], layers=[0, 4])
    other = replace(table([[0.1, 0.2]], layers=[4, 8]), tile="1x32")
    both = runs(first, other)
    said = (
        "underflow, b: 1x32 beside 1x128, 1 of 1 point, at the same tokens, layer 4 only; better by"
    )
    assert said in text(both, pairs(both))


def test_charts_and_recipes_that_are_not_compared_are_told() -> None:
    shared = values(0.5, x=[0])
    own, others = replace(shared, subject="weights"), replace(shared, subject="outputs")
    both = [Run("a", (shared, own)), Run("b", (shared, others), left_out=("int8", "mx-e4m3"))]
    lines = text(both, pairs(both)).splitlines()
    assert lines[2:4] == ["- a: ling", "- b: ling; not compared: int8, mx-e4m3"]
    assert lines[6:8] == [
        "- only in a, not in b: weights underflow",
        "- only in b, not in a: outputs underflow",
    ]


def test_a_chart_that_one_run_alone_has_stands_beside_nothing() -> None:
    shared = values(0.5, x=[0])
    both = [Run("a", (shared, replace(shared, subject="weights"))), Run("b", (shared,))]
    assert list(comparison_files(both)) == ["activations_underflow.png"]


def test_a_folder_that_is_given_twice_has_two_names(call: Call, results: Path) -> None:
    lines = call("compare", results.name, results.name).out.splitlines()
    assert lines[:2] == ["- results: ling", "- results (2): ling"]
    assert [line for line in lines if line.startswith("##")] == [
        "## Found only in results",
        "## Found only in results (2)",
    ]


def test_steps_are_not_compared_with_tokens() -> None:
    first = values(0.5, x=[0])
    with pytest.raises(UsageError, match="a has tokens as its x and b step: analyse both"):
        pairs(runs(first, replace(first, x_name="step")))


def test_the_csv_has_a_line_per_difference() -> None:
    first = values(0.5, 0.0, x=[0, 10])
    found = pairs(runs(first, values(0.25, 0.5, x=[1, 11])))
    records = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert tuple(records[0]) == COLUMNS
    assert [
        (each["x_first"], each["x_run"], each["difference"], each["ratio"]) for each in records
    ] == [
        ("0", "1", "-0.25", "0.5"),
        ("10", "11", "0.5", ""),
    ]


def test_a_finding_that_both_have_is_no_difference() -> None:
    before, after = noise_only(1, size=2e-5), noise_only(2, size=2e-5)
    for charts in (before, after):
        charts[0][:, 0] += 0.01 * bump(41, 0.2, 0.01)
    before[5][:, 4] -= 0.05 * bump(41, 0.6, 0.01)
    both = [
        Run(name, tuple(tables(charts)), tuple(find(tables(charts))))
        for name, charts in (("before", before), ("after", after))
    ]
    found = pairs(both)
    (gone,) = only_in(both[0], both[1:], found)
    assert (gone.kind, gone.layer) == ("dip", 16)
    assert only_in(both[1], both[:1], found) == []
    assert text(both, found).endswith("## Found only in after\n\nNothing.\n")


def test_charts_side_by_side_have_equal_axes() -> None:
    figure = side_by_side(
        [values(0.5, 0.1, x=[0, 10]), values(0.01, 0.02, x=[0, 50])], ["a $run$", "another"]
    )
    one, other = (axes for axes in figure.axes if axes.get_title())
    assert one.get_xlim() == other.get_xlim()
    assert one.get_ylim() == other.get_ylim()
    assert one.get_ylim()[1] > 0.5
    assert len(axes_of(figure).get_lines()) == 1


def test_compare_writes_what_differs(call: Call, results: Path, folder: Path) -> None:
    code, out, err = call("compare", "results", "results", "-o", "both")
    assert (code, err) == (0, "")
    assert "no difference" in out
    assert sorted(path.name for path in (folder / "both").iterdir()) == [
        "charts",
        "compare.md",
        "differences.csv",
    ]
    assert len(list((folder / "both" / "charts").iterdir())) == 6
    assert results.exists()


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["results"], 2, "there is one folder; compare it with what?"),
        (["results", "nowhere"], 1, "nowhere holds no layers.csv"),
        (["results", "results", "--recipe", "mxfp8"], 1, "'mxfp8' in results; it has ling"),
    ],
)
def test_what_cannot_be_compared(arguments: list[str], code: int, words: str, call: Call) -> None:
    done = call("compare", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
