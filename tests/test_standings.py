"""Where every recipe stands: which rows belong together, under which kind, and what they cost."""

from __future__ import annotations

import pytest

from numscope.measure import ErrorSums
from numscope.standings import Standing, standings
from numscope.tables import Row
from tests.examples import layer_rows, row


def _standings(*rows: Row) -> list[Standing]:
    return standings(layer_rows(*rows))


def test_a_layers_value_is_that_of_the_merged_record_and_no_mean_of_ratios() -> None:
    """1 of 2 values and 0 of 6 make 1 of 8, where the mean of both ratios is 1 of 4."""
    parts = [ErrorSums(count=2, underflow_count=1), ErrorSums(count=6)]
    (one,) = _standings(*(row(step=i, sums=sums) for i, sums in enumerate(parts)))
    assert one.sums == parts[0] + parts[1]
    assert one.sums.underflow == 1 / 8
    assert [each.step for each in one.rows] == [0, 1]


def test_the_order_of_rows_does_not_matter() -> None:
    records = [ErrorSums(count=1, sum_xx=x, sum_ee=x / 3) for x in (1e300, 1.0, 1e-300, 3.0, 1e16)]
    rows = layer_rows(
        *(
            row(recipe, recipe, sums, layer=layer, step=step)
            for recipe in ("ling", "mx-e4m3")
            for layer in (None, 16, 4)
            for step, sums in enumerate(records)
        )
    )
    expected = standings(rows)
    assert standings(rows[::-1]) == standings(rows[1::2] + rows[::2]) == expected


def test_kinds_come_as_in_the_charts_then_recipes_then_layers() -> None:
    found = _standings(
        row("mx-e4m3", "mx-e4m3"),
        row("ling:128x1", "ling"),
        row(layer=None),
        row(layer=16),
        row(),
        row(kind="activation"),
    )
    assert [(each.kind, each.recipe, each.layer) for each in found] == [
        ("activation", "ling", 4),
        ("gradient", "ling", 4),
        ("gradient", "ling", 16),
        ("gradient", "ling", None),
        ("gradient", "mx-e4m3", 4),
        ("gradient transpose", "ling", 4),
    ]


@pytest.mark.parametrize("recipe", ["te-tensor", "te-nvfp4-2d", "ling:128x128"])
def test_a_gradient_whose_tile_is_its_own_transpose_serves_both_products(recipe: str) -> None:
    one, other = _standings(row(recipe, recipe))
    assert (one.kind, other.kind) == ("gradient", "gradient transpose")
    assert (one.rows, one.sums, one.tile) == (other.rows, other.sums, other.tile)


def test_an_activation_with_such_a_tile_stands_once() -> None:
    (one,) = _standings(row("te-tensor", "te-tensor", kind="activation"))
    assert one.kind == "activation"


@pytest.mark.parametrize(
    ("recipe", "label", "bits"),
    [
        ("ling", "ling", 8 + 32 / 128),
        ("ling:128x1", "ling", 8 + 32 / 128),
        ("ling:128x128", "ling", 8 + 32 / 128**2),
        ("te-tensor", "te-tensor", 8),
        ("mx-e2m1", "mx-e2m1", 4 + 8 / 32),
        ("te-nvfp4-row:16x1", "te-nvfp4-row", 4 + 8 / 16),
    ],
)
def test_bits_are_those_of_the_tile_that_was_used(recipe: str, label: str, bits: float) -> None:
    assert _standings(row(recipe, label))[0].bits == bits
