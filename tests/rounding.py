"""The compiled rounding with a scale of 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numscope import extremes, kernels, roundings
from numscope.recipes import Recipe

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.formats import FloatFormat


def rounded(
    v: NDArray[np.float32], element: FloatFormat, rounding: str = "nearest_even"
) -> NDArray[np.float32]:
    """The elements' values of `v`, both (n,)."""
    x = np.ascontiguousarray(v, np.float32).reshape(1, -1)
    q = np.empty(x.shape, np.float32)
    ones = np.ones((1, 1), np.float32)
    rule = roundings.rule(Recipe(element.name, rounding=rounding), x.dtype)
    room = kernels.room(x.size)
    grid = extremes.grid(0, 0, (1, x.size), x.size)
    kernels.quantize(x, grid, ones, rule, (0, 0), room, q)
    return q.reshape(-1)


def codes(values: NDArray[np.float32], element: FloatFormat) -> NDArray[Any]:
    """The bit patterns of elements' values, none of which is NaN."""
    return (values / np.float32(element.unit)).astype(element.dtype).view(np.uint8)
