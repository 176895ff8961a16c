"""The compiled loops that quantize: round, accumulate.

Arrays in, arrays out; every argument is taken as checked. One rounding loop serves every number
format, tile shape and scale rule, with the format's numbers as run-time arguments, and `quantize`
and `accumulate` share it. Nothing here decides anything.

The loops keep to IEEE arithmetic in a fixed order: sums run in `LANES` interleaved partial sums
that are added pairwise, whatever the width of the machine's vector registers. Inner loops are over
slices from index 0, which is what lets the compiler see that they can be vectorised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from numscope.compiling import compiled, inlined
from numscope.roundings import BFLOAT16, FLOAT16, NEAREST_EVEN, UP_ABOVE, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.extremes import Grid

    Float32 = NDArray[np.float32]
    Float64 = NDArray[np.float64]
    Values = Float32 | Float64

#: How many partial sums a row's sum is made of at most. A power of two; more need fewer checks
#: between the vectorised runs, but take longer to add up.
LANES = 64

# Positions in the counts and extremes that `accumulate` adds to.
ZEROS, UNDERFLOW, SATURATED, OVERFLOW, OVERFLOW_ZEROS = 0, 1, 2, 3, 4
# Positions in the sums of `accumulate` per row.
XX, YY, XY = 0, 1, 2
#: The sum of y*y follows from the others unless it is a smaller share than this of that of x*x:
#: what is subtracted would leave fewer digits.
_DERIVED_SHARE = 1 / 16

_MAGNITUDE = np.int32(0x7FFFFFFF)
_SIGN = np.int32(-0x80000000)
_EXPONENT = np.int32(0x7F800000)
_FLOAT16_MIN_EXPONENT = np.int32((127 - 14) << 23)
_FLOAT16_STEP = np.int32((13 << 23) | 0x400000)
_TWENTY_THREE = np.int32(23 << 23)
_RECIPROCAL = np.int32(254 << 23)
_TWO_23 = np.float32(2.0**23)
_TWO_M23 = np.float32(2.0**-23)
_LOW32 = np.uint64(0xFFFFFFFF)
_GOLDEN64 = np.uint64(0x9E3779B97F4A7C15)
_GOLDEN32 = np.uint32(0x9E3779B1)
_MIX_A = np.uint32(0x85EBCA6B)
_MIX_B = np.uint32(0xC2B2AE35)


class Room(NamedTuple):
    """Arrays that the loops write to and that mean nothing afterwards, each for a row's columns.

    Attributes
    ----------
    operands, back
        What each value and each element is multiplied or divided by.
    product, y
        The values on their way to elements, and what the elements stand for.
    kept
        A copy of the values.
    ones
        Ones.
    lanes
        Partial sums of three kinds, (3 * `LANES`,).
    """

    operands: Float32
    back: Float32
    product: Float32
    y: Float32
    kept: Values
    ones: Float32
    lanes: Float64


def room(cols: int, *, is_double: bool = False) -> Room:
    """Room for so many columns at most, of values in float32 or float64."""
    return Room(
        operands=np.empty(cols, np.float32),
        back=np.empty(cols, np.float32),
        product=np.empty(cols, np.float32),
        y=np.empty(cols, np.float32),
        kept=np.empty(cols) if is_double else np.empty(cols, np.float32),
        ones=np.ones(cols, np.float32),
        lanes=np.empty(3 * LANES),
    )


@inlined
def _nearest(
    v: np.float32, min_exponent: np.int32, step: np.int32, largest: np.float32
) -> tuple[np.float32, np.float32]:
    """The element's value that is nearest to `v`, ties to even, and the magnitude of `v`.

    The arguments are those of a `Rule`. The sign of a zero is that of `v`; NaN stays NaN.
    """
    bits = np.float32(v).view(np.int32)
    magnitude = np.int32(bits & _MAGNITUDE).view(np.float32)
    a = largest if magnitude > largest else magnitude  # noqa: FURB136 (NaN stays NaN)
    exponent = np.int32(np.float32(a).view(np.int32) & _EXPONENT)
    magic = np.int32(max(exponent, min_exponent) + step).view(np.float32)
    rounded = np.float32(np.float32(a + magic) - magic)
    return np.int32(rounded.view(np.int32) | (bits & _SIGN)).view(np.float32), magnitude


@inlined
def _round_row(row: Float32, operands: Float32, q: Float32, rule: Rule) -> np.int32:
    """Write to `q` the elements' values of row * operands; how many were clipped. All (cols,)."""
    min_exponent, step = rule.min_exponent, rule.step
    largest, limit = rule.largest, rule.limit
    clipped = np.int32(0)
    for c in range(row.size):
        v = np.float32(row[c] * operands[c])
        q[c], magnitude = _nearest(v, min_exponent, step, largest)
        clipped = np.int32(clipped + np.int32(magnitude > limit))
    return clipped


