"""What stands out is found where it was planted, and noise is never news."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from numscope.findings import Finding, Worst, find, is_lossless, text, to_csv, to_json, worst
from numscope.findings.finding import COLUMNS, SILENT
from numscope.findings.lines import fit, rank_correlation, running_median
from numscope.findings.rhythm import expected
from numscope.findings.worst import levels
from numscope.gallery import tables_of
from numscope.measure import ErrorSums
from numscope.series import Series
from tests.examples import SUMS, layer_rows, row
from tests.stories import BILLION, CHARTS, NOISES, RUN, Array, bump, grid, noise_only, tables

TITLES = [f"{subject} {metric} ({tile.replace('x', ',')})" for subject, tile, metric in CHARTS]
DISTORTIONS = {title for title in TITLES if "distortion" in title}


def table(metric: str, *values: tuple[float, ...]) -> Series:
    return Series(
        subject="activations",
        metric=metric,
        recipe="ling",
        tile="1x128",
        x_name="tokens",
        x=tuple(1000 * (i + 1) for i in range(len(values))),
        layers=(0, 4, 16)[: len(values[0])] if values else (),
        values=values,
    )


def found(charts: list[Array], **changes: Any) -> list[Finding]:
    """All findings but that there is nothing to see."""
    return [each for each in find(tables(charts, **changes)) if each.kind not in SILENT]


def of_kind(findings: list[Finding], kind: str) -> list[Finding]:
    return [each for each in findings if each.kind == kind]


def nearest(points: int, share: float) -> int:
    """The tokens of the point nearest to that share of the run."""
    place = np.array(grid(points))
    return int(place[np.abs(place - share * RUN).argmin()])


# The worst point.


def test_the_highest_underflow_is_worst() -> None:
    assert worst(table("underflow", (0.1, 0.2), (0.0, 0.3))) == Worst(layer=4, x=2000, value=0.3)


@pytest.mark.parametrize("metric", ["distortion", "cosine", "sqnr_db"])
def test_the_lowest_fidelity_is_worst(metric: str) -> None:
    assert worst(table(metric, (0.9, 0.7), (0.8, 0.95))) == Worst(layer=4, x=1000, value=0.7)


def test_missing_values_are_never_worst() -> None:
    nan = math.nan
    assert worst(table("underflow", (nan, 0.1), (0.2, nan))) == Worst(layer=0, x=2000, value=0.2)
    assert worst(table("distortion", (nan, nan))) is None
    assert worst(table("distortion")) is None


def test_of_equally_bad_points_the_earliest_and_first_layer_is_named() -> None:
    assert worst(table("underflow", (0.0, 0.5, 0.5), (0.5, 0.5, 0.0))) == Worst(4, 1000, 0.5)
    assert worst(table("distortion", (1.0, 1.0), (1.0, 1.0))) == Worst(0, 1000, 1.0)


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("underflow", 0.0, True),
        ("underflow", 1e-15, False),
        ("distortion", 1.0, True),
        ("distortion", 1.0 - 2**-53, True),
        ("distortion", 1.0 - 1e-9, False),
        ("distortion", 0.0, False),
        ("sqnr_db", math.inf, True),
        ("sqnr_db", 300.0, False),
    ],
)
def test_nothing_is_lost_only_at_a_metrics_best_value(
    metric: str, value: float, expected: bool
) -> None:
    assert is_lossless(metric, value) is expected


# Nothing stands out.


@pytest.mark.parametrize("layers", [1, 5, 61])
def test_constant_charts_have_nothing_that_stands_out(layers: int) -> None:
    findings = find(tables(noise_only(0, layers=layers, points=13, size=0.0)))
    levels = [f"{title} ({'0.9990' if title in DISTORTIONS else '0.001'})" for title in TITLES]
    named = f"{', '.join(levels[:-1])} and {levels[-1]}"
    assert [each.sentence for each in findings] == [f"nothing strays from the usual in {named}."]
    assert findings[0].charts == tuple(TITLES)


def test_a_level_that_is_bad_throughout_is_told() -> None:
    """Half of all values are lost, in every layer and always: nothing changes, and all is bad."""
    charts = noise_only(0)
    charts[0] += 0.499
    charts[0][3, 2], charts[0][5, 1] = 0.4991, 0.501
    (flat,) = find(tables(charts))
    assert "activations underflow (1,128) (0.4991 to 0.501)" in flat.sentence


def test_no_chart_that_loses_much_is_left_out() -> None:
    """Values that are far too restless to be flat are told beside what stands out elsewhere."""
    charts = noise_only(2, size=1e-5)
    charts[0][10, 0] += 0.5
    charts[2] = np.random.default_rng(4).uniform(0.2, 0.6, charts[2].shape)
    charts[2][7, 1], charts[2][9, 3] = 0.125, 0.625
    *_, flat, restless = find(tables(charts))
    assert (flat.kind, restless.kind) == ("flat", "restless")
    assert restless.charts == (TITLES[2],)
    assert restless.sentence == (
        "values vary, but nothing stands apart from that, in gradients underflow (1,128)"
        " (0.125 to 0.625)."
    )
    assert {title for each in find(tables(charts)) for title in each.charts} == {*TITLES}


def test_the_levels_of_a_chart_go_from_the_least_to_the_most_lost() -> None:
    assert levels(table("underflow", (0.1, 0.2), (0.0, math.nan))) == "0 to 0.2"
    assert levels(table("distortion", (0.7, 1.0))) == "1 to 0.7000"
    assert levels(table("distortion", (0.7, 0.7))) == "0.7000"
    assert levels(table("distortion", (1.0, 1.0))) == "no loss"
    assert levels(table("underflow", (math.nan,))) == "no data"


def test_each_recipe_has_its_own_levels() -> None:
    charts = noise_only(0, points=5)
    one, other = find([*tables(charts), *tables([0.1 + each for each in charts], recipe="mine")])
    assert (one.recipe, other.recipe) == ("ling", "mine")
    assert "(0.1" not in one.sentence
    assert "activations underflow (1,128) (0.1" in other.sentence


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("layers", "points", "seeds"), [(1, 13, 40), (5, 13, 40), (5, 41, 40), (5, 400, 8), (61, 13, 4)]
)
def test_noise_is_no_news(noise: str, layers: int, points: int, seeds: int) -> None:
    """Six charts a run. Of noise that wanders for as long as the run, one of twenty may mislead."""
    wrong = [
        each
        for seed in range(seeds)
        for each in found(noise_only(seed, layers=layers, points=points, noise=NOISES[noise]))
    ]
    assert len(wrong) <= (seeds // 20 if noise == "autocorrelated" else 0), [
        each.sentence for each in wrong
    ]


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-7, 1e-6])
def test_no_difference_below_what_is_worth_a_word_is_news(size: float) -> None:
    charts = noise_only(3, size=size / 10)
    for chart in charts:
        chart[20, 2] += 100 * size
        chart[30:] += 50 * size
    assert found(charts) == []


def test_a_long_run_of_many_layers_is_searched_quickly_and_quietly() -> None:
    assert found(noise_only(0, layers=61, points=600)) == []


def test_too_few_points_have_no_shape() -> None:
    charts = noise_only(0, points=5)
    charts[0][2, 1] += 0.5
    assert found(charts) == []


def test_too_few_points_are_not_called_flat() -> None:
    (few,) = find(tables(noise_only(0, points=7)))
    assert few.kind == "too few points"
    assert few.charts == tuple(TITLES)
    assert few.sentence.startswith("too few points to tell what strays from the usual in activa")
    assert few.sentence.endswith("): at most 7 per layer, and 8 are needed.")
    (flat,) = find(tables(noise_only(0, points=8)))
    assert flat.kind == "flat"


def test_points_without_a_value_are_too_few() -> None:
    charts = noise_only(0, points=41, size=1e-5)
    charts[2][7:, 1:] = math.nan
    charts[2][:, 0] = math.nan
    flat, few = (each for each in find(tables(charts)) if each.kind in SILENT)
    assert flat.charts == tuple(title for title in TITLES if title != TITLES[2])
    assert few.sentence == (
        "too few points to tell what else strays from the usual in gradients underflow (1,128)"
        f" ({levels(tables(charts)[2])}): at most 7 per layer, and 8 are needed."
    )


def test_nothing_else_stands_out_beside_what_is_counted() -> None:
    rows = layer_rows(
        *(row(tokens=tokens, sums=replace(SUMS, nan_count=int(tokens == 5))) for tokens in range(9))
    )
    *_, last = find(tables_of(rows), rows)
    assert last.sentence.startswith("nothing else strays from the usual in gradients underflow")


def test_no_charts_are_no_findings() -> None:
    assert find([]) == []
    assert text([], []) == "# Findings\n\nThere is nothing to chart.\n"


# Stories.


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("layers", "points"), [(5, 13), (5, 41), (5, 400), (61, 41), (1, 41)])
def test_the_published_story_is_told(noise: str, layers: int, points: int) -> None:
    """A peak of layer 0 near 2,500 B tokens, and dips of the last layer in every distortion."""
    charts = noise_only(3, layers=layers, points=points, size=1e-5, noise=NOISES[noise])
    charts[0][:, 0] += 0.0065 * bump(points, 0.12, 0.01)
    for i in (1, 3, 5):
        charts[i][:, -1] -= 0.01 * (i + 1) * bump(points, 0.625, 0.01)
    findings = found(charts)
    last = tables(charts)[0].layers[-1]

    (peak,) = of_kind(findings, "peak")
    assert (peak.chart, peak.layer, peak.tokens) == (TITLES[0], 0, nearest(points, 0.12))
    assert peak.value == pytest.approx(0.0075, abs=3e-4)
    assert peak.baseline == pytest.approx(0.001, abs=1e-4)
    assert peak.times > 100

    dips = of_kind(findings, "dip")
    assert {each.chart for each in dips} == DISTORTIONS
    assert {(each.layer, each.tokens) for each in dips} == {(last, nearest(points, 0.625))}

    (moment,) = of_kind(findings, "common moment")
    assert (moment.tokens, set(moment.charts)) == (nearest(points, 0.625), DISTORTIONS)
    assert findings[0] == moment
    assert len(findings) == 5


@pytest.mark.parametrize("layers", [5, 61])
def test_spikes_that_grow_with_depth(layers: int) -> None:
    charts = noise_only(2, layers=layers, size=2e-5)
    for at in (0.2, 0.5, 0.8):
        charts[5] -= np.outer(bump(41, at, 0.01), np.linspace(0.002, 0.06, layers))
    findings = found(charts)
    (trend,) = of_kind(findings, "depth trend")
    assert (trend.chart, trend.correlation) == (TITLES[5], 1.0)
    assert "the size of the spikes grows with depth" in trend.sentence
    moments = of_kind(findings, "common moment")
    assert sorted(each.tokens or 0 for each in moments) == [
        nearest(41, at) for at in (0.2, 0.5, 0.8)
    ]
    assert all(len(each.layers) >= layers - 1 for each in moments)
    assert {each.kind for each in findings} == {"depth trend", "common moment", "dip"}


@pytest.mark.parametrize("points", [13, 41, 400])
def test_a_sustained_shift_is_dated(points: int) -> None:
    charts = noise_only(4, points=points, size=2e-5)
    start = points // 3
    charts[0][start:, 1] += 0.001
    (shift,) = of_kind(found(charts), "sustained shift")
    assert (shift.chart, shift.layer) == (TITLES[0], 4)
    assert shift.tokens == tables(charts)[0].x[start]
    assert (shift.baseline, shift.value) == pytest.approx((0.001, 0.002), abs=5e-5)
    assert of_kind(found(charts), "peak") == []


def test_layers_that_shift_together_are_one_finding() -> None:
    charts = noise_only(4, size=2e-5)
    charts[3][20:, 1:4] -= 0.01
    (shift,) = of_kind(found(charts), "sustained shift")
    assert shift.layers == (4, 8, 12)
    assert "layers 4,8,12 are worse" in shift.sentence


@pytest.mark.parametrize("points", [13, 41, 400])
def test_a_drift_has_its_rate(points: int) -> None:
    charts = noise_only(5, points=points, size=2e-5)
    charts[5][:, 2] -= 0.01 * np.linspace(0, 1, points)
    (drift,) = of_kind(found(charts), "drift")
    assert (drift.chart, drift.layer) == (TITLES[5], 8)
    assert drift.rate == pytest.approx(-0.01 / (RUN / BILLION), rel=0.05)
    assert {each.kind for each in found(charts)} <= {"drift", "outlier layer"}


def test_a_level_that_falls_with_depth() -> None:
    charts = noise_only(6, layers=17, size=2e-5)
    charts[5] -= np.linspace(0, 0.02, 17)
    (trend,) = found(charts)
    assert (trend.kind, trend.chart, trend.correlation) == ("depth trend", TITLES[5], -1.0)
    assert (trend.baseline, trend.value) == pytest.approx((0.999, 0.979), abs=1e-4)


def test_the_odd_layer_is_found() -> None:
    charts = noise_only(7, size=2e-5)
    charts[2][:, 3] += 0.01
    (odd,) = found(charts)
    assert (odd.kind, odd.chart, odd.layer) == ("outlier layer", TITLES[2], 12)


def test_an_improvement_ranks_below_a_loss_of_the_same_size() -> None:
    charts = noise_only(8, size=1e-6)
    charts[0][10, 0] += 9e-4
    charts[0][30, 4] -= 9e-4
    assert [each.kind for each in found(charts)] == ["peak", "dip"]


def test_steps_are_called_steps() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][10, 0] += 0.5
    (peak,) = found(charts, x_name="step", x=tuple(range(41)))
    assert (peak.step, peak.tokens) == (10, None)
    assert "at step 10 " in peak.sentence


def test_equal_values_of_a_line_are_each_told_where_they_are() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][[20, 35], 1] = 1.0
    peaks = of_kind(found(charts, x_name="step", x=tuple(range(41))), "peak")
    assert {(each.layer, each.step) for each in peaks} == {(4, 20), (4, 35)}


# What is there, or is not.


def test_saturated_values_are_named_with_the_worst_place() -> None:
    rows = layer_rows(
        *(row(tokens=tokens, sums=ErrorSums(count=100)) for tokens in range(0, 900, 100)),
        row(tokens=1000, layer=8, sums=ErrorSums(count=100, saturated_count=3)),
        row(tokens=2000, layer=12, sums=ErrorSums(count=100, saturated_count=5)),
    )
    (saturated,) = [each for each in find(tables_of(rows), rows) if "saturation" in each.kind]
    assert (saturated.layer, saturated.tokens, saturated.value) == (12, 1000, 0.05)
    assert saturated.layers == (8, 12)
    assert "8 values are clipped to the largest finite element" in saturated.sentence


def test_finite_values_that_do_not_stay_finite_are_told_before_all_shapes() -> None:
    rows = layer_rows(
        *(row(tokens=tokens, sums=ErrorSums(count=100)) for tokens in range(0, 900, 100)),
        row(tokens=1000, layer=8, sums=ErrorSums(count=100, overflow_count=3)),
        row(tokens=2000, layer=12, sums=ErrorSums(count=100, overflow_count=1)),
    )
    first = find(tables_of(rows), rows)[0]
    assert (first.kind, first.layer, first.value) == ("overflow present", 8, 0.03)
    assert "4 finite values become infinite or NaN, which distortion and SQNR" in first.sentence


def test_of_a_single_value_is_spoken_as_of_one() -> None:
    rows = layer_rows(row(sums=ErrorSums(count=100, saturated_count=1, nan_count=1)))
    said = " ".join(each.sentence for each in find(tables_of(rows), rows))
    assert "1 value is clipped to the largest" in said
    assert "1 value is NaN or infinite before it is quantized" in said


def test_values_that_are_not_finite_come_first() -> None:
    rows = layer_rows(
        *(
            row(recipe, tokens=tokens, sums=ErrorSums(count=9, nan_count=tokens // 4, inf_count=1))
            for tokens in (4, 8)
            for recipe in ("ling", "ling:128x1")
        )
    )
    first = find(tables_of(rows), rows)[0]
    assert (first.kind, first.tokens, first.layer) == ("non-finite present", 4, 4)
    assert "5 values are NaN or infinite" in first.sentence


def test_missing_points_are_counted_once_per_subject() -> None:
    charts = noise_only(1, size=1e-5)
    rows = layer_rows(
        *(
            row(tokens=tokens, layer=layer, sums=ErrorSums(count=8, underflow_count=1))
            for tokens in range(10)
            for layer in (0, 4)
            if (tokens, layer) not in {(3, 4), (4, 4)}
        )
    )
    assert of_kind(found(charts), "missing points") == []
    (missing,) = [each for each in find(tables_of(rows), rows) if each.kind == "missing points"]
    assert (missing.layer, missing.tokens, missing.value) == (4, 3, 2.0)
    assert "2 of 20 points are missing, in layer 4" in missing.sentence


def presence(steps: Iterable[int], gradient_steps: Iterable[int] | None = None) -> list[Finding]:
    """What is missing if activations have these steps, and gradients the same or others."""
    sums = ErrorSums(count=8, underflow_count=1)
    there = {"activation": [*steps], "gradient": [*(gradient_steps or [])]}
    rows = layer_rows(
        *(
            row(kind=kind, step=step, tokens=None, layer=layer, sums=sums)
            for kind in there
            for step in there[kind]
            for layer in (0, 4)
        )
    )
    return of_kind(find(tables_of(rows), rows), "missing points")


def test_steps_that_all_layers_miss_are_missing() -> None:
    steps = [step for step in range(0, 400, 10) if not 150 <= step <= 190]
    (missing,) = presence(steps, steps)
    assert (missing.layer, missing.step, missing.value) == (0, 150, 10.0)
    assert missing.layers == (0, 4)
    assert missing.sentence == (
        "activations (1,128) and gradients (1,128): 10 of 80 points are missing in each,"
        " in layers 0,4, the first at step 150, the last at step 190."
    )


def test_steps_that_one_kind_alone_misses_are_missing() -> None:
    steps = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]  # with no rhythm of their own
    (missing,) = presence(steps, [step for step in steps if step not in (4, 64)])
    assert missing.sentence == (
        "gradients (1,128): 4 of 20 points are missing, in layers 0,4, the first at step 4,"
        " the last at step 64."
    )


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ([*range(0, 100, 10), *range(110, 200, 10)], [100]),
        ([*range(0, 100, 10), 110, 130, *range(140, 200, 10)], [100, 120]),
        ([step + step % 20 // 10 for step in range(0, 200, 10) if step != 60], [60]),
    ],
)
def test_what_a_rhythm_leaves_out_is_expected(steps: list[int], missing: list[int]) -> None:
    lacking = sorted({*expected(steps)} - {*steps})
    assert lacking == pytest.approx(missing, abs=1)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [7],
        [0, 10, 30, 40],  # too few to tell
        [*range(0, 100, 10), *range(100, 500, 100)],  # rarer from now on
        [*range(0, 400, 100), *range(400, 500, 10), *range(500, 900, 100)],  # a close look
        [*range(0, 200, 10), 300, 400, 500, *range(510, 700, 10)],  # and back
        [0, *range(100, 300, 10)],  # the first of all
        [*range(0, 200, 10), 500],  # the end
        [2**i for i in range(20)],
        [i * i for i in range(20)],
        [*range(20), *range(10**12, 10**12 + 20)],  # two runs
    ],
)
def test_no_other_rhythm_is_taken_for_a_gap(steps: list[int]) -> None:
    assert expected(steps) == steps


def test_kinds_that_are_saved_more_rarely_miss_nothing() -> None:
    assert presence(range(0, 400, 10), range(0, 400, 20)) == []


# In writing.


def test_findings_md_has_a_numbered_sentence_each_and_the_worst_points() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][10, 0] += 0.5
    lines = text(find(tables(charts)), tables(charts)).splitlines()
    assert lines[2].startswith("1. activations underflow (1,128): layer 0 peaks at 5,000 B tokens")
    assert lines[3].startswith("2. Nothing strays from the usual in activations distortion (1,")
    assert lines[5] == "## Worst points"
    assert len(lines) == 7 + 6


def test_findings_csv_and_json_hold_the_same() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][10] += 0.5
    findings = find(tables(charts))
    records = list(csv.DictReader(io.StringIO(to_csv(findings))))
    assert list(records[0]) == list(COLUMNS)
    objects = [json.loads(json.dumps(to_json(each))) for each in findings]
    for record, each in zip(records, objects, strict=True):
        for name, cell in record.items():
            value = each[name]
            joined = ";".join(map(str, value)) if isinstance(value, list) else value
            assert cell == ("" if value is None else str(joined))


def test_with_several_recipes_each_sentence_says_whose_it_is() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][10, 0] += 0.5
    both = [*tables(charts), *tables(charts, recipe="ling:1x64")]
    lines = text(find(both), both).splitlines()
    assert {line[3:].partition(" a")[0] for line in lines[2:4]} == {"ling:", "ling:1x64:"}
    assert lines[4].startswith("3. ling: nothing strays from the usual in activations distortion")


# The statistics.


def test_the_running_median_is_the_median_of_the_points_around() -> None:
    y = np.random.default_rng(0).standard_normal(50)
    medians = running_median(y, 7)
    for i in range(50):
        start = min(max(0, i - 3), 43)
        assert medians[i] == np.median(y[start : start + 7])


def test_the_simplest_shape_is_fitted() -> None:
    x = np.arange(40.0)
    noise = 0.1 * np.random.default_rng(0).standard_normal(40)
    assert fit(x, noise).shape == "constant"
    straight, step = fit(x, x + noise), fit(x, 9.0 * (x >= 25) + noise)
    assert (straight.shape, step.shape, step.split) == ("straight", "step", 25)
    assert straight.change == pytest.approx(39, abs=1)
    assert step.change == pytest.approx(9, abs=0.1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], 1.0),
        ([3, 2, 1], -1.0),
        ([5, 5, 5], 0.0),
        ([2, 1, 3], 0.5),
        ([1, 2, 2], 0.866025403784),
    ],
)
def test_rank_correlation_is_spearmans(values: list[float], expected: float) -> None:
    assert rank_correlation(range(3), values) == pytest.approx(expected, abs=1e-11)


def test_layers_at_levels_of_their_own_are_no_trend() -> None:
    """Of five levels one in sixty is in order by chance, and these are 360 charts."""
    wrong = [
        each.sentence
        for seed in range(60)
        for each in found(noise_only(seed, points=13, size=2e-5, offsets=3e-4))
    ]
    assert len(wrong) <= 5, wrong


def test_a_level_of_five_layers_that_loses_several_times_more_is_a_trend() -> None:
    charts = noise_only(6, size=2e-5)
    charts[5] -= np.linspace(0, 0.02, 5)
    (trend,) = found(charts)
    assert (trend.kind, trend.chart) == ("depth trend", TITLES[5])
