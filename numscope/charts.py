"""Series become matplotlib figures, and figures become files' contents: PNG, SVG or PDF.

Draws, never computes and never writes a file. Axes are set in `axes`, the legend in `legend`,
colours come from `palette`. Nothing here touches pyplot or leaves matplotlib's settings changed.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from numscope.axes import XScale, YScale, fit_x, fit_y, measure_of, say_no_data
from numscope.legend import MOST_ENTRIES, add_legend
from numscope.palette import colours
from numscope.styles import (
    STYLES,
    Format,
    StyleName,
    new_figure,
    render,
    shown_name,
    unit_of,
    x_label,
)
from numscope.views import selected

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from numpy.typing import NDArray

    from numscope.amounts import Unit
    from numscope.series import Series

__all__ = ["Format", "Mark", "chart", "overview", "render"]

#: Inches: one chart, a column and a row of the overview, and what labels need around the axes.
_CHART = (6.4, 4.2)
_CELL = (16 / 3, 4.5)
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.92, 0.26, 0.40, 0.54
#: Inches above charts side by side, for the runs' names, and how many letters at the end are shown.
_NAMES, _TAIL = 0.25, 60

#: Where a mark's number may stand, in points from its own.
_OFFSETS = tuple(
    (x * far, y * far) for far in (1, 2) for x, y in ((10, 5), (-10, 5), (10, -7), (-10, -7))
)

#: Up to this many points, each is marked, so that one sees when something was measured.
_MOST_MARKED = 30
#: From this many points on, lines are thin.
_MANY_POINTS = 300


class Mark(NamedTuple):
    """A number beside a point, in the table's own x: where a finding is."""

    number: int
    x: int
    y: float


def chart(
    table: Series,
    *,
    yscale: YScale = "linear",
    xscale: XScale = "linear",
    layers: Collection[int] | None = None,
    raw: Series | None = None,
    marks: Sequence[Mark] = (),
    style: StyleName = "screen",
    dpi: int | None = None,
) -> Figure:
    """One chart, 6.4 x 4.2 inches: a line per layer, the last one on top.

    Parameters
    ----------
    table
        What to draw. Where a value is missing or not finite, its line has a gap.
    yscale
        `log` shows zeros at the foot of the axis, below a short linear part. The axis of a cosine,
        such as distortion, stays linear.
    xscale
        `log` shows 0 at the start of the axis.
    layers
        Which layers to draw, all unless given; those that the table does not have are left out.
    raw
        The same table before it was smoothed, to be drawn faintly behind.
    marks
        What to point at.
    style, dpi
        One of `STYLES`, and its resolution unless that is given.
    """
    chosen = selected(table, layers)
    with rc_context(STYLES[style].settings):
        figure = new_figure(_CHART, style, dpi)
        axes = _add_axes(figure, 0.0, 0.0, _CHART)
        shades, unit = _shades([chosen]), unit_of([chosen])
        _draw(axes, chosen, shades, unit, (xscale, yscale), raw and selected(raw, layers))
        _add_marks(axes, marks, unit)
    return figure


def overview(
    tables: Sequence[Series],
    *,
    yscale: YScale = "linear",
    xscale: XScale = "linear",
    layers: Collection[int] | None = None,
    raw: Sequence[Series] = (),
    marks: Sequence[Sequence[Mark]] = (),
    style: StyleName = "screen",
    dpi: int | None = None,
) -> Figure:
    """All charts of one recipe in a grid, 16 x 9 inches for three columns and two rows.

    A row per metric and a column per subject, in the order in which they first appear; the place of
    a chart that does not exist stays empty. A layer has the same colour everywhere.

    Parameters
    ----------
    tables
        At least one.
    yscale, xscale, layers, style, dpi
        As in `chart`.
    raw, marks
        One per table, or none; as in `chart`.
    """
    chosen = [selected(table, layers) for table in tables]
    behind = [selected(table, layers) for table in raw]
    rows = list(dict.fromkeys(table.metric for table in chosen))
    columns = list(dict.fromkeys(_column(table) for table in chosen))
    shades, unit = _shades(chosen), unit_of(chosen)
    width, height = _CELL
    with rc_context(STYLES[style].settings):
        figure = new_figure((width * len(columns), height * len(rows)), style, dpi)
        for table, faint, own in zip_longest(chosen, behind, marks):
            left = width * columns.index(_column(table))
            bottom = height * (len(rows) - 1 - rows.index(table.metric))
            axes = _add_axes(figure, left, bottom, _CELL)
            _draw(axes, table, shades, unit, (xscale, yscale), faint)
            _add_marks(axes, own or (), unit)
    return figure


def side_by_side(tables: Sequence[Series], names: Sequence[str]) -> Figure:
    """The same chart of several runs, with equal axes and colours, and each run's name above it."""
    shades, unit = _shades(tables), unit_of(tables)
    width, height = _CELL
    with rc_context(STYLES["screen"].settings):
        figure = new_figure((width * len(tables), height + _NAMES), "screen", None)
        panels = []
        for i, (table, name) in enumerate(zip(tables, names, strict=True)):
            axes = _add_axes(figure, i * width, 0.0, _CELL)
            others = [other for other in tables if other is not table]
            _draw(axes, table, shades, unit, ("linear", "linear"), None, frame=others)
            place = (i + 0.5) / len(tables), 1 - 0.06 / (height + _NAMES)
            shown = shown_name(name, head=0, tail=_TAIL)
            figure.text(*place, shown, ha="center", va="top", fontsize=9.5)
            panels.append(axes)
        top = max(axes.get_ylim()[1] for axes in panels)
        for axes in panels:
            axes.set_ylim(top=top)
    return figure


