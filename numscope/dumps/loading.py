"""Whole tensors, for people who want the values; the analysis reads blocks of rows instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numscope.dumps.files import open_file
from numscope.errors import DumpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.dumps.refs import TensorRef


def load(ref: TensorRef) -> NDArray[Any]:
    """Read a whole tensor.

    Returns
    -------
    NDArray
        C-contiguous, of shape `ref.shape` and the dtype called `ref.dtype`.

    Raises
    ------
    DumpError
        If the file cannot be read, or no longer holds what was found there.
    """
    with open_file(ref.root, ref.path, npy_dtype=ref.dtype) as dump:
        array = dump.get(ref.key)
        if array is None or array.shape != ref.shape or str(array.dtype) != ref.dtype:
            raise DumpError(f"{ref.name} has changed since it was scanned")
        try:
            return array.read(0, array.rows).reshape(ref.shape)
        except MemoryError as error:
            raise DumpError(
                f"{ref.name} is larger than the memory: {array.nbytes} bytes"
            ) from error
