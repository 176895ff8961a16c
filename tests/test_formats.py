"""What a format can hold: the specifications' own numbers, and ml_dtypes'."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from numscope.formats import FORMATS, FloatFormat

# OCP 8-bit Floating Point Specification (OFP8) 1.0, table 2: E4M3 and E5M2.
# OCP Microscaling Formats (MX) Specification 1.0, tables 3 to 5 (E3M2, E2M3, E2M1), 6 (INT8) and 7
# (E8M0).
# arXiv 2206.02915 (8-bit Numerical Formats for Deep Neural Networks), table 1: the formats with one
# NaN and no negative zero, whose bias is one larger. The README of ml_dtypes for the others.
SPECIFIED = {
    # name: largest, smallest normal, smallest subnormal, bits
    "float8_e4m3fn": (448.0, 2.0**-6, 2.0**-9, 8),
    "float8_e5m2": (57344.0, 2.0**-14, 2.0**-16, 8),
    "float8_e4m3fnuz": (240.0, 2.0**-7, 2.0**-10, 8),
    "float8_e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17, 8),
    "float6_e3m2fn": (28.0, 0.25, 0.0625, 6),
    "float6_e2m3fn": (7.5, 1.0, 0.125, 6),
    "float4_e2m1fn": (6.0, 1.0, 0.5, 4),
    "float8_e8m0fnu": (2.0**127, 2.0**-127, 2.0**-127, 8),
    "float8_e4m3": (240.0, 2.0**-6, 2.0**-9, 8),
    "float8_e3m4": (15.5, 2.0**-2, 2.0**-6, 8),
    "float8_e4m3b11fnuz": (30.0, 2.0**-10, 2.0**-13, 8),
    "mxint8": (127 / 64, 1.0, 2.0**-6, 8),
    "int8": (127.0, 64.0, 1.0, 8),  # an integer is a multiple of 1: equally spaced up to 127
}

# How the specifications and ml_dtypes count the codes that are not finite numbers, and -0.
SPECIAL_CODES = {
    # name: NaN, infinities, zeros
    "float8_e4m3fn": (2, 0, 2),
    "float8_e5m2": (6, 2, 2),
    "float8_e4m3fnuz": (1, 0, 1),
    "float8_e5m2fnuz": (1, 0, 1),
    "float6_e3m2fn": (0, 0, 2),
    "float6_e2m3fn": (0, 0, 2),
    "float4_e2m1fn": (0, 0, 2),
    "float8_e8m0fnu": (1, 0, 0),
    "float8_e4m3": (14, 2, 2),
    "float8_e3m4": (30, 2, 2),
    "float8_e4m3b11fnuz": (1, 0, 1),
    "mxint8": (0, 0, 1),
    "int8": (0, 0, 1),
}


def test_every_format_is_specified() -> None:
    assert FORMATS.keys() == SPECIFIED.keys() == SPECIAL_CODES.keys()


@pytest.mark.parametrize("name", SPECIFIED)
def test_limits_are_those_of_the_specification(name: str) -> None:
    found = FORMATS[name]
    limits = (found.max, found.min_normal, found.min_subnormal, found.bits)
    assert limits == SPECIFIED[name]


@pytest.mark.parametrize("name", sorted(SPECIFIED.keys() - {"int8", "mxint8"}))
def test_limits_are_those_of_ml_dtypes(name: str) -> None:
    found = FORMATS[name]
    info = ml_dtypes.finfo(found.dtype)  # type: ignore[no-untyped-call]
    assert found.max == float(info.max)
    assert found.min_normal == float(info.smallest_normal)
    if not found.is_scale_only:
        assert found.min_subnormal == float(info.smallest_subnormal)
    assert found.bits == info.bits


@pytest.mark.parametrize("name", SPECIAL_CODES)
def test_special_codes_are_those_of_ml_dtypes(name: str) -> None:
    found = FORMATS[name]
    values = np.arange(2**found.bits, dtype=np.uint8).view(found.dtype).astype(np.float32)
    nan, infinite, zeros = SPECIAL_CODES[name]
    assert np.count_nonzero(np.isnan(values)) == nan
    assert np.count_nonzero(np.isinf(values)) == infinite
    assert np.count_nonzero(values == 0) == zeros
    assert found.has_nan == (nan > 0)
    assert found.has_infinity == (infinite > 0)
    assert found.has_negative_zero == (zeros == 2)
    assert found.is_scale_only == (zeros == 0)


@pytest.mark.parametrize("name", SPECIFIED)
def test_the_largest_exponent_is_that_of_the_largest_value(name: str) -> None:
    found = FORMATS[name]
    assert 2.0**found.max_exponent <= found.max < 2.0 ** (found.max_exponent + 1)


def test_a_format_of_one_exponent_is_equally_spaced() -> None:
    wide = FloatFormat("int4", 1, 2, -1, "integer")
    assert (wide.bits, wide.max, wide.min_normal, wide.min_subnormal) == (4, 7.0, 4.0, 1.0)
