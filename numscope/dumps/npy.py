"""The .npy format: a magic string, a Python literal that describes the array, and its bytes.

NumPy's own reader is not used: it refuses `<f1`, loses the meaning of ml_dtypes' types, and can be
told to unpickle. Object arrays are refused here, always.
"""

from __future__ import annotations

import ast
import math
import re
import struct
import sys
from dataclasses import dataclass

from numscope.dumps import bounds
from numscope.dumps.arrays import StoredArray, strided_array
from numscope.dumps.contents import NOT_FLOATING, Contents, Opened, Remark
from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.sources import Source, read_bytes
from numscope.errors import CutShort, DumpError

MAGIC = b"\x93NUMPY"
HEADER_LIMIT = 1 << 16
"""Far above what an array of floats can need, in bytes."""

_DESCR = re.compile(r"([<>|=]?)([a-zA-Z])([0-9]{0,4})")
_NO_FLOATS = re.compile(
    r"[<>|=]?(?:[biuc][0-9]{1,2}|[SUa][0-9]{0,10}|[mM]8(?:\[[0-9]{0,9}[a-zA-Z]{1,9}\])?)"
)
"""Integers, booleans, complex numbers, texts and times such as `M8[ns]`."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the values of a descr are, by the name and the bytes of their floating-point type."""

    name: str
    itemsize: int
    order: str = "<"


_TYPES = {
    "f8": "float64",
    "f4": "float32",
    "f2": "float16",
    "f1": "float8_e5m2",
    "V2": "bfloat16",
}
"""What a descr means without being told. ml_dtypes writes bfloat16 as V2 and float8_e5m2 as f1."""

_UNCERTAIN = {
    "V2": "arrays of descr V2 taken as bfloat16",
    "f1": "arrays of descr f1 taken as float8_e5m2",
}

_BITS = ("V1", "V2", "u1", "i1", "u2", "i2", "f1")
"""What may hold the bits of a type that NumPy does not know, and is read as that if it is named."""

_NEEDS_NAME = {"V1": "float8_e4m3fn", "u2": "bfloat16", "i2": "bfloat16"}
"""What has to be named, and what it often is."""


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(MAGIC)


def read_contents(opened: Opened) -> Contents:
    """Read the header of an .npy file.

    Raises
    ------
    DumpError
        If anything is not as the format says, or the array holds no floating-point values.
    """
    array, remark = read_array(opened.source, opened.npy_dtype)
    return Contents({(): array} if array else {}, remarks=(remark,) if remark else ())


def read_array(source: Source, npy_dtype: str | None) -> tuple[StoredArray | None, Remark | None]:
    """Read one array's header; the array is `None` if it holds integers or the like.

    Parameters
    ----------
    npy_dtype
        What arrays of raw bytes or of 8- or 16-bit integers hold, such as `bfloat16`.

    Raises
    ------
    CutShort
        If it ends before its last value.
    DumpError
        As `read_contents`.
    """
    descr, is_fortran, shape, start = _read_header(source)
    values = values_of(descr, npy_dtype)
    if values is None:
        return None, Remark(NOT_FLOATING, count=1)
    needed, available = math.prod(shape) * values.itemsize, source.size - start
    if needed > available:
        raise CutShort(f"is cut short: {needed} bytes were announced, {available} are there")
    array = array_of(source, start, values, shape, is_fortran=is_fortran)
    message = _UNCERTAIN.get(str(descr)[-2:]) if npy_dtype is None else None
    return array, Remark(message, count=1) if message else None


def array_of(
    source: Source, start: int, values: Values, shape: tuple[int, ...], *, is_fortran: bool
) -> StoredArray:
    """Describe an array by NumPy's own terms.

    Raises
    ------
    DumpError
        If it does not lie inside `source`.
    """
    strides = tuple(
        math.prod(shape[:axis] if is_fortran else shape[axis + 1 :]) for axis in range(len(shape))
    )
    is_swapped = values.order == (">" if sys.byteorder == "little" else "<")
    dtype = FLOAT_TYPES[values.name]
    return strided_array(source, start, dtype, shape, strides, is_swapped=is_swapped)


