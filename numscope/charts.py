"""Series become matplotlib figures, and figures become files' contents: PNG, SVG or PDF.

Draws, never computes and never writes a file. Axes are set in `axes`, the legend in `legend`,
colours come from `palette`. Nothing here touches pyplot or leaves matplotlib's settings changed.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from numscope.amounts import Unit, token_unit
from numscope.axes import YScale, fit_x, fit_y, measure_of
from numscope.legend import MOST_ENTRIES, add_legend
from numscope.palette import colours

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from numscope.series import Series

Format = Literal["png", "svg", "pdf"]

_DPI = 150
#: Inches: one chart, a column and a row of the overview, and what labels need around the axes.
_CHART = (6.4, 4.2)
_CELL = (16 / 3, 4.5)
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.92, 0.26, 0.40, 0.54

#: Up to this many points, each is marked, so that one sees when something was measured.
_MOST_MARKED = 30
#: From this many points on, lines are thin.
_MANY_POINTS = 300

_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.usetex": False,
    "axes.titlesize": 11.0,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#444444",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
}
#: Without versions and the time, equal figures are equal bytes.
_METADATA: dict[Format, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def chart(
    table: Series, *, yscale: YScale = "linear", layers: Collection[int] | None = None
) -> Figure:
    """One chart, 6.4 x 4.2 inches: a line per layer, the last one on top.

    Parameters
    ----------
    table
        What to draw. Where a value is missing or not finite, its line has a gap.
    yscale
        `log` shows zeros at the foot of the axis, below a short linear part. The axis of a cosine,
        such as distortion, stays linear.
    layers
        Which layers to draw, all unless given; those that the table does not have are left out.
    """
    chosen = _selected(table, layers)
    with rc_context(_STYLE):
        figure = _figure(_CHART)
        axes = _add_axes(figure, 0.0, 0.0, _CHART)
        _draw(axes, chosen, _shades([chosen]), _unit([chosen]), yscale)
    return figure


def overview(
    tables: Sequence[Series],
    *,
    yscale: YScale = "linear",
    layers: Collection[int] | None = None,
) -> Figure:
    """All charts of one recipe in a grid, 16 x 9 inches for three columns and two rows.

    A row per metric and a column per subject, in the order in which they first appear; the place of
    a chart that does not exist stays empty. A layer has the same colour everywhere.

    Parameters
    ----------
    tables
        At least one.
    yscale, layers
        As in `chart`.
    """
    chosen = [_selected(table, layers) for table in tables]
    rows = list(dict.fromkeys(table.metric for table in chosen))
    columns = list(dict.fromkeys(_column(table) for table in chosen))
    shades, unit = _shades(chosen), _unit(chosen)
    width, height = _CELL
    with rc_context(_STYLE):
        figure = _figure((width * len(columns), height * len(rows)))
        for table in chosen:
            left = width * columns.index(_column(table))
            bottom = height * (len(rows) - 1 - rows.index(table.metric))
            _draw(_add_axes(figure, left, bottom, _CELL), table, shades, unit, yscale)
    return figure


def render(figure: Figure, suffix: Format = "png") -> bytes:
    """The figure as the contents of a file; the same figure gives the same bytes."""
    content = io.BytesIO()
    with rc_context({"svg.hashsalt": "numscope", "pdf.fonttype": 42}):
        figure.savefig(content, format=suffix, dpi=figure.dpi, metadata=_METADATA[suffix])
    return content.getvalue()


def _selected(table: Series, layers: Collection[int] | None) -> Series:
    if layers is None:
        return table
    kept = [j for j, layer in enumerate(table.layers) if layer in layers]
    return replace(
        table,
        layers=tuple(table.layers[j] for j in kept),
        values=tuple(tuple(values[j] for j in kept) for values in table.values),
    )


def _column(table: Series) -> tuple[str, str, str]:
    return table.recipe, table.subject, table.tile


def _shades(tables: Sequence[Series]) -> dict[int, str]:
    """A colour for every layer that is in any of the tables."""
    layers = sorted({layer for table in tables for layer in table.layers})
    return dict(zip(layers, colours(len(layers)), strict=True))


def _unit(tables: Sequence[Series]) -> Unit:
    """What x is counted in, the same for all tables."""
    if any(table.x_name == "step" for table in tables):
        return Unit(1, "")
    return token_unit(max((x for table in tables for x in table.x), default=0))


def _figure(size: tuple[float, float]) -> Figure:
    figure = Figure(figsize=size, dpi=_DPI)
    FigureCanvasAgg(figure)
    return figure


def _add_axes(figure: Figure, left: float, bottom: float, cell: tuple[float, float]) -> Axes:
    """Axes in the cell at (`left`, `bottom`) of size `cell`, in inches, with room for labels."""
    width, height = figure.get_size_inches()
    inner = cell[0] - _LEFT - _RIGHT, cell[1] - _TOP - _BOTTOM
    axes = figure.add_axes(
        ((left + _LEFT) / width, (bottom + _BOTTOM) / height, inner[0] / width, inner[1] / height)
    )
    axes.yaxis.set_label_coords((0.26 - _LEFT) / inner[0], 0.5)
    return axes


def _draw(axes: Axes, table: Series, shades: Mapping[int, str], unit: Unit, yscale: YScale) -> None:
    """Draw one table: its lines, its axes, and the legend above the data."""
    measure = measure_of(table.metric)
    x = np.array(table.x, dtype=np.float64) / unit.factor
    y = np.array(table.values, dtype=np.float64).reshape(len(x), len(table.layers))
    y[~np.isfinite(y)] = np.nan
    for j, layer in enumerate(table.layers):
        _line(axes, x, y[:, j], layer, shades[layer], is_thin=len(table.layers) > MOST_ENTRIES)
    axes.set_title(table.title, pad=8)
    axes.set_xlabel(f"{table.x_name} ({unit.symbol})" if unit.symbol else table.x_name)
    axes.set_ylabel(measure.label)
    axes.grid(axis="y")
    fit_x(axes, x, whole=unit.factor == 1)
    fit_y(axes, y, measure, yscale)
    if np.isnan(y).all():
        axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes)
    if table.layers:
        add_legend(axes, x, y, table.layers)


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
