"""The legend of layers: in the top left corner of a chart, above the data and never over them.

A legend entry per layer, or a colour bar where those would be too many. Nothing here knows what the
lines mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

#: More layers than this get a colour bar.
MOST_ENTRIES = 20
_FONT_SIZE = 8

#: Inches: between the legend and the axes' left edge, and between the legend and the data.
_INDENT, _GAP = 0.08, 0.06
#: Inches: a colour bar, the room for the word above and for the numbers below it.
_BAR_WIDTH, _BAR_HEIGHT, _BAR_TITLE, _BAR_LABELS = 2.4, 0.09, 0.21, 0.19


def add_legend(
    axes: Axes, x: NDArray[np.float64], y: NDArray[np.float64], layers: Sequence[int]
) -> None:
    """Add the legend and raise the upper limit of y, so that the data near it lie below it.

    Parameters
    ----------
    axes
        Has one line per layer, of the layers' colours, and its limits are set.
    x, y
        What the lines show, shapes (points,) and (points, layers); `x` increases.
    layers
        At least one.
    """
    right, foot = (_colour_bar if len(layers) > MOST_ENTRIES else _entries)(axes, layers)
    _hide_grid(axes, right, foot)
    edge = axes.transData.inverted().transform(axes.transAxes.transform((right, 0.0)))[0]
    beside = np.searchsorted(x, edge, side="right") + 1  # one more: a line goes there from below
    if not np.isnan(y[:beside]).all():
        _make_room(axes, float(np.nanmax(y[:beside])), foot)


def _hide_grid(axes: Axes, right: float, foot: float) -> None:
    """Cover the grid behind the legend, but not a line along the upper edge."""
    size = right, 0.99 - foot
    axes.add_patch(
        Rectangle(
            (0.0, foot), *size, transform=axes.transAxes, color="white", linewidth=0, zorder=0.8
        )
    )


def _make_room(axes: Axes, most: float, foot: float) -> None:
    """Raise the upper limit of y until `most` is at the height `foot`, a fraction of the axes."""
    scale = axes.yaxis.get_transform()
    low, high, most = scale.transform(np.array([*axes.get_ylim(), most]))
    needed = low + (most - low) / foot
    if needed > high:
        axes.set_ylim(top=float(scale.inverted().transform(np.array([needed]))[0]))


def _entries(axes: Axes, layers: Sequence[int]) -> tuple[float, float]:
    """A legend with an entry per layer, row by row; its right and lower edge, in fractions."""
    rows = math.ceil(len(layers) / _entries_per_row(axes, layers))
    columns = math.ceil(len(layers) / rows)
    lines = _lines(axes)
    legend = axes.legend(  # filled column by column
        handles=[lines[i] for j in range(columns) for i in range(j, len(lines), columns)],
        title="layer",
        alignment="left",
        loc="upper left",
        ncols=columns,
        frameon=False,
        fontsize=_FONT_SIZE,
        title_fontsize=_FONT_SIZE,
        borderaxespad=0.2,
        borderpad=0.3,
        handlelength=1.3,
        handletextpad=0.4,
        columnspacing=0.9,
        labelspacing=0.25,
    )
    for line in legend.get_lines():
        line.set_linewidth(2.0)
    box = legend.get_window_extent().transformed(axes.transAxes.inverted())
    return box.x1, box.y0 - _GAP / _inches(axes)[1]


def _entries_per_row(axes: Axes, layers: Sequence[int]) -> int:
    """How many entries fit beside each other, at most ten."""
    digits = max(len(str(layer)) for layer in layers)
    entry = _FONT_SIZE * (2.6 + 0.65 * digits) / 72  # a line, two gaps and the digits
    return max(1, min(10, int((_inches(axes)[0] - 2 * _INDENT) / entry)))


def _colour_bar(axes: Axes, layers: Sequence[int]) -> tuple[float, float]:
    """A bar with a cell per layer, some of them named; its right and lower edge, in fractions."""
    width, height = _inches(axes)
    foot = 1 - (_BAR_TITLE + _BAR_HEIGHT) / height
    bar = axes.inset_axes(
        (_INDENT / width, foot, _BAR_WIDTH / width, _BAR_HEIGHT / height), zorder=5
    )
    count = len(layers)
    bar.imshow(
        np.arange(count)[np.newaxis],
        cmap=ListedColormap([str(line.get_color()) for line in _lines(axes)]),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, count - 0.5, 0, 1),
    )
    named = sorted({round(i * (count - 1) / 6) for i in range(7)})
    bar.set_xticks(named, [str(layers[i]) for i in named], fontsize=_FONT_SIZE)
    bar.set_yticks([])
    bar.tick_params(length=2, pad=1.5)
    bar.spines[:].set_visible(False)
    bar.set_title("layer", loc="left", fontsize=_FONT_SIZE, pad=2)
    return (2 * _INDENT + _BAR_WIDTH) / width, foot - (_BAR_LABELS + _GAP) / height


def _lines(axes: Axes) -> list[Line2D]:
    """Those of the layers: others have names that begin with an underscore."""
    return [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]


def _inches(axes: Axes) -> tuple[float, float]:
    box = axes.get_window_extent()
    dpi = axes.figure.dpi
    return box.width / dpi, box.height / dpi
