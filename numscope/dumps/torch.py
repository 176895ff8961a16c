"""The files of `torch.save`, read without PyTorch: the zip archives of today and what came before.

Nothing in a file is executed (see `pickles`), and there is no way around that. Storages are read
where they are; a tensor that contradicts its storage is reported and the others are still read.
"""

from __future__ import annotations

import io
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numscope.dumps import bounds, trees, zips
from numscope.dumps.arrays import StoredArray, packed_array, strided_array
from numscope.dumps.contents import NOT_FLOATING, Contents, Opened, Remark
from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.pickled_arrays import PickledArray, stored_array
from numscope.dumps.pickled_values import Broken, Unknown
from numscope.dumps.pickles import read_pickle
from numscope.dumps.sources import PartSource, Source, read_bytes
from numscope.dumps.torch_values import BUILDERS, Storage, Tensor, is_storage_key, load_storage
from numscope.errors import CutShort, DumpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numscope.dumps.refs import Key

PICKLE_LIMIT = 1 << 26
"""The most bytes of a pickle that are read: it holds names and shapes, not values."""

_EXPANDED_LIMIT = 1 << 34
"""The most bytes of a view that repeats its storage: more would take ages and say nothing."""

_LEGACY_MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"
_LEGACY_PROTOCOL = 1001
_WINDOWS = (1 << 14, 1 << 20, PICKLE_LIMIT)

_OPTIMIZER_KEYS = {
    "optimizer",
    "optimizer_state_dict",
    "optimizer_states",
    "optim",
    "optimizer_state",
}
_CODE_MEMBERS = ("constants.pkl", "code/")


@dataclass(frozen=True, slots=True)
class _Archive:
    """The object a file holds, the way to its storages, and whether their bytes are swapped."""

    tree: Any
    open_storage: Callable[[Storage], Source]
    is_swapped: bool


def looks_like(head: bytes) -> bool:
    """Whether a file begins as one that `torch.save` wrote."""
    return head.startswith(_LEGACY_MAGIC) or (head.startswith(zips.MAGIC) and b"/data.pkl" in head)


def read_contents(opened: Opened) -> Contents:
    """Read what is in a file, but no values.

    Raises
    ------
    DumpError
        If it is damaged, or something else than a file of tensors.
    """
    head = read_bytes(opened.source, 0, len(_LEGACY_MAGIC))
    work = bounds.Work()
    if head.startswith(_LEGACY_MAGIC):
        archive = _read_legacy(opened.source, work)
    elif head.startswith(zips.MAGIC[:2]):
        archive = _read_zip(opened, work)
    elif head[:1] == b"\x80":
        raise DumpError("is a plain pickle, which could run anything; save tensors with torch.save")
    else:
        raise DumpError("is no file of torch.save")
    _refuse_checkpoint(archive.tree)
    return _contents(archive, work)


def _contents(archive: _Archive, work: bounds.Work) -> Contents:
    """Resolve every tensor of the tree."""
    leaves = trees.leaves(archive.tree, work)
    arrays: dict[Key, StoredArray] = {}
    remarks: list[Remark] = []
    passed_over: set[Key] = set()
    for key, tensor in leaves.tensors:
        if key in arrays or key in passed_over:
            remarks.append(Remark("has the key of another tensor; left out", key=key, failure=True))
            continue
        try:
            array = _array(archive, tensor)
        except DumpError as error:
            remarks.append(Remark(str(error), key=key, failure=True))
            continue
        if array is None:
            passed_over.add(key)
        else:
            arrays[key] = array
    remarks.extend(Remark(item.message, key=key, failure=True) for key, item in leaves.broken)
    if passed_over:
        remarks.append(Remark(NOT_FLOATING, count=len(passed_over)))
    remarks.extend(leaves.remarks)
    return Contents(arrays, leaves.metadata, tuple(remarks), frozenset(passed_over))


