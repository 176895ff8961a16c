"""Other views of a chart's table are tables again."""

from __future__ import annotations

import math

import pytest

from numscope.views import loss, selected, smoothed
from tests.test_findings import table


def test_the_loss_is_what_is_missing_to_one() -> None:
    drawn = loss(table("distortion", (0.75, 1.0 + 2**-52), (math.nan, 0.5)))
    assert (drawn.metric, drawn.title) == ("distortion_loss", "activations distortion loss (1,128)")
    assert drawn.name == "activations_distortion_loss_1x128"
    assert drawn.values[0] == (0.25, 0.0)
    assert math.isnan(drawn.values[1][0])


def test_underflow_is_a_loss_already() -> None:
    whole = table("underflow", (0.25, 0.5))
    assert loss(whole) is whole


def test_smoothing_takes_the_median_of_what_is_around() -> None:
    values = [(1.0,), (9.0,), (2.0,), (math.nan,), (4.0,), (3.0,)]
    drawn = smoothed(table("underflow", *values), 3).column(0)
    assert drawn[:3] == (5.0, 2.0, 5.5)
    assert math.isnan(drawn[3])
    assert drawn[4:] == (3.5, 3.5)


@pytest.mark.parametrize("points", [2, 5, 99])
def test_smoothing_keeps_a_constant(points: int) -> None:
    whole = table("underflow", *[(0.25, 0.5)] * 9)
    assert smoothed(whole, points) == whole


def test_layers_that_are_not_there_are_not_selected() -> None:
    whole = table("underflow", (0.1, 0.2, 0.3))
    assert selected(whole, None) is whole
    assert selected(whole, {16, 99}).layers == (16,)
    assert selected(whole, {16, 99}).values == ((0.3,),)
