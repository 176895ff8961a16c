"""Charts' tables with a known story: six charts of noise alone, and what is planted in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numscope.series import Series

Noise = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
Array = NDArray[np.float64]

BILLION = 10**9
RUN = 20_000 * BILLION
SUBJECTS = (("activations", "1x128"), ("gradients", "1x128"), ("gradient transpose", "128x1"))
CHARTS = [
    (subject, tile, metric) for subject, tile in SUBJECTS for metric in ("underflow", "distortion")
]


def gaussian(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape)


def heavy(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with 3 degrees of freedom: one value in 10,000 is beyond 28."""
    return random.standard_t(3, shape)


def skewed(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.exponential(size=shape)


def remembering(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Autoregressive along the first axis: 0.9 of the last value is kept."""
    steps = random.standard_normal(shape) * np.sqrt(1 - 0.9**2)
    values = np.empty(shape)
    values[0] = random.standard_normal(shape[1:])
    for i in range(1, shape[0]):
        values[i] = 0.9 * values[i - 1] + steps[i]
    return values


NOISES: dict[str, Noise] = {
    "gaussian": gaussian,
    "heavy-tailed": heavy,
    "skewed": skewed,
    "autocorrelated": remembering,
}


def layers_of(count: int) -> tuple[int, ...]:
    """0, 4, 8, 12, 16 for five, as in the published figure, or else all."""
    return tuple(range(0, 20, 4)) if count == 5 else tuple(range(count))


def grid(points: int) -> tuple[int, ...]:
    return tuple(int(x) for x in np.linspace(0, RUN, points))


def noise_only(
    seed: int,
    *,
    layers: int = 5,
    points: int = 41,
    noise: Noise = gaussian,
    size: float = 1e-4,
    offsets: float = 0.0,
) -> list[Array]:
    """Six charts' values, shape (points, layers): underflow near 0.001, distortion near 0.999."""
    random = np.random.default_rng(seed)
    charts = []
    for _, _, metric in CHARTS:
        level = 1e-3 if metric == "underflow" else 0.999
        apart = offsets * random.standard_normal(layers)
        charts.append(level + apart + size * noise(random, (points, layers)))
    return charts


def bump(points: int, at: float, width: float) -> Array:
    """A bell of height 1 at `at`, both as shares of the run; at least its nearest point is 1."""
    place = np.linspace(0, 1, points)
    nearest = place[np.abs(place - at).argmin()]
    return np.asarray(np.exp(-(((place - nearest) / width) ** 2)))


def tables(charts: Sequence[Array], **changes: Any) -> list[Series]:
    points, layers = charts[0].shape
    return [
        Series(
            **{
                "subject": subject,
                "metric": metric,
                "recipe": "ling",
                "tile": tile,
                "x_name": "tokens",
                "x": grid(points),
                "layers": layers_of(layers),
                **changes,
            },
            values=tuple(tuple(map(float, row)) for row in values),
        )
        for (subject, tile, metric), values in zip(CHARTS, charts, strict=True)
    ]
