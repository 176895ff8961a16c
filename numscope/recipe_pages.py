"""What `numscope recipes` shows: the table of named recipes, and all about one of them.

Only how it looks is decided here; what a recipe costs is in `costs`.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from numscope import written
from numscope.catalogue import NAMED
from numscope.console import folded, grid
from numscope.costs import bits_per_value, usable_bits
from numscope.formats import short_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from numscope.recipes import Recipe

#: So many fields may differ between neighbours.
_MOST_CHANGES = 2
#: The columns of the table, those first that go last where there is little room.
_BY_IMPORTANCE = ("name", "tile", "bits", "range", "element", "scale", "source")
#: Columns whose cells may take several lines, and the least room that they need then.
_FOLDED = {"name": 16, "scale": 12, "source": 12}
#: Behind which signs the lines of some of them end.
_AFTER = {"name": (":", "=/", "_-"), "scale": (" ", "*"), "source": (" ", "/_")}
#: What of a recipe's page is a name, in whatever form.
_NAMES = ("recipe", "the same as", "written out")
#: After each column.
_GAP = 2


def recipe_table(
    own: Mapping[str, Recipe] | None = None, *, has_sources: bool = False, width: int = 80
) -> Table:
    """The named recipes, one a row, with all of their source if that is asked for; then `own`.

    Columns for which `width` has no room are left out, the least important first, and named; a
    source that was not asked for goes before any cell takes several lines.
    """
    rows = [
        _cells(name, entry.recipe)
        | {"source": entry.source if has_sources else re.split(r" ?[,;(]", entry.source)[0]}
        for name, entry in NAMED.items()
    ]
    rows += [_cells(name, recipe) | {"source": "your own"} for name, recipe in (own or {}).items()]
    shown = _widths(rows, width, has_sources=has_sources)
    table = grid()
    for column, room in shown.items():
        justify: Literal["left", "right"] = "right" if column in ("bits", "range") else "left"
        table.add_column(column, width=room, overflow="fold", justify=justify)
    for row in rows:
        table.add_row(
            *(
                Text(folded(row[each], room, _AFTER[each]) if each in _AFTER else row[each])
                for each, room in shown.items()
            )
        )
    if len(shown) < len(rows[0]):
        left_out = ", ".join(column for column in rows[0] if column not in shown)
        table.caption = Text(f"no room for: {left_out}", style="dim")
        table.caption_justify = "left"
    return table


def _widths(rows: Sequence[Mapping[str, str]], width: int, *, has_sources: bool) -> dict[str, int]:
    """The columns for which there is room, in their order, and how wide each is."""
    longest = {column: max(len(column), *(len(row[column]) for row in rows)) for column in rows[0]}
    total = sum(room + _GAP for room in longest.values())
    if not has_sources and total - longest["source"] - _GAP <= width < total:
        return {column: room for column, room in longest.items() if column != "source"}
    least = {column: min(_FOLDED.get(column, room), room) for column, room in longest.items()}
    totals = accumulate(least[column] + _GAP for column in _BY_IMPORTANCE)
    fitting = {c for c, total in zip(_BY_IMPORTANCE, totals, strict=True) if total <= width}
    widths = {column: room for column, room in least.items() if column in {"name", *fitting}}
    left = width - sum(widths.values()) - _GAP * len(widths)
    for column, room in widths.items():
        more = max(0, min(longest[column] - room, left))
        widths[column] += more
        left -= more
    return widths


def recipe_page(recipe: Recipe, label: str | None = None, *, width: int = 80) -> Table:
    """All about a recipe: what it is made of, its formula, and how its neighbours differ.

    `label` is what it is called, unless it is as `str` says. Names fold to `width` as a whole.
    """
    room = max(width - _GAP - max(len(field.name) for field in fields(recipe)), _FOLDED["name"])
    page = grid(has_header=False)
    page.add_column(style="bold", no_wrap=True)
    page.add_column(overflow="fold")
    for fact, value in _facts(recipe, label or str(recipe)).items():
        after = _AFTER["name" if fact in _NAMES else "source"]
        page.add_row(fact, Text(folded(value, room, after)))
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


def _cells(name: str, recipe: Recipe) -> dict[str, str]:
    """What the table says of a recipe, by column, but where it comes from."""
    return {
        "name": name,
        "element": short_name(recipe.element),
        "tile": recipe.tile_text,
        "scale": scale_rule(recipe),
        "bits": f"{bits_per_value(recipe):.5g}",
        "range": f"{usable_bits(recipe):.1f}",
    }


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
            "weights": replace(recipe, tile=entry.weight_tile).tile_text
            + (f", as {entry.weight}" if entry.weight else ""),
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
    """The named recipes that differ in few fields, or the nearest, with their values of those."""
    found: dict[str, dict[str, object]] = {}
    for name, entry in NAMED.items():
        changes = {
            field.name: getattr(entry.recipe, field.name)
            for field in fields(recipe)
            if getattr(entry.recipe, field.name) != getattr(recipe, field.name)
        }
        if "tile" in changes:
            changes["tile"] = entry.recipe.tile_text
        if changes:
            found[name] = changes
    most = max(_MOST_CHANGES, min(map(len, found.values())))
    return {name: changes for name, changes in found.items() if len(changes) <= most}
