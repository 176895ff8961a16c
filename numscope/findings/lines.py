"""One layer's line in one chart, and what is usual along it: a baseline and the noise around it.

All statistics are robust: medians, and medians of absolute deviations (MAD). Nothing here decides
what is worth a word.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from numscope.findings.finding import least_difference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from numscope.series import Series

#: Fewer points than this have no shape.
FEWEST_POINTS = 8
#: Fewer points than this after a step, or before it, are no level.
_FEWEST_AFTER = 4
#: The standard deviation of a normal distribution per MAD.
_SIGMA = 1.4826
#: A line or a step is believed if it leaves no more than this share of the deviations.
_CONVINCING = 0.7


@dataclass(frozen=True, slots=True)
class Model:
    """The simplest shape that describes a line: a constant, a straight line, or one step.

    `fitted` has a value per point. For a step, `split` is the index of its first point after it.
    """

    shape: Literal["constant", "straight", "step"]
    fitted: NDArray[np.float64]
    split: int = 0

    @property
    def change(self) -> float:
        """How far the model goes from the first point to the last."""
        return float(self.fitted[-1] - self.fitted[0])


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one layer where there are any, shapes (points,).

    `noise` is at least a part of what is usual in the chart and of what is worth a word, so that no
    deviation of a constant line is infinitely many times its noise. `memory` is the noise's
    correlation from one point to the next, 0 to 0.99, at least what is usual among all lines.
    """

    table: Series
    layer: int
    x: NDArray[np.int64]
    y: NDArray[np.float64]
    model: Model
    baseline: NDArray[np.float64]
    noise: float
    memory: float = 0.0

    @property
    def excess(self) -> NDArray[np.float64]:
        """How far each value lies above the baseline, in units of the noise."""
        return (self.y - self.baseline) / self.noise


def lines_of(tables: Sequence[Series]) -> list[Line]:
    """The lines of all charts of one recipe; those of too few points are left out."""
    lines = [line for table in tables for line in _lines_of(table)]
    memories = [_memory(line) for line in lines]
    usual = float(np.median(memories)) if memories else 0.0
    return [
        replace(line, memory=max(own, usual)) for line, own in zip(lines, memories, strict=True)
    ]


def _lines_of(table: Series) -> list[Line]:
    lines = [_line(table, layer) for layer in table.layers]
    known = [line for line in lines if line is not None]
    if not known:
        return []
    usual = float(np.median([line.noise for line in known]))
    least = least_difference(table.metric) / 8
    return [replace(line, noise=max(line.noise, usual / 2, least)) for line in known]


def mad_sigma(deviations: NDArray[np.float64]) -> float:
    """The standard deviation that the median of the absolute deviations stands for."""
    return _SIGMA * float(np.median(np.abs(deviations)))


def spread(deviations: NDArray[np.float64]) -> float:
    """The same, or what the 0.9 quantile stands for if that is more, as in heavy tails."""
    return max(mad_sigma(deviations), float(np.quantile(np.abs(deviations), 0.9)) / 1.645)


def fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> Model:
    """The simplest model that describes the points well; a line only if far better than none."""
    constant = Model("constant", np.full(len(y), np.median(y)))
    best, cost = constant, _cost(constant, y)
    for other in (_straight(x, y), _step(y)):
        if _cost(other, y) < min(_CONVINCING * _cost(constant, y), cost):
            best, cost = other, _cost(other, y)
    return best


def running_median(y: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The median of the `width` points around each one, of the outermost ones near the ends."""
    n = len(y)
    width = min(width, n)
    window: list[float] = sorted(y[:width])
    medians = np.empty(n)
    start = 0
    for i in range(n):
        wanted = min(max(0, i - width // 2), n - width)
        while start < wanted:
            del window[bisect_left(window, y[start])]
            insort(window, y[start + width])
            start += 1
        medians[i] = (window[(width - 1) // 2] + window[width // 2]) / 2
    return medians


def ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value, equal values sharing the mean of theirs."""
    array = np.asarray(values, dtype=np.float64)
    smaller = (array[:, np.newaxis] > array[np.newaxis, :]).sum(axis=1)
    equal = (array[:, np.newaxis] == array[np.newaxis, :]).sum(axis=1)
    return np.asarray(smaller + (equal - 1) / 2, dtype=np.float64)


def rank_correlation(
    one: Sequence[float] | NDArray[np.float64], other: Sequence[float] | NDArray[np.float64]
) -> float:
    """Spearman's rank correlation, 0 if all values of one of them are equal.

    >>> rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000])
    1.0
    """
    a, b = (each - each.mean() for each in (ranks(one), ranks(other)))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return round(float(a @ b) / norm, 12) if norm else 0.0


def _line(table: Series, layer: int) -> Line | None:
    values = np.array(table.column(layer), dtype=np.float64)
    known = np.isfinite(values)
    if known.sum() < FEWEST_POINTS:
        return None
    x, y = np.array(table.x, dtype=np.int64)[known], values[known]
    model = fit(x.astype(np.float64), y)
    rest = y - model.fitted
    baseline = model.fitted + running_median(rest, max(7, len(y) // 2 | 1))
    return Line(table, layer, x, y, model, baseline, mad_sigma(y - baseline))


def _memory(line: Line) -> float:
    """The correlation of the deviations with the ones before, corrected for there being few.

    Of their signs, so that outliers do not matter; sin(π r / 2) turns it into that of the values.
    """
    signs = np.sign(line.y - line.model.fitted)
    products = (signs[1:] * signs[:-1])[(signs[1:] != 0) & (signs[:-1] != 0)]
    if not products.size:
        return 0.0  # a constant line
    of_values = float(np.sin(np.pi / 2 * products.mean()))
    return float(np.clip(of_values + (1 + 3 * of_values) / len(signs), 0.0, 0.99))


def _cost(model: Model, y: NDArray[np.float64]) -> float:
    return float(np.abs(y - model.fitted).sum())


def _straight(x: NDArray[np.float64], y: NDArray[np.float64]) -> Model:
    """Tukey's resistant line: through the medians of the first and the last third."""
    third = len(y) // 3
    rise = np.median(y[-third:]) - np.median(y[:third])
    run = np.median(x[-third:]) - np.median(x[:third])
    slope = rise / run
    return Model("straight", slope * x + np.median(y - slope * x))


def _step(y: NDArray[np.float64]) -> Model:
    """The step with the smallest squared deviations of values that are clipped where they stray."""
    n, least = len(y), max(_FEWEST_AFTER, len(y) // 10)
    reach = 8 * mad_sigma(y - np.median(y)) or np.ptp(y)
    clipped = np.clip(y - np.median(y), -reach, reach)
    before = np.cumsum(clipped)
    size = np.arange(1, n)
    gain = before[:-1] ** 2 / size + (before[-1] - before[:-1]) ** 2 / (n - size)
    split = least + int(np.argmax(gain[least - 1 : n - least]))
    fitted = np.where(np.arange(n) < split, np.median(y[:split]), np.median(y[split:]))
    return Model("step", fitted, split)