@inlined
def _quantize_row(
    row: Float32,
    operands: Float32,
    q: Float32,
    rule: Rule,
    place: tuple[int, int],
    room: Room,
) -> np.int32:
    """Write to `q` the elements' values of `row`; how many were clipped.

    Parameters
    ----------
    row, operands
        The values, and what each is multiplied or divided by.
    q
        The result, before the scale.
    place
        Row and column of the first value in the tensor, which is what a random number depends on.
    room
        Of which `product` is written to.
    """
    if rule.is_plain:
        return _round_row(row, operands, q, rule)
    v = room.product[: row.size]
    if rule.divides:
        for c in range(row.size):
            v[c] = row[c] / operands[c]
    else:
        for c in range(row.size):
            v[c] = row[c] * operands[c]
    if rule.product == BFLOAT16:
        _round_to_bfloat16(v)
    elif rule.product == FLOAT16:
        _round_to_float16(v)
    if rule.mode == NEAREST_EVEN:
        clipped = _round_row(v, room.ones, q, rule)
    elif rule.mode == UP_ABOVE:
        clipped = _round_above(v, q, rule)
    else:
        clipped = _round_randomly(v, q, rule, place)
    if rule.overflows:
        clipped = _overflow(v, q, rule)
    return clipped


@inlined
def _round_to_bfloat16(v: Float32) -> None:
    for c in range(v.size):
        bits = np.float32(v[c]).view(np.int32)
        odd = np.int32((bits >> np.int32(16)) & np.int32(1))
        rounded = np.int32(np.int32(bits + np.int32(0x7FFF) + odd) & np.int32(-0x10000))
        is_nan = np.int32(bits & _MAGNITUDE) > _EXPONENT
        v[c] = np.int32(bits if is_nan else rounded).view(np.float32)


@inlined
def _round_to_float16(v: Float32) -> None:
    """Round to float16, its infinity as 2^16: beyond every element."""
    beyond = np.float32(65536)
    for c in range(v.size):
        bits = np.float32(v[c]).view(np.int32)
        magnitude = np.int32(bits & _MAGNITUDE).view(np.float32)
        a = beyond if magnitude > beyond else magnitude  # noqa: FURB136 (NaN stays NaN)
        exponent = np.int32(np.float32(a).view(np.int32) & _EXPONENT)
        magic = np.int32(max(exponent, _FLOAT16_MIN_EXPONENT) + _FLOAT16_STEP).view(np.float32)
        rounded = np.float32(np.float32(a + magic) - magic)
        v[c] = np.int32(rounded.view(np.int32) | (bits & _SIGN)).view(np.float32)


@inlined
def _split(magnitude: np.float32, rule: Rule) -> tuple[np.float32, np.float32, np.float32]:
    """The whole units in the last place below a magnitude, the rest, and the unit. All exact."""
    a = rule.largest if magnitude > rule.largest else magnitude  # noqa: FURB136 (NaN stays NaN)
    exponent = max(np.int32(np.float32(a).view(np.int32) & _EXPONENT), rule.min_exponent)
    # step is 23 - m exponents and half a mantissa: taken from 23 exponents it leaves those of 2^m.
    below = np.int32(_TWENTY_THREE - np.int32(rule.step & _EXPONENT))
    unit = np.int32(exponent - below).view(np.float32)
    units = np.int32(_RECIPROCAL - np.int32(exponent - below)).view(np.float32)
    t = np.float32(a * units)
    whole = np.float32(np.float32(t + _TWO_23) - _TWO_23)
    whole = np.float32(whole - np.float32(whole > t))
    return whole, np.float32(t - whole), unit


