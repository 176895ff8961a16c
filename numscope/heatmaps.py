"""A chart's table as a heatmap, layer × tokens, for runs of many layers; and in small multiples.

Both draw, never compute. Colours go evenly from light (little is lost) to dark (much).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator

from numscope.axes import YScale, fit_x, fit_y, measure_of, say_no_data
from numscope.findings.finding import worse
from numscope.palette import colours
from numscope.styles import STYLES, StyleName, new_figure, unit_of, x_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from numscope.series import Series

_SIZE = (6.4, 4.2)
#: Inches: a cell of the small multiples, and what is around all of them.
_CELL, _LEFT, _RIGHT, _TOP, _BOTTOM = (1.55, 1.1), 0.85, 0.15, 0.42, 0.42
_MISSING = "#ffffff"
_MOST_LABELS = 13


def heatmap(
    table: Series,
    *,
    yscale: YScale = "linear",
    style: StyleName = "screen",
    dpi: int | None = None,
) -> Figure:
    """A cell per value, its colour the value: x to the right, layers upwards.

    Parameters
    ----------
    table
        What to draw; white where there is no value.
    yscale
        The scale of the colours. A logarithmic one starts at the smallest positive value.
    style, dpi
        One of `STYLES`, and its resolution unless that is given.
    """
    unit, measure = unit_of([table]), measure_of(table.metric)
    scale: YScale = "log" if measure.is_log else yscale
    x = np.array(table.x, dtype=np.float64) / unit.factor
    values = np.array(table.values, dtype=np.float64).reshape(len(x), len(table.layers)).T
    values = np.where(np.isfinite(values), values, np.nan)
    with rc_context(STYLES[style].settings):
        figure = new_figure(_SIZE, style, dpi)
        width, height = _SIZE
        axes = figure.add_axes((0.92 / width, 0.54 / height, 4.3 / width, 3.26 / height))
        axes.set_title(table.title, pad=8)
        axes.set_xlabel(x_label(table, unit))
        axes.set_ylabel("layer")
        axes.set_facecolor(_MISSING)
        if np.isnan(values).all():
            say_no_data(axes)
            axes.set_xticks([])
            axes.set_yticks([])
            return figure
        cells = axes.pcolormesh(
            _edges(x),
            np.arange(len(table.layers) + 1) - 0.5,
            values,
            cmap="cividis_r" if worse(table.metric) > 0 else "cividis",
            norm=_norm(values, scale),
            rasterized=True,
        )
        fit_x(axes, x, whole=unit.factor == 1)
        axes.set_xlim(*_edges(x)[[0, -1]])
        _name_layers(axes, table.layers)
        bar_axes = figure.add_axes((5.34 / width, 0.54 / height, 0.14 / width, 3.26 / height))
        bar = figure.colorbar(cells, cax=bar_axes)
        bar.set_label(measure.label)
        if scale == "linear":
            bar.locator = MaxNLocator(6)
            bar.formatter.set_useOffset(False)  # type: ignore[attr-defined]
            bar.update_ticks()
        bar.outline.set_linewidth(0.5)
    return figure


def multiples(
    table: Series,
    *,
    yscale: YScale = "linear",
    style: StyleName = "screen",
    dpi: int | None = None,
) -> Figure:
    """A small chart per layer, all of one scale, each with all other layers faintly behind it.

    The parameters are those of `heatmap`.
    """
    unit, measure = unit_of([table]), measure_of(table.metric)
    x = np.array(table.x, dtype=np.float64) / unit.factor
    y = np.array(table.values, dtype=np.float64).reshape(len(x), len(table.layers))
    y[~np.isfinite(y)] = np.nan
    count = max(1, len(table.layers))
    columns = min(count, max(3, math.ceil(math.sqrt(1.2 * count))))
    rows = math.ceil(count / columns)
    size = _LEFT + max(2, columns) * _CELL[0] + _RIGHT, _BOTTOM + rows * _CELL[1] + _TOP
    with rc_context(STYLES[style].settings):
        figure = new_figure(size, style, dpi)
        figure.suptitle(table.title, y=1 - 0.16 / size[1], va="top", fontsize=11)
        figure.supxlabel(x_label(table, unit), y=0.04 / size[1], va="bottom", fontsize=9.5)
        figure.supylabel(measure.label, x=0.1 / size[0], ha="left", fontsize=9.5)
        shades = colours(len(table.layers)) if table.layers else []
        for i, layer in enumerate(table.layers):
            row, column = divmod(i, columns)
            left = _LEFT + column * _CELL[0]
            bottom = _BOTTOM + (rows - 1 - row) * _CELL[1]
            axes = figure.add_axes(
                (
                    left / size[0],
                    bottom / size[1],
                    (_CELL[0] - 0.12) / size[0],
                    (_CELL[1] - 0.3) / size[1],
                )
            )
            _small(axes, x, y, i, shades[i])
            axes.set_title(f"layer {layer}", loc="left", fontsize=8, pad=2)
            fit_x(axes, x, whole=unit.factor == 1)
            fit_y(axes, y, measure, yscale)
            is_lowest = i + columns >= count
            _few_ticks(axes, has_x=is_lowest, has_y=column == 0)
    return figure


def _small(axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], i: int, shade: str) -> None:
    others = np.delete(y, i, axis=1)
    axes.plot(x, others, color="#d4d4d4", linewidth=0.4, zorder=1, rasterized=True)
    axes.plot(x, y[:, i], color=shade, linewidth=1.2, zorder=2, marker="o" if len(x) == 1 else "")


def _few_ticks(axes: Axes, *, has_x: bool, has_y: bool) -> None:
    """The first and the last tick of an axis, with labels at the outer charts only."""
    axes.tick_params(labelsize=7, length=2, pad=2)
    for axis, has_labels in ((axes.xaxis, has_x), (axes.yaxis, has_y)):
        ticks = list(axis.get_ticklocs())
        labels = [label.get_text() for label in axis.get_ticklabels()]
        ends = sorted({0, len(ticks) - 1}) if ticks else []
        axis.set_ticks([ticks[n] for n in ends])
        axis.set_ticklabels([labels[n] if has_labels else "" for n in ends])
    first, *others = axes.get_xticklabels()  # aligned so that neighbours' do not meet
    first.set_horizontalalignment("left")
    for label in others:
        label.set_horizontalalignment("right")


def _edges(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cells' edges: half-way between neighbours."""
    if len(x) == 1:
        return np.array([x[0] - 0.5, x[0] + 0.5])
    middle = (x[1:] + x[:-1]) / 2
    return np.concatenate(([x[0] - (middle[0] - x[0])], middle, [x[-1] + (x[-1] - middle[-1])]))


def _norm(values: NDArray[np.float64], yscale: YScale) -> Normalize:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    positive = values[values > 0]
    if yscale == "log" and positive.size and float(positive.min()) < high:
        return LogNorm(float(positive.min()), high, clip=True)
    return Normalize(low, high if high > low else low + (abs(low) or 1.0))


def _name_layers(axes: Axes, layers: tuple[int, ...]) -> None:
    """Name as many layers, evenly, as there is room for."""
    every = math.ceil(len(layers) / _MOST_LABELS)
    named = range(0, len(layers), every)
    axes.set_yticks(list(named), [str(layers[i]) for i in named])
