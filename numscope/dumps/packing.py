"""Values of 4 or 6 bits that share bytes, the first value in the lowest bits.

That is how safetensors and torch's `float4_e2m1fn_x2` lay them out. Nothing here knows what they
mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 1 << 18
"""How many values are unpacked at once."""


def unpack(packed: NDArray[np.uint8], bits: int, first: int, codes: NDArray[np.uint8]) -> None:
    """Spread values over one byte each.

    Parameters
    ----------
    packed
        The bytes.
    bits
        How many a value takes, up to 8.
    first
        The bit of `packed` that the first value begins at.
    codes
        One byte for each value, filled.
    """
    for start in range(0, len(codes), _CHUNK):
        target = codes[start : start + _CHUNK]
        places = first + bits * np.arange(start, start + len(target))
        low = packed[places // 8].astype(np.uint16)
        high = packed[np.minimum(places // 8 + 1, len(packed) - 1)].astype(np.uint16)
        pairs = low | (high << np.uint16(8))
        target[:] = (pairs >> (places % 8).astype(np.uint16)) & ((1 << bits) - 1)
