"""What a chart's axes show: from where to where, with which ticks, and how those are written.

A metric's range is one entry of `MEASURES`. Limits follow from the values alone. No axis has an
offset or a power of ten to add or multiply its ticks with. Nothing here draws data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.ticker import MaxNLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

YScale = Literal["linear", "log"]
XScale = Literal["linear", "log"]

#: So many fit beside each other below a chart.
_X_LETTERS = 45


@dataclass(frozen=True, slots=True)
class Measure:
    """How a metric's axis looks.

    Attributes
    ----------
    label
        Stands beside the axis.
    floor
        The least value there can be, where the axis starts.
    ceiling
        The largest value there can be, where the axis ends if values come near it.
    least
        The axis spans at least this much below its ceiling, so that noise looks like noise.
    is_log
        Whether its axis is logarithmic whatever is asked for.
    """

    label: str
    floor: float | None = None
    ceiling: float | None = None
    least: float = 0.0
    is_log: bool = False


MEASURES = {
    "underflow": Measure("Underflow", floor=0.0),
    "distortion": Measure("Distortion", ceiling=1.0, least=5e-4),
    "cosine": Measure("Cosine", ceiling=1.0, least=5e-4),
    "distortion_loss": Measure("1 − Distortion", floor=0.0, is_log=True),
    "cosine_loss": Measure("1 − Cosine", floor=0.0, is_log=True),
}


def measure_of(metric: str) -> Measure:
    """The metric's entry of `MEASURES`; its name as the label and no limits if it has none."""
    return MEASURES.get(metric) or Measure(metric.replace("_", " ").capitalize())


def fit_x(axes: Axes, x: NDArray[np.float64], *, whole: bool, xscale: XScale = "linear") -> None:
    """Show all of `x`, increasing, with a small margin; ticks at whole numbers if asked for.

    A logarithmic axis has a linear start for 0; of a single x it stays linear.
    """
    positive = x[x > 0]
    if xscale == "log" and len(x) > 1 and positive.size:
        _fit_log(axes.xaxis, x, positive, foot=0.1)
        return
    low, high = (float(x[0]), float(x[-1])) if len(x) else (0.0, 1.0)
    margin = 0.02 * (high - low) or max(0.5, 0.05 * abs(high))
    axes.set_xlim(low - margin, high + margin)
    if low == high:
        axes.set_xticks([low], [f"{low:,.10g}"])
    else:
        _set_ticks(axes.xaxis, low, high, whole=whole, letters=_X_LETTERS)


def say_no_data(axes: Axes) -> None:
    """Say in the middle of the axes that there is nothing to draw."""
    axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes)


def fit_y(axes: Axes, y: NDArray[np.float64], measure: Measure, yscale: YScale) -> None:
    """Show all values of `y` that are not NaN.

    A logarithmic axis stays linear if no value is positive, or if the metric has a ceiling: near 1
    a logarithm shows the same as the value, less plainly.
    """
    values = y[~np.isnan(y)]
    positive = values[values > 0]
    if (yscale == "log" or measure.is_log) and measure.ceiling is None and positive.size:
        _fit_log(axes.yaxis, values, positive)
        return
    low, high = _range(values, measure)
    margin = 0.04 * (high - low)
    axes.set_ylim(
        low if low == measure.floor else low - margin,
        high if high == measure.ceiling else high + margin,
    )
    _set_ticks(axes.yaxis, *axes.get_ylim())


def _range(values: NDArray[np.float64], measure: Measure) -> tuple[float, float]:
    """From where to where the values go, from the floor or up to the ceiling where that is near."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if measure.floor is not None and low >= measure.floor:
        low = measure.floor
    if measure.ceiling is not None and 0 <= measure.ceiling - high <= max(0.1, high - low):
        high = measure.ceiling
        low = min(low, high - measure.least)
    if high - low <= 1e-9 * abs(high):
        spread = 0.05 * abs(high) or 1.0
        return (low if low == measure.floor else low - spread), high + spread
    return low, high


def _fit_log(
    axis: Axis, values: NDArray[np.float64], positive: NDArray[np.float64], foot: float = 0.5
) -> None:
    """A logarithmic axis, with a linear foot for zeros and what is below if there are any.

    The foot is as long as so many powers of ten.
    """
    low, high = float(positive.min()), float(positive.max())
    margin = (high / low) ** 0.04 if high > low else 1.25
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    low, high = low / margin, high * margin
    powers = [10.0**n for n in range(last, first - 1, -math.ceil((last - first) / 6) or -1)]
    between = [m * 10.0**n for n in range(first, last + 1) for m in (1, 2, 5)]
    if values.min() > 0:
        _set_scale(axis, "log")
    else:
        _set_scale(axis, "symlog", linthresh=10.0**first, linscale=foot)
        low = min(0.0, 1.25 * float(values.min()))
    (axis.axes.set_xlim if axis is axis.axes.xaxis else axis.axes.set_ylim)(low, high)
    axis.set_minor_locator(NullLocator())
    for ticks in (powers, between):
        shown = [tick for tick in (0.0, *sorted(ticks)) if low <= tick <= high]
        if sum(tick > 0 for tick in shown) > 2:
            axis.set_ticks(shown)
            axis.set_ticklabels([_number(tick) for tick in shown])
            return
    _set_ticks(axis, low, high)


def _set_scale(axis: Axis, scale: str, **options: float) -> None:
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)(scale, **options)


def _set_ticks(
    axis: Axis, low: float, high: float, *, whole: bool = False, letters: int = 1000
) -> None:
    """Round ticks from `low` to `high`, as many as fit if all labels together have `letters`."""
    for bins in (7, 5, 3, 2):
        locator = MaxNLocator(nbins=bins, steps=[1, 2, 5, 10], integer=whole)
        slack = 1e-6 * (high - low)
        ticks = [at for at in locator.tick_values(low, high) if low - slack <= at <= high + slack]
        labels = _labels(ticks)
        if sum(map(len, labels)) <= letters:
            break
    axis.set_ticks(ticks)
    axis.set_ticklabels(labels)


def _labels(ticks: Sequence[float]) -> list[str]:
    """The ticks in writing: all with as many decimals as tell them apart, up to six."""
    step = min(np.diff(ticks), default=1.0)
    decimals = next((n for n in range(7) if abs(round(step, n) - step) < 1e-3 * step), None)
    if decimals is None:
        return [_number(tick) for tick in ticks]
    return [f"{tick:,.{decimals}f}" for tick in ticks]


def _number(value: float) -> str:
    """The shortest label, where decimals would be too many: `2e-7`."""
    mantissa, _, exponent = f"{value:,.6g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa
