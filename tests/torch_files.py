"""Files as `torch.save` writes them, put together opcode by opcode: any part can be made wrong."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MARK, TUPLE, REDUCE, STOP, PERSISTENT = b"(", b"t", b"R", b".", b"Q"
LEGACY_MAGIC = 119547037146038801333356


def plain(value: Any) -> bytes:
    """The opcodes that put a plain value on the stack."""
    return pickle.dumps(value, protocol=2)[2:-1]


def name(module: str, attribute: str) -> bytes:
    """The opcodes of something importable."""
    return f"c{module}\n{attribute}\n".encode()


def group(*parts: bytes) -> bytes:
    """A tuple."""
    return MARK + b"".join(parts) + TUPLE


def call(function: bytes, *arguments: bytes) -> bytes:
    """A call."""
    return function + group(*arguments) + REDUCE


def dictionary(items: dict[Any, bytes]) -> bytes:
    """A dictionary."""
    return b"}" + MARK + b"".join(plain(key) + value for key, value in items.items()) + b"u"


EMPTY_HOOKS = call(name("collections", "OrderedDict"))


@dataclass(frozen=True)
class Tensor:
    """A tensor to write; fields that are not given are those of a plain tensor of `values`."""

    values: np.ndarray[Any, Any]
    storage: str = "FloatStorage"
    key: str = "0"
    size: Any = None
    stride: Any = None
    offset: Any = 0
    count: Any = None
    location: str = "cpu"
    dtype: str | None = None

    def opcodes(self) -> bytes:
        """Its pickle."""
        module = "torch.storage" if self.storage == "UntypedStorage" else "torch"
        item = 1 if self.storage == "UntypedStorage" else self.values.itemsize
        count = self.values.nbytes // item if self.count is None else self.count
        identifier = group(
            plain("storage"),
            name(module, self.storage),
            plain(self.key),
            plain(self.location),
            plain(count),
        )
        strides = tuple(step // self.values.itemsize for step in self.values.strides)
        view = (
            identifier + PERSISTENT,
            plain(self.offset),
            plain(self.values.shape if self.size is None else self.size),
            plain(strides if self.stride is None else self.stride),
            plain(False),
            EMPTY_HOOKS,
        )
        if self.dtype is None:
            return call(name("torch._utils", "_rebuild_tensor_v2"), *view)
        return call(name("torch._utils", "_rebuild_tensor_v3"), *view, name("torch", self.dtype))


@dataclass
class TorchFile:
    """A file of one object: its opcodes, its storages, and how they are packed."""

    opcodes: bytes
    storages: dict[str, bytes] = field(default_factory=dict)
    root: str = "archive"
    byteorder: str = "little"
    compression: int = zipfile.ZIP_STORED

    def zip_bytes(self) -> bytes:
        """The archive that PyTorch writes since 1.6."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", self.compression) as archive:
            archive.writestr(f"{self.root}/data.pkl", b"\x80\x02" + self.opcodes + STOP)
            archive.writestr(f"{self.root}/byteorder", self.byteorder)
            for key, data in self.storages.items():
                archive.writestr(f"{self.root}/data/{key}", data)
            archive.writestr(f"{self.root}/version", "3\n")
        return file.getvalue()

    def legacy_bytes(self, itemsize: int) -> bytes:
        """The pickles and storages that PyTorch wrote before."""
        system = {"protocol_version": 1001, "little_endian": self.byteorder == "little"}
        parts = [
            b"\x80\x02\x8a\x0a" + LEGACY_MAGIC.to_bytes(10, "little") + STOP,
            pickle.dumps(1001, 2),
            pickle.dumps(system, 2),
            b"\x80\x02" + self.opcodes + STOP,
            pickle.dumps(list(self.storages), 2),
        ]
        for data in self.storages.values():
            parts += [(len(data) // itemsize).to_bytes(8, "little"), data]
        return b"".join(parts)


def file_of(**tensors: Tensor) -> TorchFile:
    """A dictionary of tensors, each with a storage of its own unless they share a key."""
    return TorchFile(
        dictionary({key: tensor.opcodes() for key, tensor in tensors.items()}),
        {tensor.key: tensor.values.tobytes() for tensor in tensors.values()},
    )


def colliding_pairs(count: int) -> list[tuple[int, int]]:
    """Pairs of numbers that Python hashes alike, by solving what it does with the second."""
    prime_1, prime_2, prime_5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
    mask = (1 << 64) - 1
    inverse = pow(prime_2, -1, 1 << 64)
    pairs: list[tuple[int, int]] = []
    first = 0
    while len(pairs) < count:
        acc = (prime_5 + first * prime_2) & mask
        acc = ((acc << 31 | acc >> 33) & mask) * prime_1 & mask
        second = (0x123456789ABCDEF - acc) * inverse & mask
        if second < (1 << 61) - 1:
            pairs.append((first, second))
        first += 1
    return pairs
