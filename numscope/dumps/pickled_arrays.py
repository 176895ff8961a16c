"""NumPy arrays inside pickles, as people save them beside tensors or instead of them.

Their values are in the pickle itself, whose size is limited. NumPy is not called to build them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numscope.dumps import bounds, npy
from numscope.dumps.arrays import StoredArray
from numscope.dumps.pickled_values import Broken, Builder, Global, Stateful
from numscope.dumps.sources import MemorySource
from numscope.errors import DumpError

_ORDERS = ("<", ">", "=", "|")
_CODE_LIMIT = 64


@dataclass(slots=True)
class PickledType(Stateful):
    """A dtype: its code or the name of its class, and the byte order that its state says."""

    code: str
    order: str = "="

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take the byte order out of (version, order, ...)."""
        if state[1] in _ORDERS:
            self.order = state[1]


@dataclass(frozen=True, slots=True)
class EncodedText:
    """Bytes as protocols before 3 write them: a text of their characters, encoded when it is read.

    As often as a pickle may name the same text, no copy of it is made.
    """

    text: str

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return len(self.text)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from `offset` on.

        Raises
        ------
        DumpError
            If a character stands for no byte.
        """
        part = self.text[offset : offset + len(target)]
        try:
            MemorySource(part.encode("latin-1")).read_into(target, 0)
        except UnicodeEncodeError as error:
            raise DumpError("has bytes written as text that is not theirs") from error


@dataclass(slots=True)
class PickledArray(Stateful):
    """An array; whether its parts are what they should be is only known to `stored_array`."""

    shape: Any = ()
    dtype: Any = None
    is_fortran: Any = False
    data: Any = b""

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take over (version, shape, dtype, is_fortran, data)."""
        _, self.shape, self.dtype, self.is_fortran, self.data = state


def stored_array(array: PickledArray) -> StoredArray | None:
    """Describe the values of an array, `None` if it holds integers, texts or the like.

    Raises
    ------
    DumpError
        If it contradicts itself or holds objects.
    """
    if not isinstance(array.dtype, PickledType) or not isinstance(array.shape, tuple):
        raise DumpError("is a NumPy array that is not described as it should be")
    if not bounds.are_sizes(array.shape):
        raise DumpError("is a NumPy array whose shape is no whole numbers from 0 on")
    values = npy.values_of(_descr(array.dtype), None)
    if values is None:
        return None
    data = array.data
    source = MemorySource(data) if isinstance(data, (bytes, bytearray)) else data
    if not isinstance(source, (MemorySource, EncodedText)):
        raise DumpError("is a NumPy array without its bytes")
    if source.size != math.prod(array.shape) * values.itemsize:
        shape = bounds.shown(list(array.shape))
        raise DumpError(f"is a NumPy array of shape {shape} and {source.size} bytes")
    return npy.array_of(source, 0, values, array.shape, is_fortran=bool(array.is_fortran))


def _descr(dtype: PickledType) -> str:
    """Write a dtype as an .npy header does: `<f4`, or the name of a type of ml_dtypes."""
    return dtype.code if len(dtype.code) > 3 else dtype.order.replace("=", "<") + dtype.code


def _reconstruct(*_: Any) -> PickledArray:
    return PickledArray()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> PickledArray:
    return PickledArray(shape, dtype, order == "F", data)


def _dtype(code: Any, *_: Any) -> PickledType | Broken:
    name = code.name if isinstance(code, Global) and code.module == "ml_dtypes" else code
    if not isinstance(name, str) or len(name) > _CODE_LIMIT:
        return Broken("has an unknown NumPy dtype")
    return PickledType(name)


def _encode(text: Any, _codec: Any = "latin1") -> EncodedText:
    return EncodedText(text if isinstance(text, str) else "")


_CORES = ("numpy.core", "numpy._core")

ARRAY_BUILDERS: dict[Global, Builder] = {
    Global("numpy", "dtype"): _dtype,
    Global("_codecs", "encode"): _encode,
    **{Global(f"{core}.multiarray", "_reconstruct"): _reconstruct for core in _CORES},
    **{Global(f"{core}.numeric", "_frombuffer"): _from_buffer for core in _CORES},
}
"""What the pickles of arrays call. Each is a pure function of plain values."""
