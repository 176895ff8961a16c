"""The README keeps in step: every recipe, format and field is in it, as it is."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from numscope import Recipe
from numscope.catalogue import ALIASES, NAMED
from numscope.choices import CHOICES
from numscope.costs import bits_per_value, usable_bits
from numscope.formats import FORMATS, short_name
from numscope.recipe_pages import scale_rule
from tests.examples import REPOSITORY
from tests.translations import TRANSLATIONS

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
RECIPES = README.partition("\n## Recipes\n")[2].partition("\n## ")[0]


def recipe_line(name: str) -> str:
    """The line of the README's table for a named recipe."""
    entry = NAMED[name]
    recipe = entry.recipe
    weights = replace(recipe, tile=entry.weight_tile).tile_text
    tiles = recipe.tile_text if weights == recipe.tile_text else f"{recipe.tile_text}, {weights}"
    cells = [
        f"`{name}`",
        entry.family,
        short_name(recipe.element),
        tiles.replace("*", "\\*").replace("x", "×"),
        f"`{scale_rule(recipe)}`",
        f"{bits_per_value(recipe):.5g}",
        f"{usable_bits(recipe):.1f}",
        entry.differs.replace("*", "\\*"),
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("name", NAMED)
def test_the_table_of_recipes_is_that_of_the_catalogue(name: str) -> None:
    assert recipe_line(name) in RECIPES.splitlines()


@pytest.mark.parametrize("field", [field.name for field in fields(Recipe)])
def test_every_field_and_what_it_accepts_is_described(field: str) -> None:
    rows = [line for line in RECIPES.splitlines() if line.startswith(f"| `{field}` |")]
    assert len(rows) == 1, field
    for word in CHOICES.get(field, ()):
        assert f"`{word}`" in rows[0], word


def test_every_alias_and_element_format_is_named() -> None:
    for word in (*ALIASES, *(name for name, entry in FORMATS.items() if not entry.is_scale_only)):
        assert f"`{word}`" in RECIPES, word


@pytest.mark.parametrize("metric", TRANSLATIONS)
def test_every_translated_metric_is_in_the_table(metric: str) -> None:
    assert f"`{metric}`" in README
