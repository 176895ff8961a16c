"""The floating-point types that dumps are saved in, by their ml_dtypes or NumPy names.

This module must not know how a file format spells them; that stands beside each format.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

DType = np.dtype[Any]

FLOAT_TYPES: dict[str, DType] = {
    str(np.dtype(scalar)): np.dtype(scalar)
    for scalar in (
        np.float64,
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        ml_dtypes.float4_e2m1fn,
    )
}
"""Every type that a tensor can be read as; in memory a value of 4 or 6 bits takes a whole byte."""
