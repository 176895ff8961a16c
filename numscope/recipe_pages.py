"""What `numscope recipes` shows: the table of named recipes, and all about one of them.

Only how it looks is decided here; what a recipe costs is in `costs`.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from rich.text import Text

from numscope import written
from numscope.catalogue import NAMED
from numscope.console import grid
from numscope.costs import bits_per_value, usable_bits
from numscope.formats import short_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from numscope.recipes import Recipe

#: So many fields may differ between neighbours.
_MOST_CHANGES = 2


def recipe_table(own: Mapping[str, Recipe] | None = None, *, has_sources: bool = False) -> Table:
    """The named recipes, one a row, with all of their source if that is asked for; then `own`."""
    table = grid()
    for column in ("name", "element", "tile"):
        table.add_column(column, no_wrap=True)
    table.add_column("scale", overflow="fold")
    for column in ("bits", "range"):
        table.add_column(column, no_wrap=True, justify="right")
    table.add_column("source", overflow="fold")
    for name, entry in NAMED.items():
        source = entry.source if has_sources else re.split(r" ?[,;(]", entry.source)[0]
        table.add_row(*_cells(name, entry.recipe), Text(source))
    for name, recipe in (own or {}).items():
        table.add_row(*_cells(name, recipe), Text("your own"))
    return table


def recipe_page(recipe: Recipe, label: str | None = None) -> Table:
    """All about a recipe: what it is made of, its formula, and how its neighbours differ.

    `label` is what it is called, unless it is as `str` says.
    """
    page = grid(has_header=False)
    page.add_column(style="bold", no_wrap=True)
    page.add_column(overflow="fold")
    for fact, value in _facts(recipe, label or str(recipe)).items():
        page.add_row(fact, Text(value))
    for field in fields(recipe):
        if field.name not in ("element", "tile"):
            page.add_row(field.name, Text(str(getattr(recipe, field.name))))
    neighbours = _neighbours(recipe)
    if neighbours:
        page.add_row()
        page.add_row("neighbours", "the same but for these fields, which have:")
    for name, changes in neighbours.items():
        page.add_row(Text(name), Text(", ".join(f"{field}={changes[field]}" for field in changes)))
    return page


def scale_rule(recipe: Recipe) -> str:
    """In which format a scale is, rounded where to, and from which expression."""
    rounding = "" if recipe.scale_rounding == "none" else f" {recipe.scale_rounding}"
    scale = "2^k" if recipe.scale == "power_of_two" else short_name(recipe.scale)
    return f"{scale}{rounding} {recipe.scale_from}"


def _cells(name: str, recipe: Recipe) -> tuple[Text | str, ...]:
    """What the table says of a recipe, but where it comes from."""
    return (
        Text(name),
        short_name(recipe.element),
        recipe.tile_text,
        Text(scale_rule(recipe)),
        f"{bits_per_value(recipe):.5g}",
        f"{usable_bits(recipe):.1f}",
    )


def _facts(recipe: Recipe, label: str) -> dict[str, str]:
    name, full, element = str(recipe), written.fields_text(recipe), recipe.element_format
    facts = {"recipe": label}
    if label != name != full:
        facts["the same as"] = name
    if label != full:
        facts["written out"] = full
    entry = NAMED.get(name)
    if entry:
        facts |= {
            "family": entry.family,
            "formula": entry.formula,
            "what is special": entry.differs,
            "source": entry.source,
            "weights": replace(recipe, tile=entry.weight_tile).tile_text,
        }
    return facts | {
        "tile": recipe.tile_text,
        "element": f"{element.name}: {element.bits} bits, largest {element.max:g}, smallest"
        f" {element.min_subnormal:g}",
        "bits per value": f"{bits_per_value(recipe):g}, of which scales"
        f" {bits_per_value(recipe) - element.bits:g}",
        "usable range": f"{usable_bits(recipe):.1f} bits: log2(amax / smallest kept), for the worst"
        " amax",
    }


def _neighbours(recipe: Recipe) -> dict[str, dict[str, object]]:
    """The named recipes that differ in few fields, by name, and their values of those."""
    found: dict[str, dict[str, object]] = {}
    for name, entry in NAMED.items():
        changes = {
            field.name: getattr(entry.recipe, field.name)
            for field in fields(recipe)
            if getattr(entry.recipe, field.name) != getattr(recipe, field.name)
        }
        if "tile" in changes:
            changes["tile"] = entry.recipe.tile_text
        if 0 < len(changes) <= _MOST_CHANGES:
            found[name] = changes
    return found
