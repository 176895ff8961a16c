"""The worst point of a chart."""

from __future__ import annotations

import math

import pytest

from numscope.findings import Worst, is_lossless, worst
from numscope.series import Series


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
