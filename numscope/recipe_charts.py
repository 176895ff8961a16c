"""Recipes side by side: what each loses by layer, and what that takes in bits per value.

Draws a `Tradeoff`, never computes and never saves. A recipe has its colour, marker and line in all
panels, and its name at the right, beside its point in the last one.
"""

from __future__ import annotations

import math
from itertools import cycle, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.lines import Line2D

from numscope.axes import fit_x, fit_y, measure_of, say_no_data
from numscope.palette import colours
from numscope.spacing import apart, groups_of
from numscope.styles import STYLES, StyleName, new_figure, shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from numscope.tradeoffs import Losses, Tradeoff

_Dashes = str | tuple[float, tuple[float, ...]]

#: Inches: a panel, what its labels need, and what is around all of them.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 3.7, 3.5, 0.92, 0.16, 0.40, 0.54
#: Inches: between the last panel and the names, if there are many; a sample of the line, and the
#: gap behind it.
_FAN, _WIDE_FAN, _SAMPLE, _GAP = 0.42, 0.75, 0.32, 0.08
#: Points, and inches from one name to the next; how much of both ends of a long name is shown.
_FONT_SIZE, _ROW, _HEAD, _TAIL = 8.0, 0.148, 23, 24

_BAND = "#f5f5f5"

