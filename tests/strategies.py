"""What random inputs look like: tensors of every troublesome kind, and recipes.

A tensor is drawn as a kind, a shape, a dtype and a seed, so that large ones are cheap to make; what
is shrunk is the kind and the shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from numpy.random import default_rng

from numscope.choices import CHOICES
from numscope.formats import FORMATS
from numscope.recipes import Recipe, Tile
from tests.reference import largest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

    Shape = tuple[int, int]
    Values = NDArray[Any]
    Kind = Callable[[Generator, Shape], Values]

ELEMENTS = [name for name, entry in FORMATS.items() if not entry.is_scale_only]

DETERMINISTIC = [word for word in CHOICES["rounding"] if word != "stochastic"]

DTYPES: list[np.dtype[Any]] = [
    np.dtype(name)
    for name in (
        np.float32,
        np.float64,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    )
]

TILES: list[Tile] = [
    (1, 128),
    (128, 1),
    (128, 128),
    (1, 1),
    (1, 32),
    (32, 1),
    (7, 33),
    (3, None),
    (None, 5),
    (1, None),
    (None, 1),
    (None, None),
    (1000, 2000),
]


def gaussian(rng: Generator, shape: Shape) -> Values:
    """Ordinary activations."""
    return rng.standard_normal(shape)


def log_uniform(rng: Generator, shape: Shape) -> Values:
    """Magnitudes over more octaves than any element format has."""
    return np.exp2(rng.uniform(-40, 20, shape)) * np.copysign(1, rng.uniform(-1, 1, shape))


def ties(rng: Generator, shape: Shape) -> Values:
    """Halfway between neighbours for every element format: few mantissa bits, times 2^k."""
    return rng.integers(-256, 257, shape) * np.ldexp(1.0, rng.integers(-18, 2, shape))


def outliers(rng: Generator, shape: Shape) -> Values:
    """A few columns and a few single values a million times larger than the rest."""
    x = rng.standard_normal(shape)
    x[:, rng.random(shape[1]) < 0.1] *= 1e6
    x[rng.random(shape) < 0.01] *= 1e6
    return x


def tiny(rng: Generator, shape: Shape) -> Values:
    """Gradients of 1e-30, whose squares are nothing in float32."""
    return rng.standard_normal(shape) * 1e-30


def subnormal(rng: Generator, shape: Shape) -> Values:
    """Below the smallest normal float32."""
    return rng.integers(-100, 101, shape) * 2.0**-149


def huge(rng: Generator, shape: Shape) -> Values:
    """Near the largest float32, and at it."""
    return np.clip(rng.standard_normal(shape), -1, 1) * float(np.finfo(np.float32).max)


def mixed(rng: Generator, shape: Shape) -> Values:
    """Rows of very different size, as with tokens that hardly matter."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(-60, 60, (shape[0], 1)))


def blank(rng: Generator, shape: Shape) -> Values:
    """Only zeros, of both signs."""
    return rng.choice([0.0, -0.0], shape)


#: What has the room to be scaled up and down by some powers of two.
ORDINARY: list[Kind] = [gaussian, log_uniform, ties, outliers]

KINDS: list[Kind] = [
    *ORDINARY,
    tiny,
    subnormal,
    huge,
    mixed,
    blank,
]


def shapes(max_rows: int, max_cols: int) -> st.SearchStrategy[Shape]:
    """Rows and columns, seldom a multiple of anything."""
    return st.tuples(st.integers(1, max_rows), st.integers(1, max_cols))


@st.composite
def tensors(
    draw: st.DrawFn,
    *,
    kinds: list[Kind] = KINDS,
    dtypes: list[np.dtype[Any]] = DTYPES,
    is_finite: bool = True,
    max_rows: int = 40,
    max_cols: int = 150,
) -> NDArray[Any]:
    """A matrix, often with zero rows, zero blocks and zeros of both signs in it."""
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    x = draw(st.sampled_from(kinds))(rng, draw(shapes(max_rows, max_cols)))
    if draw(st.booleans()):
        x[rng.random(x.shape[0]) < 0.2] = 0
        x[: rng.integers(x.shape[0]), rng.integers(x.shape[1]) :] = 0
        x[rng.random(x.shape) < 0.1] *= 0
    if not is_finite:
        x[rng.random(x.shape) < 0.05] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
        x[rng.random(x.shape) < 0.05] = -np.inf
    dtype = draw(st.sampled_from(dtypes))
    largest = largest_of(dtype)
    with np.errstate(all="ignore"):
        return np.where(np.isinf(x), x, np.clip(x, -largest, largest)).astype(dtype)


