"""What `analyze` and `advise` show of several recipes: tables side by side, and which one will do.

Only how it looks is decided here; the numbers are those of `scores` and `advice`.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from numscope import amounts
from numscope.console import grid
from numscope.findings import is_lossless
from numscope.scores import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from numscope.scores import Score, Spread

#: A recipe's name is not folded to less where the rest of a table fits beside it.
_LEAST_OF_A_NAME = 12


def print_scores(console: Console, scores: Sequence[Score]) -> None:
    """Print a table per kind, all of the same widths: every recipe's worst and median layer.

    The number of the worst layer stands behind its value, as `L16`.
    """
    spreads = [
        _spread_cells(name, [each.spreads[i] for each in scores]) for i, name in enumerate(METRICS)
    ]
    beside = sum(2 + max(map(len, head.splitlines())) for head, _ in spreads) + len("  8.25")
    room = console.width - beside
    words = (word for each in scores for word in (each.recipe, *each.kind.split(" ")))
    longest = max(map(len, words), default=0)
    name_width = min(longest, room) if room >= _LEAST_OF_A_NAME else longest
    rows = list(zip(scores, *(cells for _, cells in spreads), strict=True))
    for kind, own in groupby(rows, lambda row: row[0].kind):
        table = grid()
        table.add_column(Text(kind.replace(" ", "\n")), overflow="fold")
        table.add_column("\nbits", justify="right", no_wrap=True)
        for head, _ in spreads:
            table.add_column(head, overflow="fold", no_wrap=room >= _LEAST_OF_A_NAME)
        for score, *cells in own:
            name = folded(score.recipe, name_width).ljust(name_width)
            table.add_row(Text(name), f"{score.bits:.3g}", *cells)
        console.print()
        console.print(table)


def folded(recipe: str, width: int) -> str:
    """The recipe's name in lines of that width, which end at colons and hyphens where they can.

    Examples
    --------
    >>> print(folded("float8_e5m2:1x128:power_of_two", 15))
    float8_e5m2:
    1x128:
    power_of_two
    """
    if len(recipe) <= width:
        return recipe
    return "\n".join(textwrap.wrap(recipe.replace(":", ": "), width)).replace(": ", ":")


def _spread_cells(metric: str, spreads: Sequence[Spread | None]) -> tuple[str, list[str]]:
    """The header of a metric's column and its cells: the worst value, its layer, the median."""
    parts = [
        (
            amounts.brief(metric, each.worst),
            "" if each.layer is None or is_lossless(metric, each.worst) else f"L{each.layer}",
            amounts.brief(metric, each.median),
        )
        if each
        else ("", "", "")
        for each in spreads
    ]
    wide, layer, median = (max(map(len, column)) for column in zip(*parts, strict=True))
    wide, median = max(wide, len("worst")), max(median, len("median"))
    cells = [f"{a:>{wide}} {b:<{layer}} {c:>{median}}" for a, b, c in parts]
    title = metric.replace("_db", ", dB")
    return f"{title}\n{'worst':>{wide}} {'':{layer}} {'median':>{median}}", cells
