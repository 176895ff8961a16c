"""The directory of a zip archive: where each member's bytes are.

Python's own reader is not used: it cannot say where a stored member lies, so that it could be read
in place, and it insists on headers that training tools do not write. An archive with ambiguous or
climbing names is refused as a whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope.dumps.scratch import InflatedSource
from numscope.dumps.sources import PartSource, read_bytes
from numscope.errors import CutShort, DumpError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numscope.dumps.scratch import Scratch
    from numscope.dumps.sources import Source

MAGIC = b"PK\x03\x04"
MEMBER_LIMIT = 1_000_000
"""The most members an archive may have."""

DIRECTORY_LIMIT = 1 << 27
"""The most bytes that the list of members may have."""

_STORED, _DEFLATED = 0, 8
_END = struct.Struct("<4s4H2IH")
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_COMMENT_LIMIT = 1 << 16
_IN_ZIP64 = 0xFFFFFFFF
_IS_ENCRYPTED = 1


@dataclass(slots=True)
class Member:
    """One file in the archive, between `start`, where its local header begins, and `stop`."""

    name: str
    start: int
    packed_size: int
    size: int
    method: int
    is_encrypted: bool
    stop: int = 0


def read_directory(source: Source) -> dict[str, Member]:
    """List the members of a zip archive.

    Raises
    ------
    DumpError
        If there is no directory (the usual sign of a file that was cut short), or if it is damaged,
        names a member twice, names one outside of the archive, or two that share bytes.
    """
    start, size = _find_directory(source)
    if size > DIRECTORY_LIMIT:
        raise DumpError(f"has a directory of {size} bytes; at most {DIRECTORY_LIMIT} are read")
    data = read_bytes(source, start, size)
    members: dict[str, Member] = {}
    place = 0
    while place + _ENTRY.size <= len(data):
        member, place = _read_entry(data, place)
        if member.name in members:
            raise DumpError(f"is a zip archive with two members called {member.name!r}; refused")
        if ".." in member.name.split("/") or member.name.startswith("/") or "\\" in member.name:
            raise DumpError(f"is a zip archive with the member {member.name!r}; refused")
        if member.start + _LOCAL.size + member.packed_size > start:
            raise DumpError(f"is damaged: member {member.name!r} lies outside of the archive")
        members[member.name] = member
        if len(members) > MEMBER_LIMIT:
            raise DumpError(f"has more than {MEMBER_LIMIT} members")
    if place != len(data):
        raise DumpError(
            "is damaged: the directory of the zip archive ends in the middle of an entry"
        )
    _set_stops(members.values(), start)
    return members


def _set_stops(members: Iterable[Member], end: int) -> None:
    """Say of every member where the next one begins.

    Raises
    ------
    DumpError
        If two share bytes: of a small archive with such members, endless data could be unpacked.
    """
    stop = end
    for member in sorted(members, key=lambda member: member.start, reverse=True):
        if member.start + _LOCAL.size + member.packed_size > stop:
            raise DumpError(f"is a zip archive whose member {member.name!r} overlaps the next one")
        member.stop = stop
        stop = member.start


def open_member(source: Source, member: Member, scratch: Scratch) -> Source:
    """Give the bytes of a member: in place if it is stored, else unpacked when they are first read.

    Raises
    ------
    DumpError
        If it is encrypted, packed in a way other than deflate, or unpacks to far more than it is.
    """
    local = read_bytes(source, member.start, _LOCAL.size)
    if len(local) < _LOCAL.size or local[:4] != MAGIC:
        raise DumpError(f"is damaged: no header where member {member.name!r} should begin")
    # Names and extra fields may be padded here only, to align the data; sizes may be missing here.
    name_size, extra_size = _LOCAL.unpack(local)[-2:]
    start = member.start + _LOCAL.size + name_size + extra_size
    if start + member.packed_size > member.stop:
        raise DumpError(f"is damaged: member {member.name!r} runs into what is behind it")
    if member.is_encrypted:
        raise DumpError(f"has the encrypted member {member.name!r}")
    packed = PartSource(source, start, member.packed_size)
    if member.method == _STORED and member.size == member.packed_size:
        return packed
    if member.method == _DEFLATED:
        return InflatedSource.within_limits(packed, member.size, scratch, what=member.name)
    raise DumpError(
        f"has the member {member.name!r}, packed in a way that is not read (neither "
        "stored nor deflated)"
    )


def _find_directory(source: Source) -> tuple[int, int]:
    """Find where the directory starts and how many bytes it has."""
    for tail_size in (_END.size + _END64_LOCATOR.size, _COMMENT_LIMIT + _END.size):
        tail_start = max(0, source.size - tail_size)
        tail = read_bytes(source, tail_start, tail_size)
        place = tail.rfind(b"PK\x05\x06")
        if 0 <= place <= len(tail) - _END.size:
            break
    else:
        raise CutShort(
            "is cut short or damaged: the directory at the end of the archive is missing"
        )
    *_, size, start, _ = _END.unpack_from(tail, place)
    end = tail_start + place
    locator = read_bytes(source, max(0, end - _END64_LOCATOR.size), _END64_LOCATOR.size)
    if locator[:4] == b"PK\x06\x07":
        record = read_bytes(source, _END64_LOCATOR.unpack(locator)[2], _END64.size)
        if len(record) < _END64.size or record[:4] != b"PK\x06\x06":
            raise DumpError(
                "is damaged: the directory of the zip archive is not where it should be"
            )
        size, start = _END64.unpack(record)[-2:]
    if start + size > end:
        raise DumpError("is damaged: the directory of the zip archive is not where it should be")
    return start, size


def _read_entry(data: bytes, place: int) -> tuple[Member, int]:
    """Read one entry of the directory, and say where the next one begins."""
    fields = _ENTRY.unpack_from(data, place)
    magic, flags, method = fields[0], fields[3], fields[4]
    packed_size, size, name_size, extra_size, comment_size = fields[8:13]
    start = fields[-1]
    if magic != b"PK\x01\x02":
        raise DumpError("is damaged: the directory of the zip archive cannot be read")
    place += _ENTRY.size
    name = data[place : place + name_size].decode("utf-8", "replace")
    extra = data[place + name_size : place + name_size + extra_size]
    size, packed_size, start = _zip64(extra, [size, packed_size, start])
    member = Member(name, start, packed_size, size, method, bool(flags & _IS_ENCRYPTED))
    return member, place + name_size + extra_size + comment_size


def _zip64(extra: bytes, values: list[int]) -> list[int]:
    """Replace values that do not fit into 32 bits by those of the extra field for zip64."""
    place = 0
    while place + 4 <= len(extra):
        tag, size = struct.unpack_from("<2H", extra, place)
        place += 4
        if tag == 1:
            data = extra[place : place + size]
            wide = [item for (item,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8])]
            return [wide.pop(0) if item == _IN_ZIP64 and wide else item for item in values]
        place += size
    return values
