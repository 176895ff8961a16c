"""The words that a recipe's fields choose from, and what a scale brings with it.

A new word has its place here first. Nothing here knows what the words mean.
"""

from __future__ import annotations

#: What a scale can be, and what the other fields are for it unless said otherwise.
SCALES: dict[str, dict[str, str]] = {
    "float32": {"scale_from": "max/amax", "scale_rounding": "none", "zero": "scale_1"},
    "power_of_two": {"scale_from": "max/amax", "scale_rounding": "up", "zero": "scale_1"},
    "float8_e8m0fnu": {"scale_from": "amax/2^emax", "scale_rounding": "down", "zero": "none"},
    "float8_e4m3fn": {"scale_from": "amax/max", "scale_rounding": "none", "zero": "none"},
}

#: Other words for them.
SCALE_ALIASES = {
    "fp32": "float32",
    "f32": "float32",
    "pow2": "power_of_two",
    "power-of-two": "power_of_two",
    "e8m0": "float8_e8m0fnu",
    "ue8m0": "float8_e8m0fnu",
    "e8m0fnu": "float8_e8m0fnu",
    "e4m3": "float8_e4m3fn",
    "e4m3fn": "float8_e4m3fn",
}

#: Expressions: the multiplier first, the scale first, with an outer scale.
FROM_MULTIPLIER = ("max/amax", "max*(1/amax)")
FROM_SCALE = ("amax/max", "amax*(1/max)")
FROM_OUTER_MULTIPLIER = ("amax*((1/outer)*(1/max))", "(amax/max)*(1/outer)")
FROM_OUTER = (*FROM_OUTER_MULTIPLIER, "(amax/max)/outer")

#: What the fields of words accept.
CHOICES: dict[str, tuple[str, ...]] = {
    "scale": tuple(SCALES),
    "scale_from": (*FROM_MULTIPLIER, *FROM_SCALE, "amax/2^emax", *FROM_OUTER),
    "scale_rounding": ("none", "up", "down", "nearest", "even"),
    "scale_precision": ("float32", "input"),
    "amax_floor_precision": ("float32", "float64", "input"),
    "infinite_multiplier": ("input_max", "kept"),
    "zero": ("none", "scale_1", "amax_1", "amax_2^-126", "multiplier_0"),
    "nonfinite": (
        "ignore",
        "propagate",
        "nan",
        "one_if_infinite",
        "largest_if_infinite",
        "largest",
    ),
    "outer": ("none", "tensor", "row", "column"),
    "four_over_six": ("none", "absolute", "squared"),
    "apply": ("multiply", "divide", "multiply_levels"),
    "product_precision": ("float32", "input"),
    "rounding": (
        *("nearest_even", "nearest_away", "nearest_toward_zero", "toward_zero"),
        "stochastic",
    ),
    "overflow": ("saturate", "ieee", "asymmetric"),
    "negative_zero": ("kept", "positive_if_exact", "positive"),
    "dequantize": ("multiply", "divide"),
}