@inlined
def _round_above(v: Float32, q: Float32, rule: Rule) -> np.int32:
    """Write to `q` the elements of `v`, up where the rest is above the rule's threshold."""
    clipped = np.int32(0)
    for c in range(v.size):
        bits = np.float32(v[c]).view(np.int32)
        magnitude = np.int32(bits & _MAGNITUDE).view(np.float32)
        clipped = np.int32(clipped + np.int32(magnitude > rule.limit))
        whole, rest, unit = _split(magnitude, rule)
        up = np.float32(rest > rule.threshold)
        rounded = np.float32(np.float32(whole + up) * unit)
        q[c] = np.int32(rounded.view(np.int32) | (bits & _SIGN)).view(np.float32)
    return clipped


@inlined
def _round_randomly(v: Float32, q: Float32, rule: Rule, place: tuple[int, int]) -> np.int32:
    """Write to `q` the elements of `v`, up with the probability that the rest is of a unit."""
    row_key = _mixed(np.uint64(rule.seed + np.uint64(place[0]) * _GOLDEN64))
    low, high = np.uint32(row_key & _LOW32), np.uint32(row_key >> np.uint64(32))
    first = np.uint32(np.uint64(place[1]) & _LOW32)
    clipped = np.int32(0)
    for c in range(v.size):
        bits = np.float32(v[c]).view(np.int32)
        magnitude = np.int32(bits & _MAGNITUDE).view(np.float32)
        clipped = np.int32(clipped + np.int32(magnitude > rule.limit))
        h = np.uint32(np.uint32(np.uint32(first + np.uint32(c)) * _GOLDEN32) ^ low)
        h = np.uint32(np.uint32(h ^ np.uint32(h >> np.uint32(16))) * _MIX_A)
        h = np.uint32(np.uint32(h ^ np.uint32(h >> np.uint32(13))) + high)
        h = np.uint32(np.uint32(h ^ np.uint32(h >> np.uint32(15))) * _MIX_B)
        h = np.uint32(h ^ np.uint32(h >> np.uint32(16)))
        # 23 random bits and a half: no remainder is on a border, and none of 0 is above.
        chance = np.float32(np.float32(np.int32(h >> np.uint32(9))) + np.float32(0.5)) * _TWO_M23
        whole, rest, unit = _split(magnitude, rule)
        up = np.float32(rest > chance)
        rounded = np.float32(np.float32(whole + up) * unit)
        q[c] = np.int32(rounded.view(np.int32) | (bits & _SIGN)).view(np.float32)
    return clipped


