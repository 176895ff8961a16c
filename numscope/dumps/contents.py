"""What one opened dump file holds, whatever its format: the value between a format and its users.

Nothing here reads a file, and nothing here knows what a key means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numscope.dumps.arrays import StoredArray
    from numscope.dumps.refs import Key
    from numscope.dumps.scratch import Scratch
    from numscope.dumps.sources import Source


@dataclass(frozen=True, slots=True)
class Opened:
    """What a format is given to read a file.

    Attributes
    ----------
    source
        The bytes of the file.
    scratch
        Room for what is stored compressed; lives as long as the file is open.
    npy_dtype
        What NumPy arrays of raw bytes or of 8- and 16-bit integers hold, if the user said so.
    """

    source: Source
    scratch: Scratch
    npy_dtype: str | None = None


#: The remark about integers, booleans and complex numbers, which are counted and left alone.
NOT_FLOATING = "tensors of no float type passed over"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a file that its reader should hear of.

    Attributes
    ----------
    message
        One line. With a `count` it names what was counted: `NOT_FLOATING`.
    count
        How many things it is about, 0 if that is not the point; counts of many files are added.
    key
        The tensor it is about, or `None` for the file.
    failure
        Whether data is missing because of it.
    """

    message: str
    count: int = 0
    key: Key | None = None
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds.

    Attributes
    ----------
    arrays
        Its floating-point tensors, in the order of the file.
    metadata
        What it says about itself.
    remarks
        What its reader should hear of.
    passed_over
        The keys of what is in the file and no floating-point tensor.
    """

    arrays: Mapping[Key, StoredArray]
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    remarks: tuple[Remark, ...] = ()
    passed_over: frozenset[Key] = frozenset()
