"""The rows of results that a command was asked for, or an error that says what there is."""
# ruff: noqa: PLC0415 (`--help` needs none of it)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from numscope.errors import NothingToDo, RecipeError

if TYPE_CHECKING:
    from numscope.ranges import Ranges
    from numscope.results import Results
    from numscope.tables import LayerRow


class Chosen(NamedTuple):
    """Rows of layers.csv, and the recipes' own tiles, which some of the rows may not tell."""

    rows: list[LayerRow]
    tiles: Mapping[str, str]


def chosen_rows(
    folder: Results,
    *,
    module: str | None = None,
    kinds: tuple[str, ...] | None = None,
    layers: Ranges | None = None,
) -> Chosen:
    """The rows of these modules and kinds; all layers, of which some of `layers` are there.

    Raises
    ------
    NothingToDo
        If there are none; the message says what there is.
    """
    from numscope import tables
    from numscope.plans import matches_module

    name = folder.folder
    rows = folder.layer_rows()
    tiles = folder.own_tiles(rows)
    if module is not None:
        chosen = [row for row in folder.tensor_rows() if matches_module(row.module, module)]
        rows = tables.merge_layers(chosen)
        _require(rows, f"no module contains or matches {module!r} in {name}")
    if kinds is not None:
        known = ", ".join(sorted({row.kind for row in rows}))
        rows = [row for row in rows if row.kind in kinds]
        _require(rows, f"none of these kinds in {name}; it has {known}")
    if layers is not None:
        present = sorted({row.layer for row in rows if row.layer is not None})
        text = ", ".join(map(str, present)) or "none"
        found = any(layer in layers for layer in present)
        _require(found, f"none of these layers in {name}; it has {text}")
    return Chosen(rows, tiles)


def of_recipe(rows: Sequence[LayerRow], recipe: str, folder: Results) -> list[LayerRow]:
    """The rows of one recipe, in whatever spelling.

    Raises
    ------
    RecipeError
        If it is none, neither in the results nor else.
    NothingToDo
        If there are no rows of it; both messages say what there is.
    """
    from numscope.written import among, parse

    names = sorted({row.recipe for row in rows})
    name = among(recipe, names)
    there = f"in {folder.folder}; it has {', '.join(names)}"
    if name is None:
        try:
            parse(recipe)
        except RecipeError:
            raise RecipeError(f"{recipe!r} is no recipe, and none is called so {there}") from None
        raise NothingToDo(f"no recipe {recipe!r} {there}")
    return [row for row in rows if row.recipe == name]


def _require(something: object, message: str) -> None:
    if not something:
        raise NothingToDo(message)