@inlined
def _mixed(key: np.uint64) -> np.uint64:
    """A key whose every bit depends on every bit of `key` (splitmix64's finalizer)."""
    key = np.uint64(np.uint64(key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    key = np.uint64(np.uint64(key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(key ^ (key >> np.uint64(31)))


@inlined
def _overflow(v: Float32, q: Float32, rule: Rule) -> np.int32:
    """Replace elements beyond the largest; how many are clipped to a finite one."""
    clipped = np.int32(0)
    infinity = np.float32(np.inf)
    for c in range(v.size):
        edge = rule.above if v[c] > 0 else rule.below
        is_beyond = abs(q[c]) > rule.finite_max
        is_clipped = (abs(edge) < infinity) & (abs(v[c]) > abs(edge) * rule.limit / rule.finite_max)
        clipped = np.int32(clipped + np.int32(is_clipped))
        q[c] = edge if is_beyond else q[c]
    return clipped


@inlined
def _spread(operands: Float32, back: Float32, grid: Grid, m: Float32, s: Float32) -> None:
    """Write to `m` and `s` (cols,) for each column the items of its tile."""
    cols, tile_cols = m.size, grid.tile_cols
    first, begin, whole = grid.first, grid.begin, grid.whole
    if tile_cols == 1:
        for c in range(cols):
            m[c], s[c] = operands[first + c], back[first + c]
        return
    for c in range(begin):
        m[c], s[c] = operands[first], back[first]
    first += int(begin > 0)
    end = begin + whole * tile_cols
    if whole:  # as a matrix of a row per tile: narrow tiles take 0.4 of the time of slices
        whole_m = m[begin:end].reshape(whole, tile_cols)
        whole_s = s[begin:end].reshape(whole, tile_cols)
        for u in range(whole):
            operand, scale = operands[first + u], back[first + u]
            for c in range(tile_cols):
                whole_m[u, c] = operand
                whole_s[u, c] = scale
    for c in range(end, cols):
        m[c], s[c] = operands[first + whole], back[first + whole]


@compiled
def quantize(
    x: Float32,
    grid: Grid,
    operands: Float32,
    rule: Rule,
    first: tuple[int, int],
    room: Room,
    q: Float32,
) -> None:
    """Write to `q` the elements' values, before the scale, of `x`, both (rows, cols).

    Parameters
    ----------
    grid
        Where the values lie on the grid of `operands`, which has one item per tile.
    rule
        How to quantize.
    first
        Row and column of the first value in the tensor.
    """
    m = room.operands[: x.shape[1]]
    at = -1
    for r in range(x.shape[0]):
        t = (grid.row + r) // grid.tile_rows
        if t != at:
            _spread(operands[t], operands[t], grid, m, m)
            at = t
        _quantize_row(x[r], m, q[r], rule, (first[0] + r, first[1]), room)


@compiled
def row_facts(x: Values, room: Room, nonzeros: NDArray[np.int32], sum_xx: Float64) -> None:
    """What `accumulate` needs to know of `x` (rows, cols), all finite, whatever the recipe.

    Parameters
    ----------
    nonzeros, sum_xx
        For the result: per row, how many values are not zero, and the sum of their squares,
        (rows,).
    """
    lanes = room.lanes[: _lane_count(x.shape[1])]
    for r in range(x.shape[0]):
        nonzeros[r] = _count_nonzeros(x[r])
        sum_xx[r] = _sum_squares(x[r], lanes)


@compiled
def accumulate(
    x: Values,
    x32: Float32,
    nonzeros: NDArray[np.int32],
    sum_xx: Float64,
    is_finite: bool,  # noqa: FBT001 (a compiled loop takes no keywords)
    grid: Grid,
    operands: Float32,
    scales: Float32,
    rule: Rule,
    first: tuple[int, int],
    room: Room,
    counts: NDArray[np.int64],
    sum_ee: Float64,
    max_error: Float64,
    row_counts: NDArray[np.int64],
    row_sums: Float64,
) -> None:
    """Quantize `x` and add what is lost to the records, without keeping the result.

    Parameters
    ----------
    x, x32
        The same values in float32 or float64, and in float32: (rows, cols).
    nonzeros, sum_xx
        Their `row_facts`, those of values that are not finite taken for 0.
    is_finite
        Whether all of `x32` is finite.
    grid
        Where they lie on the grid of `operands` and `scales`.
    operands, scales
        What `rule` applies before and after rounding, one item per tile.
    rule
        How to quantize.
    first
        Row and column of the first value in the tensor.
    counts
        At ZEROS, UNDERFLOW, SATURATED, OVERFLOW and OVERFLOW_ZEROS.
    sum_ee, max_error
        (1,): the sum of (x-y)*(x-y) and the largest abs(x-y).
    row_counts
        Per row, the values that are not zero before and after: (rows, 2).
    row_sums
        Per row, at XX, YY and XY: (rows, 3).
    """
    rows, cols = x.shape
    m, s, y = room.operands[:cols], room.back[:cols], room.y[:cols]
    width = _lane_count(cols)
    lanes = room.lanes[: 3 * width].reshape(3, width)
    at = -1
    for r in range(rows):
        t = (grid.row + r) // grid.tile_rows
        if t != at:
            _spread(operands[t], scales[t], grid, m, s)
            at = t
        values, place = x[r], (first[0] + r, first[1])
        before, xx = nonzeros[r], sum_xx[r]
        clipped, after = _restored_row(x32[r], m, s, y, rule, place, room)
        counts[SATURATED] += clipped
        xy, ee, largest = _sum_row(values, y, lanes)
        # A float64 value can be infinite in float32 and differ from its y by a finite amount.
        if not ee < np.inf or not (is_finite or _is_finite(x32[r])):
            values = room.kept[:cols]
            _mask_row(x[r], x32[r], m, s, y, rule, values, counts)
            before, after = _count_nonzeros(values), _count_nonzeros(y)
            xx = _sum_squares(values, lanes[0])
            xy, ee, largest = _sum_row(values, y, lanes)
        yy = ee - xx + 2 * xy
        if not yy >= _DERIVED_SHARE * xx:
            yy = _sum_squares(y, lanes[0])
        counts[ZEROS] += cols - before
        counts[UNDERFLOW] += before - after
        row_counts[r, 0] += before
        row_counts[r, 1] += after
        row_sums[r, XX] += xx
        row_sums[r, YY] += yy
        row_sums[r, XY] += xy
        sum_ee[0] += ee
        max_error[0] = max(max_error[0], largest)


@inlined
def _lane_count(cols: int) -> int:
    width = LANES
    while width > 1 and width // 2 >= cols:
        width //= 2
    return width


@inlined
def _restored_row(
    row: Float32,
    operands: Float32,
    back: Float32,
    y: Float32,
    rule: Rule,
    place: tuple[int, int],
    room: Room,
) -> tuple[np.int32, np.int32]:
    """Write to `y` what the elements of `row` stand for; how many are clipped, and are not zero.

    The arguments are those of `_quantize_row`, and what elements are multiplied or divided by.
    """
    if rule.is_plain and not rule.divides_back:
        return _round_and_restore(row, operands, back, y, rule)
    clipped = _quantize_row(row, operands, y, rule, place, room)
    if rule.divides_back:
        for c in range(y.size):
            y[c] /= back[c]
    else:
        for c in range(y.size):
            y[c] *= back[c]
    return clipped, _count_nonzeros(y)


@inlined
def _round_and_restore(
    row: Float32, operands: Float32, back: Float32, y: Float32, rule: Rule
) -> tuple[np.int32, np.int32]:
    """As `_restored_row` for what is multiplied and rounded to nearest even, in one loop."""
    min_exponent, step = rule.min_exponent, rule.step
    largest, limit = rule.largest, rule.limit
    clipped, nonzeros = np.int32(0), np.int32(0)
    for c in range(row.size):
        v = np.float32(row[c] * operands[c])
        q, magnitude = _nearest(v, min_exponent, step, largest)
        clipped = np.int32(clipped + np.int32(magnitude > limit))
        restored = np.float32(q * back[c])
        y[c] = restored
        nonzeros = np.int32(nonzeros + np.int32(restored != 0))
    return clipped, nonzeros


@inlined
def _count_nonzeros(x: Values) -> np.int32:
    nonzeros = np.int32(0)
    for c in range(x.size):
        nonzeros = np.int32(nonzeros + np.int32(x[c] != 0))
    return nonzeros


@inlined
def _is_finite(x: Values) -> bool:
    infinite = np.int32(0)
    for c in range(x.size):
        infinite = np.int32(infinite + np.int32(not np.isfinite(x[c])))
    return bool(infinite == 0)


@inlined
def _mask_row(
    x: Values,
    x32: Float32,
    operands: Float32,
    back: Float32,
    y: Float32,
    rule: Rule,
    kept: Values,
    counts: NDArray[np.int64],
) -> None:
    """Write to `kept` the values of `x`; there and in `y` 0 where x is not finite or y is not.

    Takes back what such values count as zeros and as clipped, and counts those that are finite.
    """
    counts_clipped = not rule.overflows or abs(rule.above) < np.inf
    for c in range(x.size):
        kept[c] = x[c]
        is_finite = np.isfinite(x32[c])
        v = x32[c] / operands[c] if rule.divides else x32[c] * operands[c]
        if is_finite and np.isnan(v) and not rule.has_nan:
            y[c] = 0 / back[c] if rule.divides_back else 0 * back[c]
        if is_finite and np.isfinite(y[c]):
            continue
        if is_finite:
            counts[OVERFLOW] += 1
            counts[OVERFLOW_ZEROS] += x[c] == 0
        elif counts_clipped:
            counts[SATURATED] -= abs(v) > rule.limit
        counts[ZEROS] -= x[c] != 0
        kept[c] = 0
        y[c] = 0


@inlined
def _sum_row(x: Values, y: Float32, lanes: Float64) -> tuple[np.float64, np.float64, np.float64]:
    """The sums of xy and ee with e = x-y, and the largest abs(e); `lanes` is room for them.

    The sum of ee is not finite if x or y is not; then the others count for nothing.
    """
    xy, ee, largest = lanes[0], lanes[1], lanes[2]
    lanes[:] = 0
    width = lanes.shape[1]
    paired = x.size - x.size % (2 * width)
    for start in range(0, paired, 2 * width):  # two at once: half as many lanes read and written
        middle = start + width
        x0, x1 = x[start:middle], x[middle : middle + width]
        y0, y1 = y[start:middle], y[middle : middle + width]
        for c in range(width):
            a0, a1 = np.float64(x0[c]), np.float64(x1[c])
            b0, b1 = np.float64(y0[c]), np.float64(y1[c])
            e0, e1 = abs(a0 - b0), abs(a1 - b1)
            xy[c] += a0 * b0 + a1 * b1
            ee[c] += e0 * e0 + e1 * e1
            e = max(e0, e1)
            largest[c] = max(largest[c], e)
    for start in range(paired, x.size, width):
        xs, ys = x[start : start + width], y[start : start + width]
        for c in range(xs.size):
            a, b = np.float64(xs[c]), np.float64(ys[c])
            e = abs(a - b)
            xy[c] += a * b
            ee[c] += e * e
            largest[c] = max(largest[c], e)
    while width > 1:
        width //= 2
        for c in range(width):
            largest[c] = max(largest[c], largest[width + c])
    return _folded(xy), _folded(ee), largest[0]


@inlined
def _sum_squares(x: Values, xx: Float64) -> np.float64:
    """The sum of squares, in the order of `_sum_row`; `xx` is room for partial sums."""
    xx[:] = 0
    width = xx.size
    paired = x.size - x.size % (2 * width)
    for start in range(0, paired, 2 * width):
        middle = start + width
        x0, x1 = x[start:middle], x[middle : middle + width]
        for c in range(width):
            a0, a1 = np.float64(x0[c]), np.float64(x1[c])
            xx[c] += a0 * a0 + a1 * a1
    for start in range(paired, x.size, width):
        xs = x[start : start + width]
        for c in range(xs.size):
            a = np.float64(xs[c])
            xx[c] += a * a
    return _folded(xx)


@inlined
def _folded(sums: Float64) -> np.float64:
    """The partial sums added up, pairwise."""
    width = sums.size
    while width > 1:
        width //= 2
        for c in range(width):
            sums[c] += sums[width + c]
    total: np.float64 = sums[0]
    return total


@compiled
def row_cosines(
    row_counts: NDArray[np.int64], row_sums: Float64, totals: Float64, counts: NDArray[np.int64]
) -> None:
    """Add the rows' sums and cosines to a record.

    Parameters
    ----------
    row_counts, row_sums
        As `accumulate` leaves them for whole rows.
    totals
        (5,): sums of xx, yy, xy and of the cosines, and the least cosine.
    counts
        (2,): zero rows and flushed rows.
    """
    for r in range(row_sums.shape[0]):
        xx, yy, xy = row_sums[r, XX], row_sums[r, YY], row_sums[r, XY]
        totals[XX] += xx
        totals[YY] += yy
        totals[XY] += xy
        if row_counts[r, 0] == 0:
            counts[0] += 1
            continue
        cosine = 0.0
        if row_counts[r, 1] == 0:
            counts[1] += 1
        else:
            cosine = xy / np.sqrt(xx * yy)
            if cosine > 1:  # `min` would make 1 of NaN
                cosine = 1.0
        totals[3] += cosine
        if cosine < totals[4]:  # noqa: PLR1730 (not so if it is NaN, after an overflow of y)
            totals[4] = cosine
