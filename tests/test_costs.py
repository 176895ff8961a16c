"""What a recipe costs and reaches: held against what it does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import numscope
from numscope import Recipe
from numscope.costs import bits_per_value, usable_bits


@pytest.mark.parametrize(
    ("written", "bits"),
    [
        ("ling", 8.25),
        ("ling:128x128", 8 + 32 / 2**14),
        ("ling:1x*", 8.0),
        ("mxfp8", 8.25),
        ("mxfp6", 6.25),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
        ("te-nvfp4-2d", 4 + 8 / 256),
    ],
)
def test_bits_per_value_count_the_scales_share(written: str, bits: float) -> None:
    assert bits_per_value(numscope.recipe(written)) == bits


def test_the_published_ranges() -> None:
    # E4M3 and E5M2 in units of the scale: 448 / 2^-10 and 57344 / 2^-17.
    assert usable_bits(Recipe()) == pytest.approx(18.807, abs=1e-3)
    assert usable_bits(Recipe("float8_e5m2")) == pytest.approx(32.807, abs=1e-3)


@pytest.mark.parametrize("name", [n for n in numscope.recipes() if "nvfp4" not in n])
def test_the_range_is_what_the_worst_tile_has(name: str) -> None:
    recipe = numscope.recipe(name)
    exponents = np.arange(0, usable_bits(recipe) + 3, 2.0**-6)
    worst = math.inf
    for amax in np.linspace(64, 128, 65, endpoint=False, dtype=np.float32):
        row = (amax * np.exp2(-exponents)).astype(np.float32)
        q = numscope.quantize(row, replace(recipe, tile=(1, None)))
        kept = np.abs(row[q.values[0] != 0]).min()
        worst = min(worst, math.log2(amax / kept))
    assert worst == pytest.approx(usable_bits(recipe), abs=0.05)