def _column(table: Series) -> tuple[str, str, str]:
    return table.recipe, table.subject, table.tile


def _shades(tables: Sequence[Series]) -> dict[int, str]:
    """A colour for every layer that is in any of the tables."""
    layers = sorted({layer for table in tables for layer in table.layers})
    return dict(zip(layers, colours(len(layers)), strict=True))


def _add_axes(figure: Figure, left: float, bottom: float, cell: tuple[float, float]) -> Axes:
    """Axes in the cell at (`left`, `bottom`) of size `cell`, in inches, with room for labels."""
    width, height = figure.get_size_inches()
    inner = cell[0] - _LEFT - _RIGHT, cell[1] - _TOP - _BOTTOM
    axes = figure.add_axes(
        ((left + _LEFT) / width, (bottom + _BOTTOM) / height, inner[0] / width, inner[1] / height)
    )
    axes.yaxis.set_label_coords((0.26 - _LEFT) / inner[0], 0.5)
    return axes


def _draw(
    axes: Axes,
    table: Series,
    shades: Mapping[int, str],
    unit: Unit,
    scales: tuple[XScale, YScale],
    raw: Series | None,
    *,
    frame: Sequence[Series] = (),
) -> None:
    """Draw one table: its lines, its axes that have room for `frame` too, and the legend above."""
    measure = measure_of(table.metric)
    x, y = _arrays(table, unit)
    seen = [y, *(_arrays(each, unit)[1] for each in frame)]
    for j, layer in enumerate(table.layers):
        _line(axes, x, y[:, j], layer, shades[layer], is_thin=len(table.layers) > MOST_ENTRIES)
    if raw is not None:
        x_behind, behind = _arrays(raw, unit)
        seen.append(behind)
        for j, layer in enumerate(raw.layers):
            _faint_line(axes, x_behind, behind[:, j], shades[layer])
    axes.set_title(table.title, pad=8)
    axes.set_xlabel(x_label(table, unit))
    axes.set_ylabel(measure.label)
    axes.grid(axis="y")
    all_x = np.unique(np.concatenate([x, *(_arrays(each, unit)[0] for each in frame)]))
    fit_x(axes, all_x, whole=unit.factor == 1, xscale=scales[0])
    fit_y(axes, np.concatenate([each.ravel() for each in seen]), measure, scales[1])
    if np.isnan(y).all():
        say_no_data(axes)
    if table.layers:
        highest = y if raw is None else np.fmax(y, behind)
        add_legend(axes, x, highest, table.layers)


def _arrays(table: Series, unit: Unit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of x in its unit, shape (points,), and the values, shape (points, layers); NaN for a gap."""
    x = np.array(table.x, dtype=np.float64) / unit.factor
    y = np.array(table.values, dtype=np.float64).reshape(len(x), len(table.layers))
    y[~np.isfinite(y)] = np.nan
    return x, y


def _faint_line(axes: Axes, x: NDArray[Any], y: NDArray[Any], shade: str) -> None:
    axes.plot(x, y, color=shade, alpha=0.3, linewidth=0.7, label="_raw", clip_on=False, zorder=2)


def _add_marks(axes: Axes, marks: Sequence[Mark], unit: Unit) -> None:
    """A ring around each point, and its number beside it where it covers no other number."""
    placed: list[Text] = []
    for mark in marks:
        at = mark.x / unit.factor, mark.y
        axes.plot(
            *at,
            marker="o",
            markersize=9,
            markerfacecolor="none",
            markeredgecolor="#c1121f",
            markeredgewidth=1.1,
            linestyle="",
            label="_mark",
            clip_on=False,
            zorder=6,
        )
        for offset in _OFFSETS:
            label = axes.annotate(
                str(mark.number),
                at,
                offset,
                textcoords="offset points",
                ha="center",
                va="center",
                color="#c1121f",
                fontsize=8,
                fontweight="bold",
                zorder=6,
            )
            box = label.get_window_extent()
            inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
            if inside and not any(box.overlaps(other.get_window_extent()) for other in placed):
                break
            if offset != _OFFSETS[-1]:
                label.remove()
        placed.append(label)


def _line(
    axes: Axes, x: NDArray[Any], y: NDArray[Any], layer: int, shade: str, *, is_thin: bool
) -> None:
    """One layer's line. A point without neighbours is marked, so that one sees it."""
    present = np.pad(~np.isnan(y), 1)
    is_lonely = present[1:-1] & ~present[:-2] & ~present[2:]
    marked = np.flatnonzero(present[1:-1] if len(x) <= _MOST_MARKED else is_lonely)
    axes.plot(
        x,
        y,
        color=shade,
        label=str(layer),
        linewidth=(0.7 if is_thin else 1.0) if len(x) > _MANY_POINTS else 1.4,
        solid_joinstyle="round",
        marker="o" if marked.size else "",
        markevery=marked.tolist(),
        markersize=2.4 if is_thin else 3.4,
        markeredgewidth=0,
        clip_on=False,
        zorder=3,
    )