def recipes(
    *,
    tiles: list[Tile] = TILES,
    scales: tuple[str, ...] = ("float32", "power_of_two", "float8_e8m0fnu"),
) -> st.SearchStrategy[Recipe]:
    """Any element format, tile and scale; everything else as it is by default."""
    return st.builds(
        Recipe, st.sampled_from(ELEMENTS), st.sampled_from(tiles), st.sampled_from(scales)
    )


#: The words of a field that go with a scale.
SCALE_WORDS: dict[str, dict[str, list[str]]] = {
    "float32": {
        "scale_from": ["max/amax", "max*(1/amax)", "amax/max", "amax*(1/max)"],
        "zero": ["none", "scale_1", "amax_1", "amax_2^-126"],
        "nonfinite": ["ignore", "propagate", "nan", "one_if_infinite"],
        "apply": ["multiply", "divide"],
    },
    "power_of_two": {
        "scale_from": ["max/amax", "max*(1/amax)", "amax/max", "amax*(1/max)", "amax/2^emax"],
        "scale_rounding": ["up", "down", "nearest"],
        "zero": ["none", "scale_1", "amax_1", "amax_2^-126"],
        "nonfinite": ["ignore", "propagate", "nan", "one_if_infinite", "largest"],
        "apply": ["multiply", "divide"],
    },
    "float8_e8m0fnu": {
        "scale_from": ["max/amax", "amax/max", "amax*(1/max)", "amax/2^emax"],
        "scale_rounding": ["up", "down", "nearest"],
        "zero": ["none", "amax_2^-126"],
        "nonfinite": ["ignore", "nan", "largest", "largest_if_infinite"],
    },
    "float8_e4m3fn": {
        "zero": ["none", "multiplier_0"],
        "nonfinite": ["ignore", "propagate"],
    },
}


@st.composite
def detailed_recipes(draw: st.DrawFn, *, tiles: list[Tile] = TILES) -> Recipe:
    """Any recipe but those that round at random."""
    element = draw(st.sampled_from(ELEMENTS))
    scale = draw(st.sampled_from(list(SCALE_WORDS)))
    fields: dict[str, Any] = {
        name: draw(st.sampled_from(words)) for name, words in SCALE_WORDS[scale].items()
    }
    fields["tile"] = draw(st.sampled_from(tiles))
    if fields.get("scale_from") == "amax/2^emax" and draw(st.booleans()):
        fields["scale_rounding"] = "even"
    if scale == "float8_e4m3fn" and draw(st.booleans()):
        fields["outer"] = draw(st.sampled_from(["tensor", "row", "column"]))
        rows, cols = fields["tile"]
        fields["tile"] = {"row": (1, cols), "column": (rows, 1)}.get(fields["outer"], (rows, cols))
        fields["scale_from"] = draw(
            st.sampled_from(
                ["amax*((1/outer)*(1/max))", "(amax/max)*(1/outer)", "(amax/max)/outer"]
            )
        )
        fields["apply"] = draw(st.sampled_from(["multiply", "multiply_levels"]))
    has_multiplier = fields.get("scale_from") in ("max/amax", "max*(1/amax)")
    if fields.get("scale_from") == "max/amax":
        fields["infinite_multiplier"] = draw(st.sampled_from(["input_max", "kept"]))
    if has_multiplier:
        fields["dequantize"] = draw(st.sampled_from(["multiply", "divide"]))
    elif draw(st.booleans()):
        fields["scale_floor"] = draw(st.sampled_from([1e-30, 2.0**-6]))
    if scale != "float8_e4m3fn" and fields["scale_from"] in ("max/amax", "amax/max"):
        fields["scale_precision"] = draw(st.sampled_from(["float32", "input"]))
    if draw(st.booleans()):
        fields["amax_floor"] = draw(st.sampled_from([1e-12, 1e-4]))
        fields["amax_floor_precision"] = draw(st.sampled_from(["float32", "float64", "input"]))
    fields["product_precision"] = draw(st.sampled_from(["float32", "input"]))
    fields["rounding"] = draw(st.sampled_from(DETERMINISTIC))
    format_ = FORMATS[element]
    if format_.specials == "integer":
        fields["overflow"] = draw(st.sampled_from(["saturate", "asymmetric"]))
    elif format_.has_nan and fields["rounding"] == "nearest_even":
        fields["overflow"] = draw(st.sampled_from(["saturate", "ieee"]))
    fields["negative_zero"] = draw(st.sampled_from(["kept", "positive_if_exact", "positive"]))
    return Recipe(element, scale=scale, **fields)
