"""TOML files of someone's own recipes: each has a name, and is a written form or a table of fields.

A mistake is answered with the file, the recipe and the field. What a field accepts is in `checks`;
nothing here knows a field by itself but the tile, which is text as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from numscope import toml_files
from numscope.errors import RecipeError, UsageError
from numscope.recipes import Recipe
from numscope.rules import is_condition
from numscope.written import changed, check_field, is_known, parse, parse_tile

#: A name is a label in tables, a word in rules and the name of a folder of charts.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,63}")
_BASE = "base"


def read(path: str | Path) -> dict[str, Recipe]:
    """The recipes of a TOML file by their names, in its order.

    A recipe is a written form, as `written.parse` reads it, or a table of fields of `Recipe`. What
    a table leaves out is as in its `base`, a written form, or as in `Recipe()`. A base may be a
    recipe that the file has before.

    Raises
    ------
    RecipeError
        If the file cannot be read or holds no recipe, or one of them cannot be.
    """
    return read_all([path])


def read_all(paths: Iterable[str | Path]) -> dict[str, Recipe]:
    """The recipes of several such files together.

    Raises
    ------
    RecipeError
        As for `read`, and if a name is in two of them.
    """
    found: dict[str, Recipe] = {}
    places: dict[str, str] = {}
    for path in paths:
        own: dict[str, Recipe] = {}
        for name, entry in _entries(path).items():
            try:
                _check_name(name, places)
                own[name] = _recipe(entry, own)
            except RecipeError as error:
                raise RecipeError(f"{path}: recipe {name!r}: {error}") from None
            places[name.lower()] = f"{name!r} in {path}"
        found |= own
    return found


def _entries(path: str | Path) -> Mapping[str, object]:
    try:
        found = toml_files.read(path)
    except UsageError as error:
        raise RecipeError(str(error)) from error
    if not found:
        raise RecipeError(f'{path} holds no recipe, such as wide = "ling:1x256"')
    return found


def _check_name(name: str, places: Mapping[str, str]) -> None:
    """Refuse what is no name, or one that is taken; `places` are those of others, without case."""
    if not _NAME.fullmatch(name):
        raise RecipeError(
            "a name is up to 64 letters, digits, dots and signs of _+-, and begins with a letter"
        )
    if Path(name).suffix in (".csv", ".png", ".svg", ".pdf"):
        raise RecipeError("ends like a chart's file, and is the name of a folder beside them")
    if is_condition(name):
        raise RecipeError("means a kind or layers in the brackets of a rule: choose another name")
    if is_known(name):
        raise RecipeError("is known by that name without a file: choose another name")
    if name.lower() in places:
        raise RecipeError(f"{places[name.lower()]} has that name already, whatever the case")


def _recipe(entry: object, own: Mapping[str, Recipe]) -> Recipe:
    """The recipe that an entry stands for; `own` are those before it."""
    if isinstance(entry, str):
        return parse(entry, own)
    if not isinstance(entry, dict):
        raise RecipeError(f'is a written form such as "ling:1x64", or a table, not {entry!r}')
    if not entry:
        raise RecipeError('has no field; the least is a base, such as base = "ling"')
    for name, value in entry.items():
        check_field(name, (_BASE,))
        if value == "":
            raise RecipeError(f"{name} has no value")
    fields = dict(entry)
    base = fields.pop(_BASE, None)
    if not isinstance(base, str | None):
        raise RecipeError(f'{_BASE} is a written form such as "ling:1x64", not {base!r}')
    if "tile" in fields:
        tile = fields["tile"]
        if not isinstance(tile, str):
            raise RecipeError(f'tile is text such as "1x128", not {tile!r}')
        fields["tile"] = parse_tile(tile)
    return changed(Recipe() if base is None else parse(base, own), fields)
