"""What should not be there, or should: saturated and non-finite values, missing points.

These are counts, not statistics: one value is enough. Nothing here looks at a chart's shape.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numscope import amounts
from numscope.findings.finding import Finding, at, of_layers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numscope.series import Series, XName
    from numscope.tables import LayerRow


def saturation(rows: Sequence[LayerRow], x_name: XName) -> list[Finding]:
    """A finding per recipe, kind and tile that clipped values to the largest element."""
    return [
        _counted(
            "saturation present",
            own,
            x_name,
            count=lambda row: row.saturated_count,
            what="values are clipped to the largest finite element",
            bonus=1.0,
        )
        for own in _groups(row for row in rows if row.saturated_count)
    ]


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
            what="values are NaN or infinite before they are quantized",
            bonus=8.0,
        )
        for own in groups.values()
    ]


def missing_points(tables: Sequence[Series], rows: Sequence[LayerRow]) -> list[Finding]:
    """A finding per recipe and subject in which some layer has no tensor where others have one."""
    x_name = tables[0].x_name if tables else "tokens"
    there = {(row.recipe, row.tile, _x(row, x_name), row.layer) for row in rows}
    findings = []
    seen = set()
    for table in tables:
        key = (table.recipe, table.subject, table.tile)
        if key in seen:
            continue
        seen.add(key)
        gaps = [
            (x, layer)
            for x, values in zip(table.x, table.values, strict=True)
            for layer, value in zip(table.layers, values, strict=True)
            if math.isnan(value) and (not rows or (*key[::2], x, layer) not in there)
        ]
        if gaps:
            findings.append(_missing(table, gaps))
    return findings


def _missing(table: Series, gaps: Sequence[tuple[int, int]]) -> Finding:
    layers = tuple(sorted({layer for _, layer in gaps}))
    first = gaps[0]
    total = len(table.x) * len(table.layers)
    return Finding(
        kind="missing points",
        recipe=table.recipe,
        chart=table.title,
        layer=first[1],
        **{table.x_name: first[0]},
        value=float(len(gaps)),
        baseline=0.0,
        layers=layers,
        charts=(table.title,),
        importance=-1.0 + len(gaps) / total,
        sentence=f"{table.subject} ({table.tile.replace('x', ',')}): {len(gaps):,} of {total:,}"
        f" points {'are' if len(gaps) > 1 else 'is'} missing, in {of_layers(layers)},"
        f" the first at {at(table.x_name, first[0])}.",
    )


def _counted(
    kind: Any,
    own: Sequence[LayerRow],
    x_name: XName,
    *,
    count: Callable[[LayerRow], int],
    what: str,
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
        sentence=f"{subject}: {total:,} {what}, in {of_layers(layers)}, first at"
        f" {at(x_name, _x(first, x_name))}; most in layer {most.layer} at"
        f" {at(x_name, _x(most, x_name))}, a share of {amounts.share(share)}.",
    )


def _groups(rows: Any) -> list[list[LayerRow]]:
    groups: dict[tuple[str, str, str], list[LayerRow]] = {}
    for row in rows:
        groups.setdefault((row.recipe, row.kind, row.tile), []).append(row)
    return list(groups.values())


def _x(row: LayerRow, x_name: XName) -> int:
    return (row.tokens if x_name == "tokens" else row.step) or 0
