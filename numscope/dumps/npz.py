"""The .npz format: a zip archive of .npy files, one for each name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numscope.dumps import npy, zips
from numscope.dumps.contents import Contents, Remark
from numscope.errors import DumpError

if TYPE_CHECKING:
    from numscope.dumps.arrays import StoredArray
    from numscope.dumps.contents import Opened
    from numscope.dumps.refs import Key

_SUFFIX = ".npy"


def looks_like(head: bytes) -> bool:
    """Whether a file begins as a zip archive whose first member is an .npy file."""
    name_size = int.from_bytes(head[26:28], "little")
    return head.startswith(zips.MAGIC) and head[30 : 30 + name_size].endswith(_SUFFIX.encode())


def read_contents(opened: Opened) -> Contents:
    """Read the headers of all arrays in the archive.

    Raises
    ------
    DumpError
        If the archive is damaged; an array that cannot be read is a remark.
    """
    arrays: dict[Key, StoredArray] = {}
    remarks: list[Remark] = []
    others: set[Key] = set()
    for name, member in zips.read_directory(opened.source).items():
        key: Key = (name.removesuffix(_SUFFIX),)
        if not name.endswith(_SUFFIX):
            remarks.append(Remark("members of .npz archives that are no .npy file", count=1))
            continue
        try:
            source = zips.open_member(opened.source, member, opened.scratch)
            array, remark = npy.read_array(source, opened.npy_dtype)
        except DumpError as error:
            array, remark = None, Remark(str(error), key=key, failure=True)
        if remark is not None:
            remarks.append(remark)
        if array is not None:
            arrays[key] = array
        else:
            others.add(key)
    return Contents(arrays, remarks=tuple(remarks), passed_over=frozenset(others))
