"""Recipes as text: by name, or by their fields; `parse` reads what `text` writes.

Nothing here checks what a recipe may be: a `Recipe` does that when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from typing import Any

from numscope import checks
from numscope.catalogue import ALIASES as NAMES
from numscope.catalogue import NAMED
from numscope.choices import SCALE_ALIASES, SCALES
from numscope.errors import RecipeError
from numscope.formats import ALIASES, FORMATS
from numscope.ranges import MOST_DIGITS
from numscope.recipes import Recipe, Tile, checked_tile

#: What begins so is meant as a tile.
_TILE_LIKE = re.compile(r"[-+]?\d|\*")
_TILE = re.compile(r"(\d+|\*)\s*[xX,×]\s*(\d+|\*)")

#: The fields, and what the value of each is.
_FIELDS: dict[str, type] = {field.name: type(field.default) for field in fields(Recipe)}


def recipes() -> dict[str, Recipe]:
    """The named recipes by name."""
    return {name: entry.recipe for name, entry in NAMED.items()}


def text(recipe: Recipe) -> str:
    """The shortest of the texts that `parse` turns into this recipe.

    A name, with the tile if it is another one; or the element format, the tile, the scale and the
    fields that are not as they are by default.
    """
    for name, entry in NAMED.items():
        if recipe == entry.recipe:
            return name
    for name, entry in NAMED.items():
        base = entry.recipe
        is_like = (recipe.outer, recipe.four_over_six) == (base.outer, base.four_over_six)
        if recipe == base.transpose or (is_like and replace(recipe, tile=base.tile) == base):
            return f"{name}:{recipe.tile_text}"
    return fields_text(recipe)


def fields_text(recipe: Recipe) -> str:
    """The recipe by its fields, without a name: as few of them as make it."""
    details = (f"{name}={value}" for name, value in recipe.details.items())
    return ":".join([recipe.element, recipe.tile_text, recipe.scale, *details])


def parse(written: str | Recipe, own: Mapping[str, Recipe] | None = None) -> Recipe:
    """The recipe of that name or written form; a recipe is given back as it is.

    The written form is a name from `catalogue.NAMED` or an element format, then, separated by
    colons and in any order, what differs: a tile (`1x64`, `128x1`, `*x*`), a scale (`float32`,
    `power_of_two`, `float8_e8m0fnu`, `float8_e4m3fn`) and other fields (`rounding=stochastic`).
    What is left out is as in the named recipe, or as in `Recipe()`. A scale takes its own
    expression and rounding with it.

    >>> parse("ling").tile
    (1, 128)
    >>> str(parse("ling:128x1"))
    'ling:128x1'
    >>> parse("e5m2:32x1:e8m0")
    Recipe(element='float8_e5m2', tile=(32, 1), scale='float8_e8m0fnu')

    Parameters
    ----------
    own
        Recipes of someone's own, by names that may stand where those of the catalogue do.

    Raises
    ------
    RecipeError
        If the text cannot be understood; the message names the nearest known recipes.
    """
    if isinstance(written, Recipe):
        return written
    if not isinstance(written, str):
        raise RecipeError(f"a recipe is a name, a written form or a Recipe, not {written!r}")
    head, *options = (part.strip() for part in written.split(":"))
    base = _head(head, own or {})
    changes: dict[str, Any] = {}
    for option in options:
        name, value = _option(option)
        if name in changes:
            raise RecipeError(f"{written!r} gives {name} twice")
        changes[name] = value
    return changed(base, changes)


def changed(base: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with other values of some fields, as the written form means them.

    A scale takes its own expression and rounding with it, a tile that is turned its outer scale.

    >>> changed(parse("deepgemm"), {"scale": "e8m0"}).scale_from
    'amax/2^emax'

    Raises
    ------
    RecipeError
        If the values are none of the fields', or cannot go together.
    """
    changes = dict(changes)
    if "scale" in changes:
        changes = dict.fromkeys((*SCALES["float32"], "infinite_multiplier"), "") | changes
    elif "scale_from" in changes:
        changes = {"infinite_multiplier": ""} | changes
    if base.outer in ("row", "column") and changes.get("tile") == base.tile[::-1] != base.tile:
        changes = {"outer": base.transpose.outer} | changes
    return replace(base, **changes)