#: Together 36 that differ, neighbours in both.
_MARKERS = "osD^vPX<>"
_DASHES: tuple[_Dashes, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
#: So many marks a line has at most, unless there are few recipes and layers.
_MOST_MARKS, _FEW_RECIPES, _FEW_LAYERS = 6, 12, 20
#: So many layers have ticks of their own if they are far enough from each other.
_MOST_TICKS = 13
#: In a layer that is alone, between recipes at most.
_DODGE = 0.1


class _Look(NamedTuple):
    """How a recipe is drawn."""

    colour: str
    marker: str
    dashes: _Dashes


def recipe_chart(table: Tradeoff, *, style: StyleName = "screen", dpi: int | None = None) -> Figure:
    """Three panels: distortion loss by layer, underflow by layer, and loss against bits per value.

    All axes of losses are logarithmic, with a linear foot for 0. In the last panel a point is the
    layer in the middle, and the bar ends at the worst layer; recipes of equally many bits stand
    side by side, for which numbers of bits make room. The figure is as high as the names of the
    recipes need, and as wide.

    Parameters
    ----------
    table
        What to draw. Where a value is missing, its line has a gap.
    style, dpi
        One of `STYLES`, and its resolution unless that is given.
    """
    names = [shown_name(each.recipe, _HEAD, _TAIL) for each in table.entries]
    height = max(_HEIGHT, _ROW * len(names))
    looks = _looks(len(names))
    with rc_context(STYLES[style].settings):
        size = (_names_at(len(names)), height + _TOP + _BOTTOM)
        figure = new_figure(size, style, dpi)
        size = (size[0] + _widest(figure, names) + _RIGHT, size[1])
        figure.set_size_inches(size)
        panels = [
            figure.add_axes(
                (
                    (_LEFT + i * (_LEFT + _WIDTH + _RIGHT)) / size[0],
                    _BOTTOM / size[1],
                    _WIDTH / size[0],
                    height / size[1],
                )
            )
            for i in range(3)
        ]
        losses = [each.loss for each in table.entries]
        flushed = [each.underflow for each in table.entries]
        what = f"{table.subject} {table.metric.replace('_', ' ')}"
        _draw_lines(panels[0], table.layers, losses, looks, table.metric)
        panels[0].set_title(what, pad=8)
        _draw_lines(panels[1], table.layers, flushed, looks, "underflow")
        panels[1].set_title(f"{table.subject} underflow", pad=8)
        bits = [each.bits for each in table.entries]
        places = _draw_points(panels[2], bits, losses, looks, table.metric)
        panels[2].set_title(f"{what} by bits", pad=8)
        _add_names(figure, panels[2], names, places, looks)
    return figure


def _names_at(count: int) -> float:
    """Where the names begin, in inches from the left."""
    return 3 * (_LEFT + _WIDTH + _RIGHT) + (_FAN if count <= _FEW_RECIPES else _WIDE_FAN)


def _widest(figure: Figure, names: Sequence[str]) -> float:
    """The inches that a sample of a line and the longest name take."""
    text = figure.text(0, 0, "", fontsize=_FONT_SIZE)
    widths = []
    for name in names:
        text.set_text(name)
        widths.append(text.get_window_extent().width / figure.dpi)
    text.remove()
    return _SAMPLE + _GAP + max(widths)


def _looks(count: int) -> list[_Look]:
    markers, dashes = islice(cycle(_MARKERS), count), islice(cycle(_DASHES), count)
    looks = zip(colours(count), markers, dashes, strict=True)
    return [_Look(colour, marker, dash) for colour, marker, dash in looks]


def _draw_lines(
    axes: Axes,
    layers: Sequence[int],
    losses: Sequence[Losses],
    looks: Sequence[_Look],
    metric: str,
) -> None:
    """A line per recipe; of a single layer, points beside each other."""
    x = np.array(layers, dtype=np.float64)
    y = np.array([each.values for each in losses], dtype=np.float64)
    is_single = len(x) == 1
    dodge = min(_DODGE, 0.8 / len(y)) * is_single
    beside = dodge * (np.arange(len(y)) - (len(y) - 1) / 2)
    is_few = len(y) <= _FEW_RECIPES and len(x) <= _FEW_LAYERS
    every = 1 if is_few else max(1, math.ceil(len(x) / _MOST_MARKS))
    for i, look in enumerate(looks):
        axes.plot(
            x + beside[i],
            y[i],
            color=look.colour,
            linestyle=look.dashes,
            linewidth=1.3 if len(y) <= _FEW_RECIPES else 0.9,
            marker=look.marker,
            markersize=4.2 if len(y) <= _FEW_RECIPES else 3.4,
            markevery=(i % every, every),
            markeredgewidth=0,
            clip_on=False,
            zorder=3,
        )
    axes.set_xlabel("layer")
    axes.set_ylabel(measure_of(metric).label)
    axes.grid(axis="y")
    if is_single:
        axes.set_xlim(x[0] - 0.6, x[0] + 0.6)
        axes.set_xticks(x, [str(layers[0])])
    else:
        fit_x(axes, x, whole=True)
        _name_layers(axes, layers)
    _fit(axes, y, metric)


def _name_layers(axes: Axes, layers: Sequence[int]) -> None:
    """Ticks at the layers themselves where they are few and apart."""
    least = (layers[-1] - layers[0]) / _MOST_TICKS
    if all(b - a >= least for a, b in pairwise(layers)):
        axes.set_xticks(list(layers), [str(layer) for layer in layers])


def _fit(axes: Axes, y: NDArray[np.float64], metric: str) -> None:
    """A logarithmic axis for the values, from 0 if there is a 0."""
    fit_y(axes, y.ravel(), measure_of(metric), "log")
    if np.isnan(y).all():
        say_no_data(axes)


def _draw_points(
    axes: Axes,
    bits: Sequence[float],
    losses: Sequence[Losses],
    looks: Sequence[_Look],
    metric: str,
) -> list[tuple[float, float]]:
    """A point and a bar per recipe; the points' places."""
    x, groups = groups_of(bits, _WIDTH)
    median = [each.median for each in losses]
    worst = [each.worst for each in losses]
    _fit(axes, np.array([each.values for each in losses]), metric)
    for i, look in enumerate(looks):
        ends = [x[i], x[i]], [median[i], worst[i]]
        axes.plot(*ends, color=look.colour, linewidth=1.4, alpha=0.55, zorder=3, clip_on=False)
        axes.plot(
            x[i], worst[i], marker="_", markersize=5, color=look.colour, zorder=3, clip_on=False
        )
        axes.plot(
            x[i],
            median[i],
            marker=look.marker,
            markersize=5.6,
            color=look.colour,
            markeredgecolor="white",
            markeredgewidth=0.4,
            zorder=4,
            clip_on=False,
        )
    for group in groups:
        axes.axvspan(*group.span, color=_BAND, linewidth=0, zorder=0)
    axes.set_xlim(0, _WIDTH)
    axes.set_xticks([sum(group.span) / 2 for group in groups], [group.label for group in groups])
    axes.set_xlabel("bits per value")
    axes.set_ylabel(f"{measure_of(metric).label}: median layer, bar to the worst")
    axes.grid(axis="y")
    return list(zip(x, median, strict=True))


def _add_names(
    figure: Figure,
    axes: Axes,
    names: Sequence[str],
    places: Sequence[tuple[float, float]],
    looks: Sequence[_Look],
) -> None:
    """Each recipe's name and a sample of its line at the height of its point, with a thread to it.

    Names that would cover each other are moved up and down, as little as need be.
    """
    width, height = figure.get_size_inches()
    points = axes.transData.transform(places) / figure.dpi  # in inches from below, at the left
    top = height - _TOP
    at = [top if math.isnan(y) else y for y in points[:, 1]]
    order = sorted(range(len(at)), key=lambda i: (at[i], -i))
    rows = apart([at[i] for i in order], [_ROW] * len(order), _BOTTOM, top)
    edge, start = 3 * (_LEFT + _WIDTH + _RIGHT) - _RIGHT, _names_at(len(names))
    for i, y in zip(order, rows, strict=True):
        look = looks[i]
        if not np.isnan(points[i, 1]):
            thread = [points[i, 0], edge, start], [points[i, 1], points[i, 1], y]
            _line(figure, *thread, color=look.colour, linewidth=0.5, alpha=0.5)
        sample = [start, start + _SAMPLE / 2, start + _SAMPLE]
        _line(
            figure,
            sample,
            [y] * 3,
            color=look.colour,
            linestyle=look.dashes,
            linewidth=1.3,
            marker=look.marker,
            markersize=4.4,
            markeredgewidth=0,
            markevery=[1],
        )
        figure.text(
            (start + _SAMPLE + _GAP) / width,
            y / height,
            names[i],
            fontsize=_FONT_SIZE,
            va="center_baseline",
        )


def _line(figure: Figure, x: Sequence[float], y: Sequence[float], **look: object) -> None:
    """A line through places in inches."""
    width, height = figure.get_size_inches()
    line = Line2D(np.array(x) / width, np.array(y) / height, **look)  # type: ignore[arg-type]
    line.set_transform(figure.transFigure)
    figure.add_artist(line)
