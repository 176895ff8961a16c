"""The safetensors format: an 8-byte length, a JSON header, and the tensors side by side.

A file is either wholly as the format says or refused. The library's own loader is not used: it
knows no bfloat16 or float8 in NumPy and reads whole tensors.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from numscope.dumps import bounds
from numscope.dumps.arrays import StoredArray, contiguous_array, packed_array
from numscope.dumps.contents import NOT_FLOATING, Contents, Remark
from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.sources import Source, read_bytes
from numscope.errors import CutShort, DumpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numscope.dumps.contents import Opened
    from numscope.dumps.refs import Key

HEADER_LIMIT = 100_000_000
"""The format's own limit, in bytes."""

_FIRST_READ = 4096
_SIZE_LIMIT = 1 << 64


@dataclass(frozen=True, slots=True)
class _Type:
    """How many bits a value takes in the file, and the floating-point type it is, if it is one."""

    bits: int
    name: str | None = None


_TYPES = {
    "BOOL": _Type(8),
    "U8": _Type(8),
    "I8": _Type(8),
    "U16": _Type(16),
    "I16": _Type(16),
    "U32": _Type(32),
    "I32": _Type(32),
    "U64": _Type(64),
    "I64": _Type(64),
    "C64": _Type(64),
    "F64": _Type(64, "float64"),
    "F32": _Type(32, "float32"),
    "F16": _Type(16, "float16"),
    "BF16": _Type(16, "bfloat16"),
    "F8_E4M3": _Type(8, "float8_e4m3fn"),
    "F8_E5M2": _Type(8, "float8_e5m2"),
    "F8_E4M3FNUZ": _Type(8, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": _Type(8, "float8_e5m2fnuz"),
    "F8_E8M0": _Type(8, "float8_e8m0fnu"),
    "F6_E2M3": _Type(6, "float6_e2m3fn"),
    "F6_E3M2": _Type(6, "float6_e3m2fn"),
    "F4": _Type(4, "float4_e2m1fn"),
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of the header: its bytes are `start` to `stop` of the data."""

    name: str
    type: _Type
    shape: tuple[int, ...]
    start: int
    stop: int


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does: a plausible length, then a JSON object."""
    return head[8:10] in (b'{"', b"{}") and int.from_bytes(head[:8], "little") <= HEADER_LIMIT


def read_contents(opened: Opened) -> Contents:
    """Read the header of a safetensors file.

    Raises
    ------
    DumpError
        If anything is not as the format says.
    """
    source = opened.source
    header, data_start = _read_header(source)
    metadata = _metadata(header.pop("__metadata__", {}))
    entries = [_entry(name, fields) for name, fields in header.items()]
    _check_layout(entries, source.size - data_start)
    arrays: dict[Key, StoredArray] = {}
    for entry in entries:
        if entry.type.name is not None:
            place = data_start + entry.start
            arrays[(entry.name,)] = _array(source, place, entry.shape, entry.type)
    others = frozenset((entry.name,) for entry in entries if entry.type.name is None)
    remarks = (Remark(NOT_FLOATING, count=len(others)),) if others else ()
    return Contents(arrays, metadata, remarks, others)


def _array(source: Source, offset: int, shape: tuple[int, ...], kind: _Type) -> StoredArray:
    dtype = FLOAT_TYPES[kind.name or ""]
    if kind.bits < 8:
        return packed_array(source, offset, dtype, shape, kind.bits)
    return contiguous_array(source, offset, dtype, shape, is_swapped=sys.byteorder == "big")


def _read_header(source: Source) -> tuple[dict[str, Any], int]:
    """Parse the header, and say where the data starts."""
    head = read_bytes(source, 0, _FIRST_READ)
    if len(head) < 8:
        raise CutShort(
            f"is no safetensors file: it has {source.size} bytes, the length alone takes 8"
        )
    size = int.from_bytes(head[:8], "little")
    if size > HEADER_LIMIT:
        raise DumpError(f"says that its header has {size} bytes; the format allows {HEADER_LIMIT}")
    if size > source.size - 8:
        raise CutShort(f"is cut short: a header of {size} bytes in a file of {source.size} bytes")
    text = head[8 : 8 + size] if size <= len(head) - 8 else read_bytes(source, 8, size)
    if text[:1] != b"{":
        raise DumpError("has a header that does not begin with '{'")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise DumpError("has a header that is not UTF-8") from error
    except RecursionError as error:
        raise DumpError("has a header that is nested too deeply") from error
    except ValueError as error:
        raise DumpError(f"has a header that is not JSON: {error}") from error
    return header, 8 + size


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, each of whose names stands for one thing only."""
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise DumpError(f"has a header that names {bounds.shown(twice)} twice")
    return result


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _metadata(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise DumpError("has __metadata__ that is not a table of strings")
    return value


def _entry(name: str, fields: object) -> _Entry:
    """Check one tensor's entry by itself."""
    if not bounds.is_key_part(name):
        raise DumpError(
            f"has a header with a name of {len(name)} characters; at most {bounds.TEXT_LIMIT} are "
            "read"
        )
    if not isinstance(fields, dict):
        raise DumpError(f"has a header whose entry {name!r} is not an object")
    code, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    kind = _TYPES.get(code) if isinstance(code, str) else None
    if kind is None:
        raise DumpError(
            f"tensor {name!r} has the unknown dtype {bounds.shown(code)}; known are "
            f"{', '.join(_TYPES)}"
        )
    if not _are_sizes(shape):
        raise DumpError(
            f"tensor {name!r} has the shape {bounds.shown(shape)}; a list of at most "
            f"{bounds.DIMENSION_LIMIT} whole numbers was expected"
        )
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[1] < offsets[0]:
        raise DumpError(
            f"tensor {name!r} has the data_offsets {bounds.shown(offsets)}; [begin, end] was "
            "expected"
        )
    entry = _Entry(name, kind, tuple(shape), *offsets)
    if _bits(entry) != 8 * (entry.stop - entry.start):
        raise DumpError(
            f"tensor {name!r} of shape {shape} and dtype {code} does not fit its "
            f"{entry.stop - entry.start} bytes"
        )
    return entry


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    """Whether this is a list of whole numbers from 0 on; `true` is none."""
    return isinstance(value, list) and bounds.are_sizes(value)


def _bits(entry: _Entry) -> int:
    """How many bits the values take; the format forbids products that overflow on the way."""
    bits = entry.type.bits
    for length in entry.shape:
        bits *= length
        if bits >= 8 * _SIZE_LIMIT:
            raise DumpError(
                f"tensor {entry.name!r} has the shape {list(entry.shape)}, which overflows"
            )
    return bits


def _check_layout(entries: list[_Entry], size: int) -> None:
    """Check that the tensors cover the data once, without holes."""
    end = 0
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.stop)):
        if entry.start != end:
            what = "overlaps the one before it" if entry.start < end else "leaves a hole before it"
            raise DumpError(f"tensor {entry.name!r} {what}")
        end = entry.stop
    if end > size:
        raise CutShort(f"is cut short: {end} bytes of tensors were announced, {size} are there")
    if end < size:
        raise DumpError(f"has bytes behind its last tensor: {size - end}")
