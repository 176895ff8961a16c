"""`numscope recipes`: the named recipes, or all about one."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numscope.commands.answering import answering
from numscope.options import Command, RecipeType, recipe_files, verbosity

if TYPE_CHECKING:
    from numscope.recipes import Recipe


@click.command(cls=Command)
@click.argument("recipe", required=False, type=RecipeType())
@recipe_files
@verbosity(
    quiet="Changes nothing: there is nothing to say but the answer.",
    verbose="Show the source of each recipe in the list, too.",
)
def recipes(
    recipe: tuple[str, Recipe] | None,
    own: Mapping[str, Recipe],
    *,
    quiet: bool,  # noqa: ARG001 (all commands take it)
    verbose: bool,
) -> None:
    """List the named recipes, or tell all about one: its formula, source, fields and neighbours.

    Those of a file are listed below them.

    The columns bits and range are the bits per value with its share of the scales, and the bits
    between a tile's largest magnitude and the smallest that is surely kept.

    \b
    A written form is a recipe or an element format, then what differs, separated by colons:
      ling:1x64   e5m2:1x128:power_of_two   mxfp4:rounding=stochastic:seed=1   int8:1x*

    \b
    Examples:
      numscope recipes --verbose
      numscope recipes deepgemm
      numscope recipes --recipe-file recipes.toml mine
      numscope analyze dumps/ --recipe ling --recipe e5m2:1x128:power_of_two
    """
    from numscope.console import print_table
    from numscope.recipe_pages import recipe_page, recipe_table

    with answering() as answer:
        if recipe is None:
            print_table(answer, recipe_table(own, has_sources=verbose, width=answer.width))
        else:
            name, found = recipe
            print_table(answer, recipe_page(found, name, width=answer.width))
