"""Which rows belong to which chart, what it is called, and its table."""

from __future__ import annotations

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numscope import series
from numscope.measure import ErrorSums
from numscope.series import Series
from numscope.tables import LayerRow, Row
from tests.examples import layer_rows, row


def _one(*rows: Row, metric: str = "underflow") -> Series:
    (table,) = series.series(layer_rows(*rows), [metric])
    return table


def _share(numerator: int) -> ErrorSums:
    """The record of a tensor that loses that many of its eight values."""
    return ErrorSums(count=8, underflow_count=numerator)


# Names and titles, exactly.


@pytest.mark.parametrize(
    ("kind", "recipe", "metric", "title", "name"),
    [
        (
            "activation",
            "ling",
            "underflow",
            "activations underflow (1,128)",
            "activations_underflow_1x128",
        ),
        (
            "activation",
            "ling",
            "distortion",
            "activations distortion (1,128)",
            "activations_distortion_1x128",
        ),
        (
            "gradient",
            "ling",
            "underflow",
            "gradients underflow (1,128)",
            "gradients_underflow_1x128",
        ),
        (
            "gradient",
            "ling",
            "distortion",
            "gradients distortion (1,128)",
            "gradients_distortion_1x128",
        ),
        (
            "gradient",
            "ling:128x1",
            "underflow",
            "gradient transpose underflow (128,1)",
            "gradient_transpose_underflow_128x1",
        ),
        (
            "gradient",
            "ling:128x1",
            "distortion",
            "gradient transpose distortion (128,1)",
            "gradient_transpose_distortion_128x1",
        ),
        (
            "weight",
            "ling:128x128",
            "underflow",
            "weights underflow (128,128)",
            "weights_underflow_128x128",
        ),
        (
            "output",
            "ling",
            "underflow",
            "outputs underflow (1,128)",
            "outputs_underflow_1x128",
        ),
        (
            "input_gradient",
            "ling",
            "underflow",
            "input gradients underflow (1,128)",
            "input_gradients_underflow_1x128",
        ),
        (
            "input_gradient",
            "ling:128x1",
            "underflow",
            "input gradient transpose underflow (128,1)",
            "input_gradient_transpose_underflow_128x1",
        ),
        (
            "weight_gradient",
            "ling:128x1",
            "underflow",
            "weight gradient transpose underflow (128,1)",
            "weight_gradient_transpose_underflow_128x1",
        ),
    ],
)
def test_titles_and_file_names(kind: str, recipe: str, metric: str, title: str, name: str) -> None:
    table = _one(row(recipe, kind=kind), metric=metric)
    assert (table.title, table.name) == (title, name)


@pytest.mark.parametrize(
    ("recipe", "title", "name"),
    [
        ("ling:1x*", "gradients underflow (1,*)", "gradients_underflow_1xall"),
        ("ling:*x1", "gradient transpose underflow (*,1)", "gradient_transpose_underflow_allx1"),
    ],
)
def test_a_whole_axis_is_a_star_in_titles_and_all_in_file_names(
    recipe: str, title: str, name: str
) -> None:
    table = _one(row(recipe, label="ling:1x*"))
    assert (table.title, table.name) == (title, name)


def test_another_tile_puts_its_numbers_in_the_title() -> None:
    table = _one(row("ling:1x64", label="ling:1x64", kind="activation"))
    assert table.title == "activations underflow (1,64)"


@pytest.mark.parametrize(
    ("kinds", "tile", "turned"),
    [
        (("activation",), "64x1", "1x64"),
        (("output",), "64x1", "1x64"),
        (("activation",), "1x64", "64x1"),
        ((), "1x64", "64x1"),
        (("weight",), "1x64", "64x1"),
        ((), "1x*", "*x1"),
        (("activation",), "32x32", None),
    ],
)
def test_a_recipe_of_ones_own_has_the_tile_of_what_is_not_turned(
    kinds: tuple[str, ...], tile: str, turned: str | None
) -> None:
    """And the one that is wider than high, if there is nothing else to tell them apart."""
    own = [row(f"ling:{tile}", label="mine", kind=kind) for kind in (*kinds, "gradient")]
    others = [row(f"ling:{turned}", label="mine")] if turned else []
    found = series.series(layer_rows(*others, *own), ["underflow"])
    assert {(table.subject, table.tile) for table in found if "gradient" in table.subject} == {
        ("gradients", tile),
        *([("gradient transpose", turned)] if turned else []),
    }


# Which charts there are.


def test_the_six_charts_of_the_default_plan_in_the_published_order() -> None:
    rows = layer_rows(
        row("ling:128x1", kind="gradient"),
        row("ling", kind="gradient"),
        row("ling", kind="activation"),
    )
    assert [table.title for table in series.series(rows, ["underflow", "distortion"])] == [
        "activations underflow (1,128)",
        "activations distortion (1,128)",
        "gradients underflow (1,128)",
        "gradients distortion (1,128)",
        "gradient transpose underflow (128,1)",
        "gradient transpose distortion (128,1)",
    ]


def test_a_square_tile_has_no_chart_of_a_transpose() -> None:
    table = _one(row("ling:128x128", label="ling:128x128"))
    assert table.title == "gradients underflow (128,128)"


def test_a_kind_of_ones_own_comes_last_under_its_name() -> None:
    rows = layer_rows(row(kind="expert_load"), row(kind="weight_gradient"))
    tables = series.series(rows, ["underflow"])
    assert [(table.title, table.name) for table in tables] == [
        ("weight gradients underflow (1,128)", "weight_gradients_underflow_1x128"),
        ("expert load underflow (1,128)", "expert_load_underflow_1x128"),
    ]


