"""What should not be there, or should: values clipped or beyond all, not finite, missing points.

These are counts, not statistics: one value is enough. Nothing here looks at a chart's shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numscope import amounts
from numscope.findings.finding import Finding, FindingKind, at, listed, of_layers, place
from numscope.findings.rhythm import expected
from numscope.series import subject, turned_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numscope.series import Series, XName
    from numscope.tables import LayerRow


def saturation(rows: Sequence[LayerRow], x_name: XName) -> list[Finding]:
    """A finding per recipe, kind and tile that clipped values to the largest element."""
    return _counted_by_tile(
        "saturation present",
        rows,
        x_name,
        count=lambda row: row.saturated_count,
        one="value is clipped to the largest finite element",
        many="values are clipped to the largest finite element",
        bonus=1.0,
    )


def overflow(rows: Sequence[LayerRow], x_name: XName) -> list[Finding]:
    """A finding per recipe, kind and tile that made finite values infinite or NaN."""
    return _counted_by_tile(
        "overflow present",
        rows,
        x_name,
        count=lambda row: row.overflow_count,
        one="finite value becomes infinite or NaN, which distortion and SQNR leave out",
        many="finite values become infinite or NaN, which distortion and SQNR leave out",
        bonus=8.0,
    )


def non_finite(rows: Sequence[LayerRow], x_name: XName) -> list[Finding]:
    """A finding per kind that holds NaN or infinite values, once for all tiles and recipes."""
    bad = [row for row in rows if row.nan_count or row.inf_count]
    groups: dict[tuple[str, str], list[LayerRow]] = {}
    for row in bad:
        groups.setdefault((row.recipe, row.kind), []).append(row)
    return [
        _counted(
            "non-finite present",
            [row for row in own if row.tile == own[0].tile],
            x_name,
            count=lambda row: row.nan_count + row.inf_count,
            one="value is NaN or infinite before it is quantized",
            many="values are NaN or infinite before they are quantized",
            bonus=8.0,
        )
        for own in groups.values()
    ]


def missing_points(
    tables: Sequence[Series], rows: Sequence[LayerRow], tiles: Mapping[str, str] | None = None
) -> list[Finding]:
    """What is not there: a finding for all subjects that miss the same points.

    A point is missing where other layers have one, where other charts have one that otherwise have
    much the same, and where the distance from one point to the next is twice the usual one or more.

    Parameters
    ----------
    tables
        Of one recipe.
    rows
        Of layers.csv; a point that has a row there is not missing, whatever its value.
    tiles
        As the tables were made with.
    """
    x_name = tables[0].x_name if tables else "tokens"
    turned = turned_tiles(rows, tiles)
    there = {
        (subject(row.kind, is_turned=key in turned), row.tile, _x(row, x_name), row.layer)
        for row in rows
        for key in [(row.recipe, row.kind, row.tile)]
    }
    subjects: dict[tuple[str, str], Series] = {}
    groups: dict[tuple[tuple[int, int], ...], list[Series]] = {}
    for table in tables:
        if subjects.setdefault((table.subject, table.tile), table) is table:
            groups.setdefault(tuple(_gaps(table, tables, there)), []).append(table)
    return [_missing(own, gaps) for gaps, own in groups.items() if gaps]


def _gaps(
    table: Series, tables: Sequence[Series], there: Collection[tuple[str, str, int, int | None]]
) -> list[tuple[int, int]]:
    """Every x and layer that has no value and should have one."""
    values = dict(zip(table.x, table.values, strict=True))
    nothing = (math.nan,) * len(table.layers)
    return [
        (x, layer)
        for x in expected(table.x, [each.x for each in tables])
        for layer, value in zip(table.layers, values.get(x, nothing), strict=True)
        if math.isnan(value) and (table.subject, table.tile, x, layer) not in there
    ]


def _missing(tables: Sequence[Series], gaps: Sequence[tuple[int, int]]) -> Finding:
    table = tables[0]
    layers = tuple(sorted({layer for _, layer in gaps}))
    first, last = gaps[0], gaps[-1]
    until = f", the last at {at(table.x_name, last[0])}" if last[0] > first[0] else ""
    total = len({*table.x, *(x for x, _ in gaps)}) * len(table.layers)
    subjects = listed([f"{each.subject} ({each.tile.replace('x', ',')})" for each in tables])
    return Finding(
        kind="missing points",
        recipe=table.recipe,
        chart=table.title,
        layer=first[1],
        **place(table, first[0]),
        value=float(len(gaps)),
        baseline=0.0,
        layers=layers,
        charts=tuple(each.title for each in tables),
        importance=-1.0 + len(gaps) / total,
        sentence=f"{subjects}: {len(gaps):,} of {total:,} points"
        f" {'are' if len(gaps) > 1 else 'is'} missing{' in each' if len(tables) > 1 else ''},"
        f" in {of_layers(layers)}, the first at {at(table.x_name, first[0])}{until}.",
    )


def _counted(
    kind: FindingKind,
    own: Sequence[LayerRow],
    x_name: XName,
    *,
    count: Callable[[LayerRow], int],
    one: str,
    many: str,
    bonus: float,
) -> Finding:
    """What a count says: how many there are, where first, and where most."""
    most = max(own, key=lambda row: count(row) / max(1, row.count))
    first = min(own, key=lambda row: _x(row, x_name))
    total = sum(count(row) for row in own)
    share = count(most) / max(1, most.count)
    layers = tuple(sorted({row.layer for row in own if row.layer is not None}))
    subject = f"{most.kind.replace('_', ' ')} ({most.tile.replace('x', ',')})"
    return Finding(
        kind=kind,
        recipe=most.recipe,
        chart=subject,
        layer=most.layer,
        **{x_name: _x(first, x_name)},
        value=share,
        baseline=0.0,
        layers=layers,
        charts=(subject,),
        importance=bonus + math.log10(max(share, 1e-12)) / 4,
        sentence=f"{subject}: {amounts.counted(total, one, many)}, in {of_layers(layers)}, first at"
        f" {at(x_name, _x(first, x_name))}; most in layer {most.layer} at"
        f" {at(x_name, _x(most, x_name))}, a share of {amounts.share(share)}.",
    )


def _counted_by_tile(
    kind: FindingKind,
    rows: Sequence[LayerRow],
    x_name: XName,
    *,
    count: Callable[[LayerRow], int],
    **words: Any,
) -> list[Finding]:
    """What a count says of each recipe, kind and tile that has any; `words` as for `_counted`."""
    groups: dict[tuple[str, str, str], list[LayerRow]] = {}
    for row in rows:
        if count(row):
            groups.setdefault((row.recipe, row.kind, row.tile), []).append(row)
    return [_counted(kind, own, x_name, count=count, **words) for own in groups.values()]


def _x(row: LayerRow, x_name: XName) -> int:
    return (row.tokens if x_name == "tokens" else row.step) or 0
