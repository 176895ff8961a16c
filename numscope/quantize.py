"""Quantizing an array in memory: for those who want the elements, not only what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numscope.written import parse

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
        The codes, (rows, cols), in the element format's ml_dtypes dtype, int8 for integer formats.
        A NaN becomes NaN where the format has one, else 0.
    scales
        One float32 per tile, (ceil(rows / tile rows), ceil(cols / tile columns)); with two levels
        the product of both.
    recipe
        How it was done.
    multipliers
        One float32 per tile: what values were multiplied by, and what elements are divided by if
        the recipe dequantizes so.
    tile_scales, outer_scales
        The two levels of scales, `None` if there is one: (tile rows, tile columns) as above, and
        one per outer tile: (1, 1), (rows, 1) or (1, cols).

    Invariant: `values[i, j] == float32(elements[i, j]) * scales[i // tile rows, j // tile
    columns]`, one float32 product (or quotient, by `multipliers`). The codes of `mxint8` count in
    units of 2^-6, which are part of the element's value.
    """

    elements: NDArray[Any]
    scales: NDArray[np.float32]
    recipe: Recipe
    multipliers: NDArray[np.float32]
    tile_scales: NDArray[np.float32] | None = None
    outer_scales: NDArray[np.float32] | None = None

    @property
    def values(self) -> NDArray[np.float32]:
        """What the elements stand for: element × scale, one float32 product, (rows, cols).

        A product beyond float32 is infinite: a value near float32's largest that a power of two as
        scale rounds up.
        """
        import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

        is_divided = self.recipe.dequantize == "divide"
        spread = _spread(self.multipliers if is_divided else self.scales, self)
        unit = np.float32(self.recipe.element_format.unit)
        with np.errstate(all="ignore"):  # 256 * 2^120 is beyond float32; scales may be NaN
            elements = self.elements.astype(np.float32) * unit
            return elements / spread if is_divided else elements * spread


def quantize(x: ArrayLike, recipe: Recipe | str) -> Quantized:
    """The elements and scales that `recipe` makes of `x`.

    Parameters
    ----------
    x
        Any float array, shape (..., columns): taken as (rows, columns), a vector as one row.
        float32, float64 (rounded to float32 first), float16, bfloat16 or any float type of
        ml_dtypes. Unless the recipe says otherwise, NaN and infinities do not count for a tile's
        amax, and infinities become the largest element.
    recipe
        How to quantize it.

    Raises
    ------
    numscope.errors.ArrayError
        If `x` holds something other than floating-point numbers.
    """
    import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

    # Compiled loops are imported when they are needed.
    from numscope import extremes, kernels, panels, roundings, tiling  # noqa: PLC0415

    recipe = parse(recipe)
    source = panels.InMemory(panels.matrix(x))
    whole = panels.panel(source.read(0, source.rows, 0, source.cols))
    task, scales = tiling.scaled_at_once(source, whole, recipe)
    q = np.empty_like(whole.x32)
    grid = extremes.grid(0, 0, task.tile, source.cols)
    rule = roundings.rule(recipe, source.dtype)
    room = kernels.room(source.cols)
    kernels.quantize(whole.x32, grid, scales.operands, rule, (0, 0), room, q)
    element = recipe.element_format
    if not element.has_nan:
        q[np.isnan(q)] = 0
    quantized = Quantized(
        (q / np.float32(element.unit)).astype(element.dtype),
        *(scales.scales, recipe, scales.multipliers),
        *(scales.inner, scales.outer),
    )
    if recipe.negative_zero != "kept":
        _make_positive(quantized, whole.x32, source.dtype)
    return quantized


def _spread(tiles: NDArray[np.float32], quantized: Quantized) -> NDArray[np.float32]:
    """Each tile's item at every element of it, (rows, cols)."""
    import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

    shape = quantized.elements.shape
    for axis, (n, extent) in enumerate(zip(quantized.recipe.tile, shape, strict=True)):
        # A tile may be said to be far larger than the tensor: repeat no further than needed.
        tiles = np.repeat(tiles, min(n or extent, extent), axis=axis)
    rows, cols = shape
    return tiles[:rows, :cols]


def _make_positive(quantized: Quantized, x32: NDArray[np.float32], dtype: np.dtype[Any]) -> None:
    """Give zeros the code of +0: all of them, or those whose product is zero."""
    import numpy as np  # noqa: PLC0415 (kept out of `numscope --help`)

    from numscope.inputs import round_to_input  # noqa: PLC0415 (as above)

    recipe, elements = quantized.recipe, quantized.elements
    is_zero = elements == 0
    if recipe.negative_zero == "positive_if_exact":
        with np.errstate(all="ignore"):
            if recipe.apply == "divide":
                products = x32 / _spread(quantized.scales, quantized)
            else:
                products = x32 * _spread(quantized.multipliers, quantized)
            if recipe.product_precision == "input":
                products = round_to_input(products, dtype)
        is_zero &= products == 0
    elements[is_zero] = 0
