"""How figures look whatever they show: their fonts, lines and resolution, for paper or screen.

A style is one entry of `STYLES`. Nothing here draws data, touches pyplot or leaves matplotlib's
settings changed.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from numscope.amounts import Unit, token_unit
from numscope.authorship import MAKER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numscope.series import Series

Format = Literal["png", "svg", "pdf"]
StyleName = Literal["screen", "paper"]


class Style(NamedTuple):
    """matplotlib's settings, and the resolution of a PNG in dots per inch."""

    settings: dict[Any, Any]
    dpi: int


_SCREEN: dict[Any, Any] = {
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
STYLES: dict[StyleName, Style] = {
    "screen": Style(_SCREEN, 150),
    "paper": Style(
        {
            **_SCREEN,
            "font.family": ["DejaVu Serif"],
            "axes.edgecolor": "black",
            "axes.spines.top": True,
            "axes.spines.right": True,
            "xtick.color": "black",
            "ytick.color": "black",
            "xtick.direction": "in",
            "ytick.direction": "in",
            "grid.color": "white",  # none
        },
        300,
    ),
}
#: Without versions and the time, equal figures are equal bytes.
_METADATA: dict[Format, dict[str, Any]] = {
    "png": {"Software": MAKER},
    "svg": {"Date": None, "Creator": MAKER},
    "pdf": {"CreationDate": None, "Creator": MAKER, "Producer": None},
}


def new_figure(size: tuple[float, float], style: StyleName, dpi: int | None) -> Figure:
    """An empty figure of that size in inches; call it, and draw, inside the style's settings."""
    figure = Figure(figsize=size, dpi=dpi or STYLES[style].dpi)
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure, suffix: Format = "png") -> bytes:
    """The figure as the contents of a file; the same figure gives the same bytes."""
    content = io.BytesIO()
    with rc_context({"svg.hashsalt": "numscope", "pdf.fonttype": 42}):
        figure.savefig(content, format=suffix, dpi=figure.dpi, metadata=_METADATA[suffix])
    return content.getvalue()


def shown_name(name: str, head: int, tail: int) -> str:
    r"""Somebody's name as text of matplotlib's; of a long one the first and the last letters.

    >>> shown_name("deepgemm", head=0, tail=4), shown_name("deep$gemm", head=4, tail=4)
    ('…gemm', 'deep\\$gemm')
    """
    short = name if len(name) <= head + 1 + tail else f"{name[:head]}…{name[-tail:]}"
    return short.replace("$", r"\$")


def unit_of(tables: Sequence[Series]) -> Unit:
    """What x is counted in, the same for all tables."""
    if any(table.x_name == "step" for table in tables):
        return Unit(1, "")
    return token_unit(max((x for table in tables for x in table.x), default=0))


def x_label(table: Series, unit: Unit) -> str:
    """What stands below the x axis: `tokens (B)`, `step`."""
    return f"{table.x_name} ({unit.symbol})" if unit.symbol else table.x_name
