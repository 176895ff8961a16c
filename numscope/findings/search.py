"""From a run's tables to what stands out in them, ranked; nothing is read, printed or drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numscope.findings import moments, presence, trends
from numscope.findings.finding import Finding, FindingKind, least_difference, listed
from numscope.findings.lines import FEWEST_POINTS, lines_of
from numscope.findings.worst import levels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numscope.series import Series
    from numscope.tables import LayerRow

#: Kinds that say nothing about a chart's shape.
_COUNTS = {"saturation present", "overflow present", "non-finite present", "missing points"}
#: Values that go so many times as far as is worth a word are called restless, not flat.
_RESTLESS = 50


def find(
    tables: Sequence[Series],
    rows: Sequence[LayerRow] = (),
    tiles: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Everything that stands out in the charts of one run, the most important first.

    The charts in which nothing does are named, with how much they lose, by one finding per recipe
    of a kind that is `SILENT`; these are the last.

    Parameters
    ----------
    tables
        The charts' tables, of one or several recipes.
    rows
        Of layers.csv, for what no chart shows: saturated, overflowing and non-finite values.
    tiles
        The recipes' own tiles, as the tables were made with; see `series.turned_tiles`.
    """
    found: list[Finding] = []
    for recipe in dict.fromkeys(table.recipe for table in tables):
        own = [table for table in tables if table.recipe == recipe]
        found += _shapes(own)
        known = [row for row in rows if row.recipe == recipe]
        found += presence.missing_points(own, known, tiles)
    if tables:
        known = [row for row in rows if row.layer is not None]
        found += presence.saturation(known, tables[0].x_name)
        found += presence.overflow(known, tables[0].x_name)
        found += presence.non_finite(known, tables[0].x_name)
    found.sort(key=lambda each: -each.importance)
    for recipe in dict.fromkeys(table.recipe for table in tables):
        own = [table for table in tables if table.recipe == recipe]
        found += _silent(own, [each for each in found if each.recipe == recipe])
    return found


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


def _silent(tables: Sequence[Series], found: Sequence[Finding]) -> list[Finding]:
    """What is said of those charts of one recipe that nothing was found in: what they lose."""
    shown = {chart for each in found if each.kind not in _COUNTS for chart in each.charts}
    silent = [table for table in tables if table.title not in shown]
    few = [table for table in silent if _points(table) < FEWEST_POINTS]
    restless = [table for table in silent if table not in few and _is_restless(table)]
    flat = [table for table in silent if table not in few and table not in restless]
    other = "else " if any(each.kind in _COUNTS for each in found) else ""
    usual = f"{other}strays from the usual in"
    most = max(map(_points, few), default=0)
    return [
        *_about("flat", flat, f"nothing {usual} {{}}."),
        *_about("restless", restless, "values vary, but nothing stands apart from that, in {}."),
        *_about(
            "too few points",
            few,
            f"too few points to tell what {usual} {{}}: at most {most} per layer, and"
            f" {FEWEST_POINTS} are needed.",
        ),
    ]


def _about(kind: FindingKind, own: Sequence[Series], sentence: str) -> list[Finding]:
    """One finding about all of these charts, with their levels; none if there are none."""
    if not own:
        return []
    return [
        Finding(
            kind=kind,
            recipe=own[0].recipe,
            charts=tuple(table.title for table in own),
            importance=-math.inf,
            sentence=sentence.format(listed([f"{each.title} ({levels(each)})" for each in own])),
        )
    ]


def _points(table: Series) -> int:
    """How many points its longest line has."""
    known = (map(math.isfinite, values) for values in table.values)
    return max(map(sum, zip(*known, strict=True)), default=0)


def _is_restless(table: Series) -> bool:
    """Whether the values move so much that no one would call them flat, be it mere noise."""
    known = [value for values in table.values for value in values if math.isfinite(value)]
    return bool(known) and max(known) - min(known) > _RESTLESS * least_difference(table.metric)
