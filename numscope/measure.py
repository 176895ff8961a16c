"""What a recipe does to a tensor, as addable sums, and the ratios that follow from them.

`ErrorSums` is the record of the merge law: measuring parts and adding the records equals measuring
the whole. Every ratio is derived last, from the merged record. Nothing here is a running mean, and
nothing here knows where a tensor came from.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any

from numscope.written import parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from numscope.recipes import Recipe

_NAN = math.nan


def _least(a: float, b: float) -> float:
    """The smaller of two minima, where NaN means that there was nothing to take a minimum of."""
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def _largest(a: float, b: float) -> float:
    """The larger of two maxima, where NaN means that there was nothing to take a maximum of."""
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def _ratio(numerator: float, denominator: float) -> float:
    """The quotient, NaN for 0/0, which says that there was nothing to take a share of."""
    return numerator / denominator if denominator else _NAN


def _minimum() -> Any:
    """A field of which the smaller one is kept, NaN without any."""
    return field(default=_NAN, metadata={"merge": _least})


def _maximum(default: float = _NAN) -> Any:
    """A field of which the larger one is kept."""
    return field(default=default, metadata={"merge": _largest})


@dataclass(frozen=True, slots=True)
class ErrorSums:
    """Counts, sums, minima and maxima of one quantization; `a + b` is the record of both parts.

    x is the tensor's value in float32 (float64 if it was saved so), q its element, y = q * scale as
    one float32 product. Sums are float64 sums of float64 products. Values that are not finite, and
    finite ones whose y is not, are counted and left out of everything else.

    Attributes
    ----------
    count, zeros, nan_count, inf_count
        All values; those with x = 0; those that are NaN; those that are infinite (in float32).
    underflow_count, saturated_count
        Values with x != 0 and y = 0; values whose rounded element would lie beyond the largest one
        and was clipped to it.
    sum_xx, sum_yy, sum_xy, sum_ee
        Sums of x*x, y*y, x*y and (x-y)*(x-y).
    amax, max_abs_error
        Largest abs(x) and abs(x-y), 0 if there is no finite value.
    row_count, zero_rows, flushed_rows
        All rows; rows with x = 0 throughout; rows with x != 0 whose y is 0 throughout.
    sum_row_cosine, min_row_cosine
        Sum and minimum over the rows that are not zero rows of the cosine between the row of x and
        the row of y, at most 1, and 0 for flushed rows. The minimum is NaN if there is no such row.
    tile_count, zero_tiles
        All tiles; tiles with x = 0 throughout.
    scale_min, scale_max, tile_range_log2_max
        Over the tiles that are not zero: the scales' extremes, and the largest log2(amax) minus
        log2(smallest magnitude that is not zero). NaN if there is no such tile.
    overflow_count, overflow_zeros
        Finite values whose y is infinite or NaN; those of them with x = 0.
    """

    count: int = 0
    zeros: int = 0
    nan_count: int = 0
    inf_count: int = 0
    underflow_count: int = 0
    saturated_count: int = 0
    sum_xx: float = 0.0
    sum_yy: float = 0.0
    sum_xy: float = 0.0
    sum_ee: float = 0.0
    amax: float = _maximum(0.0)
    max_abs_error: float = _maximum(0.0)
    row_count: int = 0
    zero_rows: int = 0
    flushed_rows: int = 0
    sum_row_cosine: float = 0.0
    min_row_cosine: float = _minimum()
    tile_count: int = 0
    zero_tiles: int = 0
    scale_min: float = _minimum()
    scale_max: float = _maximum()
    tile_range_log2_max: float = _maximum()
    overflow_count: int = 0
    overflow_zeros: int = 0

    def __add__(self, other: ErrorSums) -> ErrorSums:
        """The record of two parts taken together: sums and counts add, extremes are kept."""
        return added((self, other)) if isinstance(other, ErrorSums) else NotImplemented

    @property
    def underflow(self) -> float:
        """Share of all values that are not zero and become zero, 0 to 1."""
        return _ratio(self.underflow_count, self.count)

    @property
    def underflow_nonzero(self) -> float:
        """Share of the values that are not zero which become zero, 0 to 1."""
        nonzero = self.count - self.zeros - self.nan_count - self.inf_count
        return _ratio(self.underflow_count, nonzero)

    @property
    def zeros_after(self) -> float:
        """Share of all values that are zero after quantization, 0 to 1."""
        return _ratio(self.zeros + self.underflow_count - self.overflow_zeros, self.count)

    @property
    def saturated(self) -> float:
        """Share of all values that were clipped to the largest finite element, 0 to 1."""
        return _ratio(self.saturated_count, self.count)

    @property
    def overflow(self) -> float:
        """Share of all values that are finite and become infinite or NaN, 0 to 1."""
        return _ratio(self.overflow_count, self.count)

    @property
    def distortion(self) -> float:
        """Mean over the rows that are not zero of the cosine between x and y: 1 is perfect."""
        return _ratio(self.sum_row_cosine, self.row_count - self.zero_rows)

    @property
    def cosine(self) -> float:
        """One cosine between x and y over the whole tensor; 0 if all of y is zero and x is not."""
        if self.sum_xx and not self.sum_yy:
            return 0.0
        return min(_ratio(self.sum_xy, math.sqrt(self.sum_xx * self.sum_yy)), 1.0)

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise, 10*log10(sum_xx / sum_ee) in dB; infinite without noise."""
        if not self.sum_xx:
            return _NAN
        if not self.sum_ee:
            return math.inf
        return 10.0 * (math.log10(self.sum_xx) - math.log10(self.sum_ee))

    @property
    def mse(self) -> float:
        """Mean of (x-y)*(x-y) over all values, in the tensor's units squared."""
        return _ratio(self.sum_ee, self.count)

    @property
    def relative_error(self) -> float:
        """Norm of x-y over norm of x: sqrt(sum_ee / sum_xx)."""
        if not self.sum_xx:
            return _NAN
        return math.sqrt(self.sum_ee) / math.sqrt(self.sum_xx)


_VALUES = operator.attrgetter(*(each.name for each in fields(ErrorSums)))
_MERGES = tuple(each.metadata.get("merge", operator.add) for each in fields(ErrorSums))


def added(parts: Iterable[ErrorSums]) -> ErrorSums:
    """The record of one part or more taken together, the same as by `+` from first to last."""
    return added_values(map(_VALUES, parts))


def added_values(parts: Iterable[tuple[float, ...]]) -> ErrorSums:
    """The same of parts that are no records, but the values of their fields in their order."""
    return ErrorSums(*map(reduce, _MERGES, zip(*parts, strict=True)))


def measure(x: ArrayLike, recipe: Recipe | str) -> ErrorSums:
    """The errors that `recipe` makes on `x`.

    Parameters
    ----------
    x
        Any float array, shape (..., columns): taken as (rows, columns), a vector as one row.
        float32, float64, float16, bfloat16 or any float format of ml_dtypes.
    recipe
        How to quantize it.

    Raises
    ------
    numscope.errors.ArrayError
        If `x` holds something other than floating-point numbers.
    """
    from numscope.streaming import measure_array  # noqa: PLC0415 (compiled: when needed)

    return measure_array(x, (parse(recipe),))[0]
