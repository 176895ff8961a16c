"""Number formats as values: a few fields each, every limit derived from them, one table.

Adding a format is adding one entry to `FORMATS`. This module must not quantize anything: it knows
what a format can hold, not how a number gets into it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

#: What the codes beside the ordinary numbers mean:
#: `ieee`     the highest exponent is infinity and NaN;
#: `fn`       no infinity, NaN has all exponent and mantissa bits set;
#: `fnuz`     no infinity, no negative zero: its code is the only NaN;
#: `finite`   every code is a number;
#: `integer`  two's complement, used symmetrically: the most negative code stays unused;
#: `exponent` no sign, no mantissa, no zero: powers of two, all bits set is NaN.
Specials = Literal["ieee", "fn", "fnuz", "finite", "integer", "exponent"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A low-precision number format.

    A code with exponent field E and mantissa field M stands for 2^(E - bias) * (1 + M/2^m), and for
    2^(1 - bias) * M/2^m where E is 0. An integer format is the case of a single exponent: its
    magnitudes are equally spaced.

    Attributes
    ----------
    name
        The ml_dtypes or NumPy name of the element's dtype.
    exponent_bits, mantissa_bits, bias
        As above.
    specials
        What the remaining codes mean, see `Specials`.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials

    @property
    def bits(self) -> int:
        """Bits per element."""
        return (self.specials != "exponent") + self.exponent_bits + self.mantissa_bits

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite value: floor(log2(max)), emax in the OCP specification."""
        highest = (1 << self.exponent_bits) - 1
        is_reserved = self.specials in ("ieee", "exponent") or (
            self.specials == "fn" and self.mantissa_bits == 0
        )
        return highest - is_reserved - self.bias

    @property
    def max(self) -> float:
        """Largest finite value."""
        codes = 1 << self.mantissa_bits
        largest_mantissa = codes - 1 - (self.specials == "fn")
        return math.ldexp(1 + largest_mantissa / codes, self.max_exponent)

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value."""
        return (0 if self.specials == "exponent" else 1) - self.bias

    @property
    def min_normal(self) -> float:
        """Smallest value with full precision."""
        return math.ldexp(1.0, self.min_exponent)

    @property
    def min_subnormal(self) -> float:
        """Smallest value above zero."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa_bits)

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 has a code of its own."""
        return self.specials in ("ieee", "fn", "finite")

    @property
    def has_nan(self) -> bool:
        """Whether NaN has a code."""
        return self.specials not in ("finite", "integer")

    @property
    def has_infinity(self) -> bool:
        """Whether infinity has a code."""
        return self.specials == "ieee"

    @property
    def unit(self) -> float:
        """What a code of 1 stands for in an integer format, 1 otherwise."""
        return self.min_subnormal if self.specials == "integer" else 1.0

    @property
    def is_scale_only(self) -> bool:
        """Whether the format can hold scales but no elements, for want of a sign and a zero."""
        return self.specials == "exponent"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one element per item: integers count in `unit`s."""
        import ml_dtypes  # noqa: PLC0415 (half a second, and most commands need no array)
        import numpy  # noqa: ICN001, PLC0415

        is_integer = self.specials == "integer"
        return numpy.dtype(numpy.int8 if is_integer else getattr(ml_dtypes, self.name))


#: OCP 8-bit Floating Point Specification 1.0 (E4M3, E5M2); OCP Microscaling Formats 1.0 (E2M3,
#: E3M2, E2M1, E8M0, and INT8 as `mxint8`, whose codes count in units of 2^-6); arXiv 2206.02915 for
#: the FNUZ formats; ml_dtypes for those of IEEE's kind and E4M3B11FNUZ.
FORMATS: dict[str, FloatFormat] = {
    entry.name: entry
    for entry in (
        FloatFormat("float8_e4m3fn", 4, 3, 7, "fn"),
        FloatFormat("float8_e5m2", 5, 2, 15, "ieee"),
        FloatFormat("float8_e4m3fnuz", 4, 3, 8, "fnuz"),
        FloatFormat("float8_e5m2fnuz", 5, 2, 16, "fnuz"),
        FloatFormat("float8_e4m3", 4, 3, 7, "ieee"),
        FloatFormat("float8_e3m4", 3, 4, 3, "ieee"),
        FloatFormat("float8_e4m3b11fnuz", 4, 3, 11, "fnuz"),
        FloatFormat("float6_e2m3fn", 2, 3, 1, "finite"),
        FloatFormat("float6_e3m2fn", 3, 2, 3, "finite"),
        FloatFormat("float4_e2m1fn", 2, 1, 1, "finite"),
        FloatFormat("int8", 1, 6, -5, "integer"),
        FloatFormat("mxint8", 1, 6, 1, "integer"),
        FloatFormat("float8_e8m0fnu", 8, 0, 127, "exponent"),
    )
}

#: What people write for the names above.
ALIASES: dict[str, str] = {
    "e4m3": "float8_e4m3fn",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz",
    "e2m3": "float6_e2m3fn",
    "e2m3fn": "float6_e2m3fn",
    "e3m2": "float6_e3m2fn",
    "e3m2fn": "float6_e3m2fn",
    "e2m1": "float4_e2m1fn",
    "e2m1fn": "float4_e2m1fn",
    "fp4": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
    "e8m0fnu": "float8_e8m0fnu",
    "ue8m0": "float8_e8m0fnu",
}


def short_name(name: str) -> str:
    """The format's first alias, or its name: `e4m3` for `float8_e4m3fn`."""
    return next((alias for alias, full in ALIASES.items() if full == name), name)
