"""Quantizing an array in memory: for those who want the elements, not only what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from numscope.recipes import Recipe


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """A quantized matrix.

    Attributes
    ----------
    elements
        The codes, (rows, cols), in the element format's ml_dtypes or NumPy dtype. A NaN becomes NaN
        where the format has one, else 0.
    scales
        One float32 per tile, (ceil(rows / tile rows), ceil(cols / tile columns)).
    recipe
        How it was done.

    Invariant: `values[i, j] == float32(elements[i, j]) * scales[i // tile rows, j // tile
    columns]`.
    """

    elements: NDArray[Any]
    scales: NDArray[np.float32]
    recipe: Recipe

    @property
    def values(self) -> NDArray[np.float32]:
        """What the elements stand for: element × scale, one float32 product, (rows, cols).

        A product beyond float32 is infinite: a value near float32's largest that a power of two as
        scale rounds up.
        """
        import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

        spread = self.scales
        for axis, (n, extent) in enumerate(zip(self.recipe.tile, self.elements.shape, strict=True)):
            # A tile may be said to be far larger than the tensor: repeat no further than needed.
            spread = np.repeat(spread, min(n or extent, extent), axis=axis)
        rows, cols = self.elements.shape
        with np.errstate(over="ignore"):  # 256 * 2^120 is beyond float32
            return self.elements.astype(np.float32) * spread[:rows, :cols]


def quantize(x: ArrayLike, recipe: Recipe) -> Quantized:
    """The elements and scales that `recipe` makes of `x`.

    Parameters
    ----------
    x
        Any float array, shape (..., columns): taken as (rows, columns), a vector as one row.
        float32, float64 (rounded to float32 first), float16, bfloat16 or any float type of
        ml_dtypes. NaN and infinities do not count for a tile's amax; infinities become the largest
        element.
    recipe
        How to quantize it.

    Raises
    ------
    numscope.errors.DumpError
        If `x` holds something other than floating-point numbers.
    """
    import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

    from numscope import kernels, panels, tiling  # noqa: PLC0415 (compiled: when needed)

    source = panels.InMemory(panels.matrix(x))
    x32 = panels.to_float32(source.read(0, source.rows, 0, source.cols))
    task = tiling.Task.on(source, recipe)
    tiles = tiling.Tiles.over(x32.shape, task.tile)
    tiles.take_in(x32, 0, 0, task.tile)
    scaled = task.scale(tiles, 0, 0)
    element = recipe.element_format
    numbers = kernels.numbers(element)
    q = np.empty_like(x32)
    kernels.quantize(x32, scaled.grid(0, 0, task.tile), scaled.multipliers, numbers, q)
    if not element.has_nan:
        q[np.isnan(q)] = 0
    return Quantized(q.astype(element.dtype), scaled.scales, recipe)
