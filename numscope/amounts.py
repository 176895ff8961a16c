"""How numbers are written for people: token counts, shares, cosines, counts, lists of layers.

Tables never come through here: they keep every bit. All results are ASCII, so that they print
in any locale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Unit:
    """A power of a thousand to count in: `Unit(10**9, "B")`; the symbol of one is empty."""

    factor: int
    symbol: str


_UNITS = (Unit(10**9, "B"), Unit(10**6, "M"), Unit(10**3, "K"))
_ONE = Unit(1, "")
_COSINES = {"distortion", "cosine", "min_row_cosine"}


def token_unit(largest: float) -> Unit:
    """The unit for token counts up to `largest`: billions, millions, thousands or single tokens.

    Examples
    --------
    >>> token_unit(20e12).symbol, token_unit(368_640).symbol, token_unit(512).symbol
    ('B', 'K', '')
    """
    return next((unit for unit in _UNITS if largest >= unit.factor), _ONE)


def tokens(count: int) -> str:
    """A token count in its own unit, to four digits or the whole unit.

    Examples
    --------
    >>> tokens(337_920), tokens(12_512_300_000_000), tokens(30_720), tokens(0)
    ('337.9 K', '12,512 B', '30.72 K', '0')
    """
    unit = token_unit(count)
    return f"{_digits(count / unit.factor, 4)} {unit.symbol}".strip()


def share(value: float) -> str:
    """A fraction of all values, to four significant digits, never as a percentage.

    Examples
    --------
    >>> share(0.000152587890625), share(0.28671), share(3e-9), share(0.0)
    ('0.0001526', '0.2867', '3e-9', '0')
    """
    if 0 < abs(value) < 1e-6:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return _digits(value, 4)


def cosine(value: float) -> str:
    """A cosine, with so many digits that its distance from 1 shows two; `1` only if it is 1.

    Examples
    --------
    >>> cosine(0.9996770), cosine(0.63652847), cosine(0.99999871), cosine(1.0)
    ('0.99968', '0.6365', '0.9999987', '1')
    """
    loss = 1.0 - value
    if loss == 0:
        return "1"
    decimals = max(4, 1 - math.floor(math.log10(abs(loss))))
    return f"{value:.{decimals}f}"


def metric(name: str, value: float) -> str:
    """A metric's value as its kind is best read: a cosine, or else four significant digits.

    Examples
    --------
    >>> metric("distortion", 0.9996770), metric("underflow", 0.0), metric("sqnr_db", 31.6227)
    ('0.99968', '0', '31.62')
    """
    return cosine(value) if name in _COSINES else share(value)


def brief(name: str, value: float) -> str:
    """A metric's value where there is little room: a cosine as above, others to two digits.

    Examples
    --------
    >>> brief("distortion", 0.9996770), brief("sqnr_db", 31.6227), brief("underflow", 0.28671)
    ('0.99968', '31.6', '0.29')
    >>> brief("underflow", 0.0001526), brief("underflow", 0.0)
    ('1.5e-4', '0')
    """
    if name in _COSINES:
        return cosine(value)
    if name.endswith("_db"):
        return f"{value:.1f}"
    if not 0 < abs(value) < 1e-3:
        return _digits(value, 2)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """How many of something there are; `many` is the word for several, with an s unless given.

    Examples
    --------
    >>> counted(1, "file"), counted(12_500, "more file"), counted(0, "value is", "values are")
    ('1 file', '12,500 more files', '0 values are')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def others(count: int, noun: str) -> str:
    """What follows a statement about the first of several: how many more it is true of, if any.

    Examples
    --------
    >>> others(1, "file"), others(17, "tensor"), others(0, "tensor")
    (' (and 1 more file like it)', ' (and 17 more tensors like it)', '')
    """
    return f" (and {counted(count, f'more {noun}')} like it)" if count else ""


def size(count: int) -> str:
    """A number of bytes in decimal units.

    Examples
    --------
    >>> size(999), size(12_345_678), size(8_000_000_000)
    ('999 B', '12.3 MB', '8 GB')
    """
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 999.5:
            return f"{_digits(amount, 3)} {unit}"
        amount /= 1000
    return f"{_digits(amount, 3)} PB"


def duration(seconds: float) -> str:
    """A time span in minutes and seconds, with hours if there are any.

    Examples
    --------
    >>> duration(4.2), duration(3_725)
    ('0:04', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers with runs of three and more joined, as the commands' options read them.

    Examples
    --------
    >>> ranges(range(17)), ranges([16, 0, 4, 8, 12]), ranges([0, 1, 2, 8, 9])
    ('0-16', '0,4,8,12,16', '0-2,8,9')
    """
    return str(Ranges.of(numbers))


def span(numbers: Iterable[int]) -> str:
    """The same, but first, last and how many if that would be long.

    Examples
    --------
    >>> span(range(17)), span(range(0, 780, 60))
    ('0-16', '0 to 720 (13)')
    """
    known = sorted(set(numbers))
    text = ranges(known)
    return text if len(text) <= 32 else f"{known[0]} to {known[-1]} ({len(known)})"


def _digits(value: float, digits: int) -> str:
    """The value to so many significant digits, and its whole part always; never an exponent."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