def among(written: str, names: Collection[str]) -> str | None:
    """Which of these recipes' names a text means, however it is spelled; `None` if none of them.

    >>> among("FP8 : 1X64", ["ling", "ling:1x64"])
    'ling:1x64'
    """
    plain = ":".join(part.strip() for part in written.split(":"))
    if plain in names:
        return plain
    try:
        name = text(parse(plain))
    except RecipeError:
        return None
    return name if name in names else None


def is_known(word: str) -> bool:
    """Whether a word is the name of a recipe or of a number format, in any case."""
    return any(word.lower() in words for words in (NAMED, NAMES, FORMATS, ALIASES))


def check_field(name: str, others: tuple[str, ...] = ()) -> None:
    """Refuse what is no field of a recipe; `others` are words that may stand there too.

    Raises
    ------
    RecipeError
        If it is not; the message has all fields, and the nearest.
    """
    known = (*others, *_FIELDS)
    if name not in known:
        hint = checks.nearest(name, known)
        raise RecipeError(f"unknown field {name!r}; known are {', '.join(known)}{hint}")


def parse_tile(written: str) -> Tile:
    """The tile written as rows x columns: `1x128`, `128x1`, `*` for a whole axis.

    >>> parse_tile("128x*")
    (128, None)

    Raises
    ------
    RecipeError
        If it is not written so, or has an extent of 0.
    """
    match = _TILE.fullmatch(written.strip())
    if not match:
        raise RecipeError(
            f"tile {written!r} is not written as rows x columns, such as 1x128, 128x1 or 128x128"
            " (* is the whole axis)"
        )
    if any(len(extent) > MOST_DIGITS for extent in match.groups()):
        raise RecipeError(f"a tile's rows and columns have at most {MOST_DIGITS} digits; * is all")
    rows, cols = (None if extent == "*" else int(extent) for extent in match.groups())
    return checked_tile((rows, cols))


def weight_recipe(recipe: Recipe) -> Recipe:
    """The recipe for weights: that of the named recipe, or the recipe itself if it has no name."""
    entry = NAMED.get(str(recipe))
    if entry is None:
        return recipe
    return NAMED[entry.weight].recipe if entry.weight else replace(recipe, tile=entry.weight_tile)


def _option(option: str) -> tuple[str, Any]:
    """The field that an option is about, and its value."""
    if _TILE.fullmatch(option):
        return "tile", parse_tile(option)
    name, has_value, value = (part.strip() for part in option.partition("="))
    if not has_value:
        return _scale(option)
    if not value:
        raise RecipeError(f"{name}= has no value")
    check_field(name)
    if name == "tile":
        return name, parse_tile(value)
    try:
        return name, _FIELDS[name](value)
    except ValueError:
        kind = "an integer" if _FIELDS[name] is int else "a number"
        raise RecipeError(f"{name} is {kind}, not {value!r}") from None


def _scale(option: str) -> tuple[str, str]:
    """An option without a name: what scales can be, or a mistake."""
    if _TILE_LIKE.match(option):
        parse_tile(option)
    if option.lower() in FORMATS | ALIASES and option.lower() not in SCALES | SCALE_ALIASES:
        raise RecipeError(f"{option} is no scale; an element stands first, or as element={option}")
    return "scale", option


def _head(word: str, own: Mapping[str, Recipe]) -> Recipe:
    if word in own:
        return own[word]
    name = NAMES.get(word.lower(), word.lower())
    if name in NAMED:
        return NAMED[name].recipe
    if word.lower() in FORMATS or word.lower() in ALIASES:
        return Recipe(element=word)
    known = (*own, *NAMED, *NAMES, *FORMATS, *ALIASES)
    hint = checks.nearest(word.lower(), known, most=3, likeness=0.5)
    raise RecipeError(f"unknown recipe {word!r}; known are {', '.join((*own, *NAMED))}{hint}")
