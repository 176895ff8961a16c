"""A tensor where it lies: read by rows, a bounded number of bytes at a time.

`StoredArray` must not keep anything of what it read; whoever wants the values twice reads twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from numscope import amounts
from numscope.dumps import bounds, packing, strided
from numscope.errors import DumpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.dumps.dtypes import DType
    from numscope.dumps.sources import Source


@dataclass(frozen=True, slots=True)
class StoredArray:
    """A tensor inside a source of bytes.

    Build it with `contiguous_array` or `strided_array`, which check that it lies inside its source.
    It is safe to read from several threads at once.

    Attributes
    ----------
    source
        Where its bytes come from.
    offset
        Of its first element, in bytes.
    dtype
        Of its values in memory, in native byte order.
    shape
        As saved; up to 64 dimensions.
    strides
        In elements, none negative; `None` if the elements lie in C order without gaps.
    is_swapped
        Whether the bytes of each element are in the other order than this machine's.
    packed_bits
        How many bits a value takes where bytes are shared by values, which then lie in C order,
        the first one in the lowest bits; 0 if each value has its own bytes.
    """

    source: Source
    offset: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    is_swapped: bool = False
    packed_bits: int = 0

    @property
    def rows(self) -> int:
        """The product of all dimensions but the last; 1 for tensors of one or no dimension."""
        return math.prod(self.shape[:-1])

    @property
    def cols(self) -> int:
        """The last dimension, 1 for a single number."""
        return self.shape[-1] if self.shape else 1

    @property
    def nbytes(self) -> int:
        """How many bytes the values take in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(
        self, row_start: int, row_stop: int, col_start: int = 0, col_stop: int | None = None
    ) -> NDArray[Any]:
        """Read a block of the tensor seen as `rows` x `cols`.

        Parameters
        ----------
        row_start, row_stop, col_start, col_stop
            The block, within the tensor; `None` is the last column.

        Returns
        -------
        NDArray
            C-contiguous, shape (row_stop - row_start, col_stop - col_start), of `dtype`.

        Raises
        ------
        IndexError
            If the block is not inside the tensor.
        DumpError
            If the file can no longer be read.
        """
        col_stop = self.cols if col_stop is None else col_stop
        if not (
            0 <= row_start <= row_stop <= self.rows and 0 <= col_start <= col_stop <= self.cols
        ):
            raise IndexError(
                f"rows {row_start}:{row_stop} and columns {col_start}:{col_stop} are not inside "
                f"{self.rows} x {self.cols}"
            )
        shape = (row_stop - row_start, col_stop - col_start)
        # ml_dtypes' arrays offer no buffer, so bytes are read and seen as the dtype afterwards.
        data = np.empty(shape[0] * shape[1] * self.dtype.itemsize, np.uint8)
        if data.size:
            self._read_into(data, row_start, col_start, shape)
        if self.is_swapped:
            data.view(f"u{self.dtype.itemsize}").byteswap(inplace=True)
        return data.view(self.dtype).reshape(shape)

    def _read_into(
        self, data: NDArray[np.uint8], row_start: int, col_start: int, shape: tuple[int, int]
    ) -> None:
        """Fill `data` with the bytes of a block that is not empty."""
        size = self.dtype.itemsize
        if self.packed_bits:
            self._unpack_into(data.reshape(shape), row_start, col_start)
            return
        if self.strides is None and (shape[1] == self.cols or shape[0] == 1):
            start = self.offset + (row_start * self.cols + col_start) * size
            self.source.read_into(data.data, start)
            return
        block = strided.Block(
            source=self.source,
            start=self.offset,
            rows=self._row_offsets(row_start, row_start + shape[0]),
            cols=self._col_stride * np.arange(col_start, col_start + shape[1]),
        )
        strided.gather(block, data.view(f"u{size}").reshape(shape))

    def _unpack_into(self, codes: NDArray[np.uint8], row_start: int, col_start: int) -> None:
        """Fill `codes` with a block of values that share bytes."""
        whole_rows = codes.shape[1] == self.cols
        for row, target in enumerate([codes.reshape(-1)] if whole_rows else codes, row_start):
            first = (row * self.cols + col_start) * self.packed_bits
            stop = first + len(target) * self.packed_bits
            packed = np.empty((stop + 7) // 8 - first // 8, np.uint8)
            self.source.read_into(packed.data, self.offset + first // 8)
            packing.unpack(packed, self.packed_bits, first % 8, target)

    @property
    def _col_stride(self) -> int:
        """How many elements two columns are apart."""
        return self.strides[-1] if self.strides else 1

    def _row_offsets(self, start: int, stop: int) -> NDArray[np.int64]:
        """Where rows begin, in elements."""
        index = np.arange(start, stop)
        if self.strides is None:
            return index * self.cols
        offsets = np.zeros_like(index)
        for length, stride in zip(self.shape[-2::-1], self.strides[-2::-1], strict=True):
            index, within = np.divmod(index, length)
            offsets += within * stride
        return offsets


def contiguous_array(
    source: Source, offset: int, dtype: DType, shape: tuple[int, ...], *, is_swapped: bool = False
) -> StoredArray:
    """Describe a tensor whose elements lie in C order without gaps.

    Raises
    ------
    DumpError
        If it does not lie inside `source`.
    """
    bounds.check_shape(shape, dtype.itemsize)
    if offset < 0 or offset + math.prod(shape) * dtype.itemsize > source.size:
        raise DumpError(f"has the shape {bounds.shown(list(shape))}, larger than what was saved")
    return StoredArray(source, offset, dtype, shape, is_swapped=is_swapped)


def packed_array(
    source: Source, offset: int, dtype: DType, shape: tuple[int, ...], bits: int
) -> StoredArray:
    """Describe a tensor of 4- or 6-bit values of which several share a byte, in C order.

    Raises
    ------
    DumpError
        If it does not lie inside `source`.
    """
    bounds.check_shape(shape, dtype.itemsize)
    if offset < 0 or offset + (math.prod(shape) * bits + 7) // 8 > source.size:
        raise DumpError(f"has the shape {bounds.shown(list(shape))}, larger than what was saved")
    return StoredArray(source, offset, dtype, shape, packed_bits=bits)


def strided_array(
    source: Source,
    offset: int,
    dtype: DType,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    is_swapped: bool = False,
) -> StoredArray:
    """Describe a view: transposed, expanded (stride 0), every other column, or plain C order.

    Parameters
    ----------
    offset
        Of the first element, in bytes.
    strides
        In elements, one for each dimension.

    Raises
    ------
    DumpError
        If any of its elements lies outside `source`.
    """
    if len(shape) != len(strides):
        raise DumpError(
            f"has {amounts.counted(len(shape), 'dimension')} but"
            f" {amounts.counted(len(strides), 'stride')}"
        )
    bounds.check_shape(shape, dtype.itemsize)
    if not (bounds.is_size(offset) and all(map(bounds.is_size, strides))):
        raise DumpError("has a stride or an offset that is negative or too large")
    # Python's integers do not overflow, and a view of terabytes of one value is legal.
    count = math.prod(shape)
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if count else -1
    if offset + (last + 1) * dtype.itemsize > source.size:
        raise DumpError(
            f"has the shape {bounds.shown(list(shape))} and strides {bounds.shown(list(strides))}, "
            "which leave the saved data"
        )
    plain = _c_strides(shape)
    is_plain = count == 0 or all(
        a == b or n == 1 for a, b, n in zip(strides, plain, shape, strict=True)
    )
    return StoredArray(
        source, offset, dtype, shape, None if is_plain else strides, is_swapped=is_swapped
    )


def _c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Give the strides, in elements, of a tensor that lies in C order."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))
