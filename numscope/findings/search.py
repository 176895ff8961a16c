"""From a run's tables to what stands out in them, ranked; nothing is read, printed or drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numscope.findings import moments, presence, trends
from numscope.findings.finding import Finding, least_difference, listed
from numscope.findings.lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numscope.series import Series
    from numscope.tables import LayerRow

#: Kinds that say nothing about a chart's shape.
_COUNTS = {"saturation present", "non-finite present", "missing points"}
#: Values that go so many times as far as is worth a word are not called flat.
_RESTLESS = 50


def find(tables: Sequence[Series], rows: Sequence[LayerRow] = ()) -> list[Finding]:
    """Everything that stands out in the charts of one run, the most important first.

    The charts in which nothing does are named by one finding of the kind `flat`, the last one.

    Parameters
    ----------
    tables
        The charts' tables, of one or several recipes.
    rows
        Of layers.csv, for what no chart shows: saturated and non-finite values.
    """
    found: list[Finding] = []
    for recipe in dict.fromkeys(table.recipe for table in tables):
        own = [table for table in tables if table.recipe == recipe]
        found += _shapes(own)
        found += presence.missing_points(own, [row for row in rows if row.recipe == recipe])
    if tables:
        known = [row for row in rows if row.layer is not None]
        found += presence.saturation(known, tables[0].x_name)
        found += presence.non_finite(known, tables[0].x_name)
    found.sort(key=lambda each: -each.importance)
    return found + _flat(tables, found)


def _shapes(tables: Sequence[Series]) -> list[Finding]:
    lines = lines_of(tables)
    extremes = moments.extremes(lines)
    groups = moments.moments(extremes, max((len(table.x) for table in tables), default=0))
    return [
        *moments.common_moments(groups),
        *moments.peaks_and_dips(groups),
        *trends.shifts(lines),
        *trends.drifts(lines),
        *trends.depth_trends(lines, extremes),
        *trends.outlier_layers(lines),
    ]


def _flat(tables: Sequence[Series], found: Sequence[Finding]) -> list[Finding]:
    """The finding that names the charts without one, if there are any."""
    shown = {
        (each.recipe, chart) for each in found if each.kind not in _COUNTS for chart in each.charts
    }
    silent = [table for table in tables if (table.recipe, table.title) not in shown]
    flat = [table for table in silent if len(silent) == len(tables) or not _is_restless(table)]
    if not flat:
        return []
    titles = list(dict.fromkeys(table.title for table in flat))
    where = "" if len(flat) == len(tables) else f" in {listed(titles)}"
    return [
        Finding(
            kind="flat",
            recipe=flat[0].recipe,
            charts=tuple(titles),
            importance=-math.inf,
            sentence=f"nothing stands out{where}.",
        )
    ]


def _is_restless(table: Series) -> bool:
    """Whether the values move so much that no one would call them flat, be it mere noise."""
    known = [value for values in table.values for value in values if math.isfinite(value)]
    return bool(known) and max(known) - min(known) > _RESTLESS * least_difference(table.metric)
