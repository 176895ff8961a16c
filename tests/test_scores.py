"""Recipes side by side: the worst layer, the median layer, the order, the file and the screen."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import pytest

from numscope.measure import ErrorSums
from numscope.recipe_tables import print_scores
from numscope.scores import COLUMNS, METRICS, Score, Spread, scores, to_csv
from numscope.standings import standings
from numscope.tables import Row
from tests.examples import layer_rows, row
from tests.test_console import shown, terminal


def record(underflow: int, loss: float = 0.0, noise: float = 0.0) -> ErrorSums:
    """Of 100 values in a row: so many are lost, 1 - distortion, and the noise in a signal of 1."""
    return ErrorSums(
        count=100,
        underflow_count=underflow,
        row_count=1,
        sum_row_cosine=1 - loss,
        sum_xx=1.0,
        sum_ee=noise,
    )


def scored(*rows: Row) -> list[Score]:
    return scores(standings(layer_rows(*rows)))


def by_metric(score: Score) -> dict[str, Spread | None]:
    return dict(zip(METRICS, score.spreads, strict=True))


def test_each_metric_has_its_own_worst_and_its_median_layer() -> None:
    losses = {0: (3, 0.25, 10.0), 4: (1, 0.5, 0.1), 8: (2, 0.125, 1.0)}
    (score,) = scored(*(row(layer=i, sums=record(*each)) for i, each in losses.items()))
    assert (score.kind, score.recipe, score.tile, score.layers) == ("gradient", "ling", "1x128", 3)
    assert by_metric(score) == {
        "underflow": Spread(0.03, 0, 0.02),
        "distortion": Spread(0.5, 4, 0.75),
        "sqnr_db": Spread(-10.0, 0, 0.0),
    }


def test_a_layer_counts_with_the_merged_record_of_its_steps() -> None:
    """Layer 0 has 9 of 200, layer 4 has 5 of 100, though a step of layer 0 has 8 of 100."""
    (score,) = scored(
        row(layer=0, step=1, sums=record(8)),
        row(layer=0, step=2, sums=record(1)),
        row(layer=4, step=1, sums=record(5)),
    )
    assert by_metric(score)["underflow"] == Spread(0.05, 4, 0.05)


def test_of_an_even_number_of_layers_the_median_is_the_worse_one_in_the_middle() -> None:
    (score,) = scored(*(row(layer=i, sums=record(share)) for i, share in enumerate((1, 7, 3, 5))))
    assert by_metric(score)["underflow"] == Spread(0.07, 1, 0.05)


def test_layers_without_a_value_do_not_count() -> None:
    empty = ErrorSums(count=100, zeros=100, row_count=1, zero_rows=1)
    (score,) = scored(row(layer=0, sums=empty), row(layer=4, sums=record(1, 0.5)))
    assert by_metric(score)["distortion"] == Spread(0.5, 4, 0.5)
    (score,) = scored(row(layer=0, sums=empty))
    assert by_metric(score)["distortion"] is None


def test_cheap_recipes_come_first_and_of_equal_ones_the_best() -> None:
    found = scored(
        row("ling", "ling", record(0, 0.5)),
        row("te-block", "te-block", record(0, 0.25)),
        row("mx-e2m1", "mx-e2m1", record(0, 0.75)),
        row("mx-e5m2", "mx-e5m2", ErrorSums(count=1, zeros=1, row_count=1, zero_rows=1)),
        row("ling", "ling", record(0), kind="activation"),
    )
    assert [(each.kind, each.recipe) for each in found] == [
        ("activation", "ling"),
        *(("gradient", name) for name in ("mx-e2m1", "te-block", "ling", "mx-e5m2")),
    ]


def test_of_equally_cheap_recipes_one_that_overflows_is_the_last_and_is_told() -> None:
    good, bad = record(0, 0.5), replace(record(0), overflow_count=7)
    found = scored(row("ling", "ling", good), row("e4m3:1x128:float32", "bad", bad))
    assert [each.recipe for each in found] == ["ling", "bad"]
    assert [each.overflow_count for each in found] == [0, 7]
    assert [line.rpartition(",")[2] for line in to_csv(found).split()] == [COLUMNS[-1], "0", "7"]
    console = terminal(100)
    print_scores(console, found)
    assert shown(console)[-1] == (
        "bad makes 7 finite values of gradient infinite or NaN,"
        " which distortion and SQNR leave out."
    )


def test_the_file_has_every_bit_and_nothing_where_nothing_is_known() -> None:
    found = scored(
        row(layer=None, sums=ErrorSums(count=3, underflow_count=1)),
        row("mx-e2m1", "mx-e2m1", record(1, 1 / 3, 1e-3), layer=4),
    )
    one, other = csv.DictReader(io.StringIO(to_csv(found)))
    assert tuple(one) == COLUMNS
    assert (one["recipe"], one["tile"], one["bits"], one["layers"]) == (
        "mx-e2m1",
        "1x32",
        "4.25",
        "1",
    )
    assert (float(one["distortion_worst"]), one["distortion_worst_layer"]) == (1 - 1 / 3, "4")
    assert (float(other["underflow_worst"]), other["underflow_worst_layer"]) == (1 / 3, "")
    assert other["distortion_worst"] == other["sqnr_db_median"] == ""


# On the screen.


def test_the_screen_shows_a_table_per_kind_with_the_worst_layer_behind_its_value() -> None:
    console = terminal()
    print_scores(
        console,
        scored(
            row(layer=16, sums=record(29, 0.3, 0.01)),
            row(layer=4, sums=record(0, 0.0002, 0.0001)),
            row("ling:128x1", "ling", record(0), layer=4),
        ),
    )
    assert [line.split() for line in shown(console)] == [
        [],
        ["underflow", "distortion", "sqnr,", "dB"],
        ["gradient", "bits", "worst", "median", "worst", "median", "worst", "median"],
        ["ling", "8.25", "0.29", "L16", "0.29", "0.7000", "L16", "0.7000", "20.0", "L16", "20.0"],
        [],
        ["gradient", "underflow", "distortion", "sqnr,", "dB"],
        ["transpose", "bits", "worst", "median", "worst", "median", "worst", "median"],
        ["ling", "8.25", "0", "0", "1", "1", "inf", "inf"],
    ]


def many(recipes: int, layers: int) -> list[Score]:
    """Scores with the longest usual numbers."""
    names = [f"te-nvfp4-4over{i}" for i in range(recipes - 1)] + ["float8_e5m2:1x128:power_of_two"]
    spreads = (
        Spread(0.00015, layers - 1, 0.00012),
        Spread(0.999913, layers - 1, 0.999953),
        Spread(-10.25, layers - 1, 31.25),
    )
    return [
        Score(kind, name, "1x128", 8.0625, layers, spreads)
        for kind in ("activation", "gradient", "gradient transpose")
        for name in names
    ]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("recipes", [2, 8, 36])
@pytest.mark.parametrize("layers", [1, 5, 61])
def test_tables_fit_and_no_number_is_cut(width: int, recipes: int, layers: int) -> None:
    console = terminal(width, "ascii")
    print_scores(console, many(recipes, layers))
    lines = shown(console)
    assert max(map(len, lines)) <= width
    numbers = ["8.06", "1.5e-4", f"L{layers - 1}", "1.2e-4"]
    numbers += ["0.999913", f"L{layers - 1}", "0.999953", "-10.2", f"L{layers - 1}", "31.2"]
    full = [line for line in lines if "8.06" in line]
    assert len(full) == 3 * recipes
    assert all(line.split()[-len(numbers) :] == numbers for line in full)
    assert len({line.index("8.06") for line in full}) == 1
    longest = "float8_e5m2:1x128:power_of_two"
    assert (longest in lines) == (width == 80)  # a line of its own, above its numbers
    assert (f"{longest}  8.06" in "\n".join(full)) == (width == 120)


def test_where_nothing_fits_everything_is_still_there() -> None:
    console = terminal(56)
    print_scores(console, many(2, 61))
    lines = shown(console)
    assert max(map(len, lines)) <= 56
    words = " ".join(lines).split()
    assert all(words.count(word) == 6 for word in ("0.999913", "0.999953", "1.5e-4", "-10.2"))


def test_infinite_values_have_a_place() -> None:
    (score,) = scored(row(sums=record(0, noise=0.0)))
    assert by_metric(score)["sqnr_db"] == Spread(math.inf, 4, math.inf)
