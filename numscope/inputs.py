"""The types that a tensor's values can have, and what recipes want to know about them.

Nothing here reads a tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether the type holds real floating-point numbers: NumPy's own or those of ml_dtypes."""
    if dtype.kind == "f":
        return dtype.itemsize <= 8
    return dtype.kind == "V" and dtype.names is None and _finite_max(dtype) is not None


def largest_input(dtype: np.dtype[Any]) -> float:
    """Largest finite value of the input's dtype, in float32's range."""
    largest = _finite_max(dtype)
    float32_max = float(np.finfo(np.float32).max)
    return float32_max if largest is None else min(largest, float32_max)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic in the input's dtype rounds more than float32: float16 and bfloat16.

    Nobody computes in a narrower one.
    """
    return dtype.name in ("float16", "bfloat16")


def round_to_input(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values rounded to the input's dtype if that is narrow, in their own dtype."""
    return values.astype(dtype).astype(values.dtype) if is_narrow(dtype) else values


def _finite_max(dtype: np.dtype[Any]) -> float | None:
    """Largest finite value of a float dtype, `None` for other types."""
    try:
        return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    except (TypeError, ValueError, KeyError):
        return None