def test_only_gradients_are_transposed() -> None:
    table = _one(row("ling:128x1", label="ling", kind="activation"))
    assert table.title == "activations underflow (128,1)"


def test_a_recipe_of_columns_has_rows_as_its_transpose() -> None:
    rows = layer_rows(row("ling:128x1", label="ling:128x1"), row("ling", label="ling:128x1"))
    assert [table.title for table in series.series(rows, ["underflow"])] == [
        "gradients underflow (128,1)",
        "gradient transpose underflow (1,128)",
    ]


def test_recipes_have_charts_of_their_own() -> None:
    label = "float8_e5m2:1x128:float32"
    rows = layer_rows(row(), row("e5m2", label=label))
    tables = series.series(rows, ["underflow"])
    assert [(table.recipe, table.title) for table in tables] == [
        (label, "gradients underflow (1,128)"),
        ("ling", "gradients underflow (1,128)"),
    ]


def test_rows_without_a_layer_belong_to_no_chart() -> None:
    assert series.series(layer_rows(row(layer=None)), ["underflow"]) == []
    assert _one(row(layer=None), row(layer=3)).layers == (3,)


def test_no_rows_are_no_charts() -> None:
    assert series.series([], ["underflow"]) == []


# The table.


def test_values_stand_at_their_tokens_and_layers() -> None:
    table = _one(
        row(sums=_share(1), tokens=0, layer=0),
        row(sums=_share(2), tokens=0, layer=16),
        row(sums=_share(3), tokens=900, layer=0),
        row(sums=_share(4), tokens=900, layer=16),
    )
    assert (table.x_name, table.x, table.layers) == ("tokens", (0, 900), (0, 16))
    assert table.values == ((0.125, 0.25), (0.375, 0.5))
    assert table.column(16) == (0.25, 0.5)


def test_tokens_and_layers_are_ordered_as_numbers() -> None:
    table = _one(*(row(tokens=n, layer=k) for n in (900, 10_000, 80) for k in (12, 4)))
    assert (table.x, table.layers) == ((80, 900, 10_000), (4, 12))


@given(
    st.permutations(
        layer_rows(
            *(row(sums=_share(n), step=n, tokens=n // 2, layer=k) for n in range(4) for k in (0, 9))
        )
    )
)
def test_a_chart_does_not_depend_on_the_order_of_the_rows(rows: list[LayerRow]) -> None:
    (table,) = series.series(rows, ["underflow"])
    assert (table.x, table.layers) == ((0, 1), (0, 9))
    assert table.values == ((0.125, 0.125), (0.375, 0.375))


def test_a_missing_point_is_nan_and_empty_in_csv() -> None:
    table = _one(row(sums=_share(1), tokens=0, layer=0), row(sums=_share(2), tokens=900, layer=16))
    assert math.isnan(table.values[0][1])
    assert math.isnan(table.values[1][0])
    assert series.to_csv(table) == "tokens,0,16\n0,0.125,\n900,,0.25\n"


def test_the_metric_is_the_column_of_that_name() -> None:
    rows: list[LayerRow] = layer_rows(row())
    for metric in ("underflow", "distortion", "cosine", "sqnr_db", "saturated", "amax"):
        (table,) = series.series(rows, [metric])
        assert table.values == ((getattr(rows[0], metric),),)


def test_csv_keeps_every_bit() -> None:
    table = _one(row(sums=ErrorSums(count=3, underflow_count=1), tokens=7))
    assert series.to_csv(table) == "tokens,4\n7,0.3333333333333333\n"


# Tokens or steps.


def test_without_tokens_the_step_is_shown_and_named() -> None:
    table = _one(row(tokens=None, step=60), row(tokens=None, step=120))
    assert (table.x_name, table.x) == ("step", (60, 120))
    assert series.to_csv(table).splitlines()[0] == "step,4"


def test_one_tensor_without_tokens_makes_all_charts_show_steps() -> None:
    rows = layer_rows(row(kind="activation"), row(tokens=None, step=7))
    tables = series.series(rows, ["underflow"])
    assert [(table.x_name, table.x) for table in tables] == [("step", (60,)), ("step", (7,))]


def test_rows_of_one_step_that_differ_in_tokens_are_one_point() -> None:
    table = _one(row(sums=_share(4)), row(sums=_share(0), tokens=None))
    assert (table.x_name, table.x, table.values) == ("step", (60,), ((0.25,),))


def test_a_tensor_without_a_step_is_in_no_chart_of_those_that_have_one() -> None:
    table = _one(row(sums=_share(4)), row(sums=_share(0), step=None, tokens=None))
    assert (table.x_name, table.x, table.values) == ("tokens", (30720,), ((0.5,),))


def test_a_tensor_without_a_layer_does_not_decide_about_tokens() -> None:
    assert _one(row(), row(layer=None, tokens=None)).x_name == "tokens"


def test_without_a_step_it_is_step_0() -> None:
    assert _one(row(tokens=None, step=None)).x == (0,)


def test_of_two_steps_with_the_same_tokens_the_later_one_is_shown() -> None:
    table = _one(row(sums=_share(4), step=61), row(sums=_share(2), step=60))
    assert (table.x, table.values) == ((30720,), ((0.5,),))


def test_zero_rows_count_as_is_asked_for() -> None:
    sums = ErrorSums(row_count=8, zero_rows=4, sum_row_cosine=3.0)
    rows = layer_rows(row(sums=sums))
    values = [
        series.series(rows, ["distortion"], zero_rows=each)[0].values
        for each in get_args(series.ZeroRows)
    ]
    assert values == [((0.75,),), ((0.375,),), ((0.875,),)]