def _array(archive: _Archive, tensor: Tensor | PickledArray) -> StoredArray | None:
    """Find the values of a tensor in its file, `None` for integers and the like.

    Raises
    ------
    DumpError
        If the storage is missing or too small for the tensor.
    """
    if isinstance(tensor, PickledArray):
        return stored_array(tensor)
    kind = tensor.kind
    if kind.name is None:
        return None
    bounds.check_shape(tensor.size, kind.itemsize)
    source = archive.open_storage(tensor.storage)
    nbytes = math.prod(tensor.size) * kind.itemsize
    if nbytes > _EXPANDED_LIMIT and nbytes > source.size:
        raise DumpError(f"is a view of {nbytes} bytes of a storage of {source.size}; refused")
    start = tensor.offset * kind.itemsize
    dtype = FLOAT_TYPES[kind.name]
    array = strided_array(
        source, start, dtype, tensor.size, tensor.stride, is_swapped=archive.is_swapped
    )
    if not kind.packed_bits:
        return array
    if array.strides is not None or not tensor.size:
        raise DumpError("is a strided view of values that share bytes, which is not read")
    shape = (*tensor.size[:-1], tensor.size[-1] * 8 // kind.packed_bits)
    return packed_array(source, start, dtype, shape, kind.packed_bits)


def _refuse_checkpoint(tree: Any) -> None:
    """Say so if a file is a checkpoint to go on training from.

    Raises
    ------
    DumpError
        If it holds the state of an optimizer.
    """
    found = _OPTIMIZER_KEYS.intersection(tree) if isinstance(tree, dict) else None
    if found:
        raise DumpError(
            f"is a full training checkpoint (it has {min(found)!r}), not a dump of activations or "
            "gradients"
        )


def _read_zip(opened: Opened, work: bounds.Work) -> _Archive:
    """Read the archives of PyTorch 1.6 and later."""
    members = zips.read_directory(opened.source)
    pickles = [name for name in members if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise DumpError("is a zip archive without data.pkl, so it is no file of torch.save")
    root = pickles[0].removesuffix("data.pkl")
    if any(name.startswith(tuple(root + code for code in _CODE_MEMBERS)) for name in members):
        raise DumpError("is a TorchScript archive (a model with its code), not a dump of tensors")

    def read(name: str) -> bytes:
        member = members[name]
        if member.size > PICKLE_LIMIT:
            raise DumpError(f"has a {name} of {member.size} bytes; at most {PICKLE_LIMIT} are read")
        source = zips.open_member(opened.source, member, opened.scratch)
        return read_bytes(source, 0, source.size)

    sources: dict[str, Source] = {}  # of tensors that share one: it is unpacked once

    def open_storage(storage: Storage) -> Source:
        member = members.get(f"{root}data/{storage.key}")
        if member is None:
            raise DumpError("is in a storage that is missing from the file")
        _check_storage(storage, member.size)
        if storage.key not in sources:
            sources[storage.key] = zips.open_member(opened.source, member, opened.scratch)
        return sources[storage.key]

    order = read(root + "byteorder").strip() if root + "byteorder" in members else b"little"
    tree = read_pickle(read(pickles[0]), BUILDERS, load_storage, work)
    return _Archive(tree, open_storage, order.decode("latin-1") != sys.byteorder)


def _check_storage(storage: Storage, size: int) -> None:
    """Compare what the pickle says of a storage with what is there."""
    needed = storage.count * storage.kind.itemsize
    if needed != size:
        raise DumpError(f"is in a storage that should have {needed} bytes and has {size}")


def _read_legacy(source: Source, work: bounds.Work) -> _Archive:
    """Read the files of PyTorch before 1.6: five pickles, and then the storages one by one."""
    storages: dict[str, Storage] = {}

    def remember(identifier: Any) -> Storage | Broken | Unknown:
        storage = load_storage(identifier)
        if isinstance(storage, Storage):
            storages[storage.key] = storage
        return storage

    (_, protocol, system, tree, keys), start = _legacy_pickles(source, remember, work)
    if protocol != _LEGACY_PROTOCOL or not isinstance(system, dict) or not isinstance(keys, list):
        raise DumpError("is damaged: it does not begin as a file of torch.save does")
    if not all(map(is_storage_key, keys)):
        raise DumpError("is damaged: its list of storages holds something else")
    starts = _legacy_starts([str(key) for key in keys], storages, start)

    def open_storage(storage: Storage) -> Source:
        place = starts.get(storage.key)
        if place is None:
            raise DumpError("is in a storage that is missing from the file")
        count = int.from_bytes(read_bytes(source, place - 8, 8), "little")
        size = count * storage.kind.itemsize
        _check_storage(storage, size)
        if place + size > source.size:
            raise CutShort("is in a storage that is cut short")
        return PartSource(source, place, size)

    is_little = bool(system.get("little_endian", True))
    return _Archive(tree, open_storage, is_little != (sys.byteorder == "little"))


def _legacy_pickles(
    source: Source, load_persistent: Callable[[Any], Any], work: bounds.Work
) -> tuple[list[Any], int]:
    """Read the pickles, without reading much of what follows, and say where that begins."""
    for window in _WINDOWS:
        stream = io.BytesIO(read_bytes(source, 0, window))
        try:
            values = [read_pickle(stream, BUILDERS, load_persistent, work) for _ in range(5)]
        except DumpError:
            work.spend(0)  # what took too long is not a pickle that was cut off by the window
            if window >= source.size:
                break
        else:
            return values, stream.tell()
    raise CutShort("is cut short or damaged: its pickles do not end")


def _legacy_starts(keys: list[str], storages: dict[str, Storage], start: int) -> dict[str, int]:
    """Find where storages begin: each has 8 bytes before it, and a size that the pickle says."""
    starts: dict[str, int] = {}
    for key in keys:
        start += 8
        starts[key] = start
        if key not in storages:
            break
        start += storages[key].count * storages[key].kind.itemsize
    return starts