def _read_header(source: Source) -> tuple[object, bool, tuple[int, ...], int]:
    """Read the fields descr, fortran_order and shape, and where the data starts."""
    head = read_bytes(source, 0, 12)
    if not head.startswith(MAGIC) or len(head) < 10:
        raise DumpError("is no .npy file: it does not begin with \\x93NUMPY")
    version = head[6]
    if version not in (1, 2, 3):
        raise DumpError(f"is of the .npy version {version}; versions 1 to 3 are known")
    length_format = "<H" if version == 1 else "<I"
    start = 8 + struct.calcsize(length_format)
    size = struct.unpack_from(length_format, head.ljust(12, b"\0"), 8)[0]
    if size > HEADER_LIMIT:
        raise DumpError(f"has a header of {size} bytes; at most {HEADER_LIMIT} are read")
    text = read_bytes(source, start, size)
    if len(text) < size:
        raise CutShort("is cut short within its header")
    return *_fields(text.decode("utf-8" if version == 3 else "latin-1", "replace")), start + size


def _fields(text: str) -> tuple[object, bool, tuple[int, ...]]:
    """Parse the header, which is a Python literal and never evaluated."""
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise DumpError("has a header that is not a literal") from error
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise DumpError("has a header without exactly descr, fortran_order and shape")
    shape, is_fortran = header["shape"], header["fortran_order"]
    if not isinstance(shape, tuple) or not bounds.are_sizes(shape):
        raise DumpError(
            f"has the shape {bounds.shown(shape)}; a tuple of at most {bounds.DIMENSION_LIMIT} "
            "whole numbers below 2**63 was expected"
        )
    if not isinstance(is_fortran, bool):
        raise DumpError(
            f"has the fortran_order {bounds.shown(is_fortran)}; True or False was expected"
        )
    return header["descr"], is_fortran, shape


def values_of(descr: object, npy_dtype: str | None) -> Values | None:
    """Say what the values are, by a descr such as `<f4`; `None` if no floating-point numbers.

    Raises
    ------
    DumpError
        If that cannot be known, or they are records or pickled objects.
    """
    if isinstance(descr, str) and descr in FLOAT_TYPES:
        return Values(descr, FLOAT_TYPES[descr].itemsize)
    if isinstance(descr, str) and _is_passed_over(descr, npy_dtype):
        return None
    match = _DESCR.fullmatch(descr) if isinstance(descr, str) else None
    if match is None:
        raise DumpError(
            f"holds records or an unknown type ({bounds.shown(descr)}), not one floating-point type"
        )
    order, letter, size = match.groups()
    code = letter + size
    if letter == "O":
        raise DumpError(
            "holds pickled Python objects, which are never loaded; save a numeric array"
        )
    if npy_dtype is not None and code in _BITS and FLOAT_TYPES[npy_dtype].itemsize == int(size):
        return Values(npy_dtype, int(size), order)
    if code in _TYPES:
        return Values(_TYPES[code], int(size), order)
    if code in _NEEDS_NAME:
        raise DumpError(
            f"has the descr {code}, which does not say what the values are; "
            f"--npy-dtype {_NEEDS_NAME[code]} would read them as that"
        )
    raise DumpError(f"has values of descr {code}; known are {', '.join(_TYPES)}")


def _is_passed_over(descr: str, npy_dtype: str | None) -> bool:
    """Whether a descr is that of no floats, nor of bits that are or should be said to be some."""
    code = descr.lstrip("<>|=")
    if code in _NEEDS_NAME or _NO_FLOATS.fullmatch(descr) is None:
        return False
    is_bits = npy_dtype is not None and code in _BITS
    return not (is_bits and FLOAT_TYPES[npy_dtype or ""].itemsize == int(code[1:]))
