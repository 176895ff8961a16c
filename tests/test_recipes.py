"""Recipes as values and as text: one form for each, and errors that name what there is."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import numscope
from numscope import Recipe, quantize
from numscope.catalogue import ALIASES, FAMILIES, NAMED, family
from numscope.choices import CHOICES
from numscope.errors import RecipeError
from numscope.formats import FORMATS
from numscope.written import changed, fields_text, parse, weight_recipe
from tests.strategies import detailed_recipes


@given(detailed_recipes())
def test_every_recipe_can_be_read_back(recipe: Recipe) -> None:
    assert parse(str(recipe)) == recipe
    assert parse(fields_text(recipe)) == recipe
    assert parse(str(recipe.transpose)) == recipe.transpose
    assert recipe.transpose.transpose == recipe


@given(detailed_recipes())
def test_a_recipe_is_made_of_its_details(recipe: Recipe) -> None:
    assert Recipe(recipe.element, recipe.tile, recipe.scale, **_any(recipe.details)) == recipe
    for name in recipe.details:
        fewer = {each: value for each, value in recipe.details.items() if each != name}
        try:
            assert Recipe(recipe.element, recipe.tile, recipe.scale, **_any(fewer)) != recipe
        except RecipeError:
            continue


#: Values of the fields that are no words, of which some can be.
_NUMBERS: dict[str, list[Any]] = {
    "element": sorted(name for name, entry in FORMATS.items() if not entry.is_scale_only),
    "tile": [(1, 1), (16, 16), (1, None), (None, None), (7, 1)],
    "scale_floor": [0.0, 1e-30, 0.1, 3],
    "amax_floor": [0, 2.0**-149, 1e-4, 1.7e38],
    "outer_limit": [448.0, 256.0, 0.1],
    "seed": [0, 1, 2**64 - 1],
}


@given(st.data())
def test_whatever_fields_go_together_can_be_read_back(data: st.DataObject) -> None:
    recipe = data.draw(st.sampled_from([entry.recipe for entry in NAMED.values()]))
    for _ in range(data.draw(st.integers(1, 6))):
        name = data.draw(st.sampled_from([field.name for field in fields(Recipe)]))
        value = data.draw(st.sampled_from(list(CHOICES.get(name, ())) or _NUMBERS[name]))
        try:
            recipe = changed(recipe, {name: value})
        except RecipeError:
            continue
    assert parse(str(recipe)) == recipe
    assert parse(fields_text(recipe)) == recipe
    assert str(parse(str(recipe))) == str(recipe)


@pytest.mark.parametrize("field", [field.name for field in fields(Recipe)])
def test_every_field_can_be_set_on_the_command_line_and_answers_what_it_takes(field: str) -> None:
    written = {
        "element": "e5m2",
        "tile": "3x5",
        "scale": "pow2",
        "scale_from": "amax/max",
        "scale_rounding": "down",
        "scale_precision": "input",
        "scale_floor": "1e-3",
        "amax_floor": "1e-4",
        "amax_floor_precision": "input",
        "infinite_multiplier": "kept",
        "zero": "amax_1",
        "nonfinite": "nan",
        "outer": "row",
        "outer_limit": "256",
        "four_over_six": "squared",
        "apply": "divide",
        "product_precision": "input",
        "rounding": "toward_zero",
        "seed": "3",
        "overflow": "ieee",
        "negative_zero": "positive",
        "dequantize": "divide",
    }
    #: What the field needs beside it.
    heads = {
        "scale_rounding": "ling:pow2",
        "scale_floor": "linghe",
        "amax_floor_precision": "deepgemm",
        "outer": "te-nvfp4",
        "outer_limit": "te-nvfp4",
        "four_over_six": "te-nvfp4:apply=multiply",
        "seed": "ling:rounding=stochastic",
    }
    head = heads.get(field, "ling")
    assert parse(f"{head}:{field}={written[field]}") != parse(head)
    takes = CHOICES.get(field) or {
        "element": ["known are float8_e4m3fn, float8_e5m2"],
        "tile": ["rows x columns, such as 1x128"],
        "seed": ["an integer"],
    }.get(field, ["a number"])
    with pytest.raises(RecipeError) as caught:
        parse(f"{head}:{field}=wrong")
    assert field in str(caught.value)
    assert all(words in str(caught.value) for words in takes)


def _any(details: dict[str, str | float]) -> dict[str, Any]:
    return dict(details)


def test_the_default_is_ling() -> None:
    assert Recipe() == numscope.recipe("ling")
    assert str(Recipe()) == "ling"
    assert repr(Recipe()) == "Recipe(element='float8_e4m3fn', tile=(1, 128), scale='float32')"


@pytest.mark.parametrize("name", NAMED)
def test_a_named_recipe_is_written_as_its_name(name: str) -> None:
    recipe = NAMED[name].recipe
    assert str(recipe) == name
    assert parse(name.upper()) == recipe
    assert parse(f"{name}:{recipe.tile_text}") == recipe
    assert weight_recipe(recipe).tile == NAMED[name].weight_tile
    Recipe.transpose.fget(recipe)  # type: ignore[attr-defined]


def test_weights_have_the_recipes_tile_for_them_or_a_recipe_of_their_own() -> None:
    assert weight_recipe(parse("ling")) == parse("ling:128x128")
    assert weight_recipe(parse("ling:1x64")) == parse("ling:1x64")
    assert weight_recipe(parse("te-nvfp4")) == parse("te-nvfp4-2d") != parse("te-nvfp4:16x16")


def test_no_two_names_are_the_same_recipe() -> None:
    assert len({entry.recipe for entry in NAMED.values()}) == len(NAMED)


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_are_other_words_for_names(alias: str) -> None:
    assert parse(alias) == NAMED[ALIASES[alias]].recipe
    assert alias not in NAMED


def test_families_share_out_the_table() -> None:
    members = [str(recipe) for name in FAMILIES[:-1] for recipe in family(name)]
    assert sorted(members) == sorted(NAMED)
    assert family("all") == [entry.recipe for entry in NAMED.values()]


@pytest.mark.parametrize(
    ("written", "recipe"),
    [
        ("ling:1x64", Recipe(tile=(1, 64))),
        ("ling:e8m0", Recipe(scale="float8_e8m0fnu")),
        ("e5m2:32x1:ue8m0", Recipe("float8_e5m2", (32, 1), "float8_e8m0fnu")),
        ("ling : scale=pow2 : tile=*x*", Recipe(tile=(None, None), scale="power_of_two")),
        ("mxfp8:rounding=stochastic:seed=7", None),
        ("ling:amax_floor=1e-4", Recipe(amax_floor=1e-4)),
        ("deepgemm:float32:1x1", Recipe(tile=(1, 1), amax_floor=1e-4, nonfinite="propagate")),
        ("te-nvfp4-row:16x1", numscope.recipe("te-nvfp4-row").transpose),
    ],
)
def test_what_is_left_out_is_as_in_the_head(written: str, recipe: Recipe | None) -> None:
    head = numscope.recipe("mxfp8")
    assert parse(written) == (recipe or replace(head, rounding="stochastic", seed=7))


@pytest.mark.parametrize(
    ("fields_", "same"),
    [
        ({"scale": "e8m0", "apply": "divide"}, {"scale": "e8m0"}),
        ({"scale": "e8m0", "nonfinite": "propagate"}, {"scale": "e8m0", "nonfinite": "nan"}),
        ({"scale": "pow2", "dequantize": "divide"}, {"scale": "pow2"}),
        ({"amax_floor": 1e-4, "zero": "amax_1"}, {"amax_floor": 1e-4}),
        ({"amax_floor_precision": "input"}, {}),
        (
            {"element": "e4m3fnuz", "negative_zero": "positive"},
            {"element": "e4m3fnuz"},
        ),
    ],
)
def test_recipes_that_give_the_same_bits_are_equal(
    fields_: dict[str, Any], same: dict[str, Any]
) -> None:
    assert Recipe(**fields_) == Recipe(**same)
    assert hash(Recipe(**fields_)) == hash(Recipe(**same))


@pytest.mark.parametrize(
    ("fields_", "message"),
    [
        ({"element": "e9m9"}, "unknown element 'e9m9'; known are"),
        ({"element": "e8m0"}, "holds scales, not elements"),
        ({"element": 8}, "element is a name, not 8"),
        ({"tile": (0, 128)}, "tile 0x128 is not possible"),
        ({"tile": (1, -1)}, "tile 1x-1 is not possible"),
        ({"tile": 128}, "tile 128 is not possible"),
        ({"scale": "float16"}, "unknown scale 'float16'; known are float32, power_of_two"),
        ({"scale": "pow2", "scale_rounding": "none"}, "needs scale_rounding=up, down"),
        ({"scale_rounding": "up"}, "scale=float32 needs scale_rounding=none, not up"),
        ({"scale": "pow2", "scale_rounding": "even"}, "needs scale_from=amax/2\\^emax"),
        ({"scale_from": "amax/2^emax"}, "does not give a scale in float32; that needs max/amax"),
        ({"scale_from": "amax/mx"}, "did you mean amax/max?"),
        ({"scale": "e4m3", "scale_from": "max/amax"}, "does not give a scale in float8_e4m3fn"),
        ({"scale": "e4m3", "scale_from": "(amax/max)/outer"}, "needs outer=tensor, row or column"),
        ({"outer": "tensor"}, "outer=tensor needs scale=float8_e4m3fn"),
        ({"outer_limit": 256.0}, "outer_limit=256.0 needs two levels of scales"),
        ({"four_over_six": "squared"}, "four_over_six=squared needs scale_from="),
        ({"apply": "multiply_levels"}, "needs two levels of scales"),
        ({"scale": "e4m3", "nonfinite": "nan"}, "needs a scale other than float8_e4m3fn"),
        ({"nonfinite": "largest"}, "needs a scale that is a power of two"),
        ({"zero": "multiplier_0"}, "zero=multiplier_0 needs scale=float8_e4m3fn"),
        ({"scale": "e4m3", "zero": "scale_1"}, "needs a scale other than float8_e4m3fn"),
        ({"scale_from": "amax/max", "infinite_multiplier": "input_max"}, "needs scale_from=max/"),
        ({"scale_from": "amax*(1/max)", "scale_precision": "input"}, "needs scale_from=amax/max"),
        ({"scale_floor": 1e-30}, "scale_floor=1e-30 needs a scale_from that forms the scale"),
        ({"scale_from": "amax/max", "dequantize": "divide"}, "needs scale_from=max/amax or max"),
        ({"seed": 1}, "seed=1 needs rounding=stochastic"),
        ({"seed": -1}, "seed -1 is not possible"),
        ({"seed": 1.5}, "seed 1.5 is not possible"),
        ({"amax_floor": -1.0}, "amax_floor -1.0 is not possible"),
        ({"amax_floor": float("nan")}, "amax_floor nan is not possible"),
        ({"amax_floor": "1"}, "amax_floor is a number, not '1'"),
        ({"element": "int8", "overflow": "ieee"}, "needs an element format with NaN"),
        ({"overflow": "ieee", "rounding": "toward_zero"}, "needs rounding=nearest_even"),
        ({"overflow": "asymmetric"}, "needs an integer element format"),
        ({"rounding": "nearest"}, "unknown rounding 'nearest'; known are nearest_even"),
    ],
)
def test_what_cannot_be_is_answered_with_what_can(fields_: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe(**fields_)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("lin", "unknown recipe 'lin'; known are .*did you mean ling"),
        ("te-blok", "did you mean te-block"),
        ("ling:0x128", "tile 0x128 is not possible"),
        ("ling:float16", "unknown scale 'float16'"),
        ("ling:1x64:1x32", "gives tile twice"),
        ("ling:roundng=toward_zero", "unknown field 'roundng'; known are .*did you mean rounding"),
        ("ling:-1x4", "tile '-1x4' is not written as rows x columns"),
        ("ling:1x", "tile '1x' is not written as rows x columns"),
        ("ling:e5m2", "e5m2 is no scale; an element stands first, or as element=e5m2"),
        ("ling:scale_from=", "scale_from= has no value"),
        ("ling:seed=one", "seed is an integer, not 'one'"),
        ("ling:amax_floor=low", "amax_floor is a number, not 'low'"),
        ("te-nvfp4-row:32x16", "outer=row needs a tile within one row"),
        ("", "unknown recipe ''"),
    ],
)
def test_text_that_cannot_be_meant_is_answered(written: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse(written)


def test_every_field_is_described() -> None:
    description = Recipe.__doc__ or ""
    for field in fields(Recipe):
        assert field.name in description, field.name


# Equal if and only if they give the same bits.

#: Rows of amax 0, below the least float16 and above, beside special values.
TINY = np.array(
    [[0, 0], [0, -1e-45], [0, 3e-39], [1e-36, 0], [0, 1e-12], [6e-8, 1e-7], [1, 3], [np.nan, 1]],
    np.float32,
)


@given(
    words=st.fixed_dictionaries(
        {
            "element": st.sampled_from(["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int8"]),
            "scale": st.sampled_from(["float32", "power_of_two", "float8_e8m0fnu"]),
            "scale_from": st.sampled_from(["max/amax", "max*(1/amax)", "amax/max", "amax*(1/max)"]),
            "scale_precision": st.sampled_from(["float32", "input"]),
            "scale_floor": st.sampled_from([0.0, 1e-46, 1e-40, 1e-12]),
            "amax_floor": st.sampled_from([0.0, 1e-46, 2e-45, 1e-38, 1.1e-36, 1e-30, 1e-12, 0.1]),
            "amax_floor_precision": st.sampled_from(["float32", "float64", "input"]),
            "infinite_multiplier": st.sampled_from(["input_max", "kept"]),
            "zero": st.sampled_from(["none", "scale_1", "amax_1", "amax_2^-126"]),
            "apply": st.sampled_from(["multiply", "divide"]),
        }
    ),
    dtype=st.sampled_from([np.float32, np.float16, ml_dtypes.bfloat16]),
)
@settings(max_examples=300)
def test_what_is_brought_to_its_canonical_form_gives_the_same_bits(
    words: dict[str, Any], dtype: Any
) -> None:
    try:
        canonical = Recipe(tile=(1, 2), **words)
    except RecipeError:
        assume(False)
    as_given = copy.copy(canonical)
    for name, value in words.items():
        object.__setattr__(as_given, name, value)
    with np.errstate(all="ignore"):
        x = TINY.astype(dtype)
    one, other = quantize(x, canonical), quantize(x, as_given)
    for name in ("elements", "scales", "values"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ling:amax_floor=1e-46", "ling"),
        ("deepgemm:amax_floor=9.99999974e-05", "deepgemm"),
        ("torchao-block:zero=amax_2^-126", "torchao-block"),
        ("nvfp4-one-level:zero=none", "nvfp4-one-level:zero=multiplier_0"),
    ],
)
def test_written_forms_of_the_same_bits_are_equal(one: str, other: str) -> None:
    assert parse(one) == parse(other)


# Numbers of NumPy, and what is none.


def test_numbers_of_numpy_are_numbers() -> None:
    numbers: dict[str, Any] = {
        "tile": (np.int64(1), np.int32(32)),
        "amax_floor": np.float32(1e-4),
        "seed": np.uint8(3),
    }
    made = Recipe(rounding="stochastic", **numbers)
    assert made == Recipe(tile=(1, 32), amax_floor=1e-4, rounding="stochastic", seed=3)
    assert repr(made) == repr(parse(str(made)))
    assert parse("ling:1X32").tile == (1, 32)


@pytest.mark.parametrize(
    ("fields_", "message"),
    [
        ({"tile": (True, True)}, "tile TruexTrue is not possible: rows and columns are integers"),
        ({"tile": (10**30, 5)}, "a tile's rows and columns have at most 18 digits"),
        ({"tile": (1.0, 2)}, "tile 1.0x2 is not possible"),
        ({"seed": True, "rounding": "stochastic"}, "seed True is not possible"),
        ({"scale": 32}, "scale is a name, not 32; known are float32, power_of_two"),
    ],
)
def test_what_is_no_number_or_name_is_refused(fields_: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe(**fields_)


@pytest.mark.parametrize("recipe", [None, 5, ["ling"], b"ling"])
def test_what_is_no_recipe_is_refused(recipe: Any) -> None:
    with pytest.raises(RecipeError, match="a recipe is a name, a written form or a Recipe, not"):
        quantize(np.ones((2, 2), np.float32), recipe)
