"""Recipes: all that changes a bit of a quantized tensor, as one value, and the table of named ones.

A recipe cannot be built wrong: every field is checked and brought to its canonical form when it is
made, so nothing further on validates again. The arithmetic is elsewhere: the scale rules are in
`scales`, the rounding in `kernels`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from numscope.errors import RecipeError
from numscope.formats import ALIASES, FORMATS, FloatFormat, format_named

Tile = tuple[int | None, int | None]

#: The scale formats, each with its rule in `scales.SCALE_RULES`.
SCALES: tuple[str, ...] = ("float32", "power_of_two", "float8_e8m0fnu")

_SCALE_ALIASES = {
    "fp32": "float32",
    "f32": "float32",
    "pow2": "power_of_two",
    "power-of-two": "power_of_two",
    "e8m0": "float8_e8m0fnu",
    "ue8m0": "float8_e8m0fnu",
    "e8m0fnu": "float8_e8m0fnu",
}

_TILE = re.compile(r"(\d+|\*)\s*[x,×]\s*(\d+|\*)")


def _checked_tile(tile: Tile) -> Tile:
    is_pair = isinstance(tile, tuple | list) and len(tile) == 2
    if not is_pair or not all(n is None or (isinstance(n, int) and n >= 1) for n in tile):
        text = "x".join("*" if n is None else str(n) for n in tile) if is_pair else repr(tile)
        raise RecipeError(
            f"tile {text} is not possible: rows and columns are 1 or more, or the whole axis (*)"
        )
    rows, cols = tile
    return (rows, cols)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a tensor is quantized: element format, tile shape and scale.

    Attributes
    ----------
    element
        The elements' number format: a name of `formats.FORMATS` or an alias such as `e4m3`.
    tile
        (rows, columns) that share one scale, each 1 or more, or `None` for the whole axis.
        The last tile of an axis is shorter if the axis ends inside it.
    scale
        How a tile's scale is formed and what it may be, see `scales.SCALE_RULES`: `float32`,
        `power_of_two` or `float8_e8m0fnu`.

    Two recipes are equal if and only if they give the same bits for every tensor. `str(recipe)` is
    a text that `parse` turns back into an equal recipe.

    Raises
    ------
    RecipeError
        For fields that name nothing or cannot go together.
    """

    element: str = "float8_e4m3fn"
    tile: Tile = (1, 128)
    scale: str = "float32"

    def __post_init__(self) -> None:
        """Check every field and bring it to its canonical form."""
        element = format_named(self.element)
        if element.is_scale_only:
            raise RecipeError(f"{element.name} holds scales, not elements")
        scale = _SCALE_ALIASES.get(self.scale.lower(), self.scale.lower())
        if scale not in SCALES:
            raise RecipeError(f"unknown scale {self.scale!r}; known are {', '.join(SCALES)}")
        object.__setattr__(self, "element", element.name)
        object.__setattr__(self, "tile", _checked_tile(self.tile))
        object.__setattr__(self, "scale", scale)

    def __str__(self) -> str:
        for name, entry in NAMED.items():
            if replace(self, tile=entry.recipe.tile) == entry.recipe:
                return name if self == entry.recipe else f"{name}:{self.tile_text}"
        return f"{self.element}:{self.tile_text}:{self.scale}"

    @property
    def element_format(self) -> FloatFormat:
        """The elements' number format."""
        return FORMATS[self.element]

    @property
    def tile_text(self) -> str:
        """The tile as text: `1x128`, `*` for a whole axis."""
        return "x".join("*" if extent is None else str(extent) for extent in self.tile)

    @property
    def transpose(self) -> Recipe:
        """The recipe for the tensor's other orientation: the same with the tile turned."""
        return replace(self, tile=self.tile[::-1])


class NamedRecipe(NamedTuple):
    """An entry of the table of named recipes.

    `recipe` is for activations and, with its transpose, for gradients; `weight_tile` is the tile
    that the same scheme has for weights.
    """

    recipe: Recipe
    weight_tile: Tile
    summary: str
    source: str


#: The named recipes: one entry each.
NAMED: dict[str, NamedRecipe] = {
    "ling": NamedRecipe(
        Recipe("float8_e4m3fn", (1, 128), "float32"),
        weight_tile=(128, 128),
        summary="FP8 blockwise with float32 scales: scale = amax/448, zero tiles get 1",
        source="Ling 2.0 (arXiv 2510.22115, 5.1); Transformer Engine block scaling, FP32 scales",
    ),
}


def recipes() -> dict[str, Recipe]:
    """The named recipes by name."""
    return {name: entry.recipe for name, entry in NAMED.items()}


def parse(text: str) -> Recipe:
    """The recipe of that name or written form.

    The written form is a name from `NAMED` or an element format, then, separated by colons and in
    any order, what differs: a tile (`1x64`, `128x1`, `*x*`) and a scale (`float32`, `power_of_two`,
    `float8_e8m0fnu`). What is left out is as in the named recipe, or as in `Recipe()`.

    >>> parse("ling").tile
    (1, 128)
    >>> str(parse("ling:128x1"))
    'ling:128x1'
    >>> parse("e5m2:32x1:e8m0")
    Recipe(element='float8_e5m2', tile=(32, 1), scale='float8_e8m0fnu')

    Raises
    ------
    RecipeError
        If the text cannot be understood; the message names the nearest known recipes.
    """
    head, *options = (part.strip() for part in text.split(":"))
    recipe = _head(head)
    for option in options:
        if _TILE.fullmatch(option):
            recipe = replace(recipe, tile=parse_tile(option))
        else:
            recipe = replace(recipe, scale=option)
    return recipe


def parse_tile(text: str) -> Tile:
    """The tile written as rows x columns: `1x128`, `128x1`, `*` for a whole axis.

    >>> parse_tile("128x*")
    (128, None)

    Raises
    ------
    RecipeError
        If it is not written so, or has an extent of 0.
    """
    match = _TILE.fullmatch(text.strip())
    if not match:
        raise RecipeError(
            f"tile {text!r} is not written as rows x columns, such as 1x128, 128x1 or 128x128"
            " (* is the whole axis)"
        )
    rows, cols = (None if extent == "*" else int(extent) for extent in match.groups())
    return _checked_tile((rows, cols))


def weight_tile(recipe: Recipe) -> Tile:
    """The tile for weights: that of the named recipe, or the recipe's own if it has no name."""
    entry = NAMED.get(str(recipe))
    return entry.weight_tile if entry else recipe.tile


def _head(word: str) -> Recipe:
    if word.lower() in NAMED:
        return NAMED[word.lower()].recipe
    if word.lower() in FORMATS or word.lower() in ALIASES:
        return Recipe(element=word)
    near = difflib.get_close_matches(word.lower(), (*NAMED, *FORMATS, *ALIASES), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise RecipeError(f"unknown recipe {word!r}; known are {', '.join(NAMED)}{hint}")
