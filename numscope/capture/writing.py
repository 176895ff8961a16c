"""Files of captured tensors, written by a thread, in order, a bounded number ahead.

After the first file that cannot be written none is tried.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from numscope import json_text
from numscope.errors import ResultsError
from numscope.writing import remove_leftovers, replacing

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
}
"""What can be saved, as safetensors calls it."""

_AHEAD = 1
_PIECE = 1 << 24


@dataclass(frozen=True, slots=True)
class StepFile:
    """A file to be written: tensors in the CPU's memory that nobody changes any more."""

    path: Path
    tensors: Mapping[str, torch.Tensor]
    metadata: Mapping[str, str]


class Writer:
    """A thread that writes files, and waits for nobody.

    Before the first it removes what killed processes have left in that folder.

    Parameters
    ----------
    on_failure
        Called in that thread when a file cannot be written; `failure` then says why.
    patience
        Seconds after which a disk on which nothing moves is given up.
    """

    def __init__(self, on_failure: Callable[[], None], *, patience: float = 60.0) -> None:
        self.failure = ""
        self._on_failure = on_failure
        self._patience = patience
        self._queue: queue.Queue[StepFile | None] = queue.Queue(_AHEAD)
        self._thread: threading.Thread | None = None
        self._written = 0
        self._process = os.getpid()

    def put(self, file: StepFile) -> None:
        """Have a file written, after waiting for room in the queue: one file waits, one is written.

        Returns without it if there is a failure.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(file.path.parent,), name="numscope", daemon=True
            )
            self._thread.start()
        self._wait_until(lambda: self._is_put(file))

    def finish(self) -> None:
        """Wait until everything is written."""
        thread = self._thread
        if thread is not None and os.getpid() == self._process:  # a forked process has no threads
            self._wait_until(lambda: self._is_put(None))
            self._wait_until(lambda: self._has_ended(thread))
        self._thread = None

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait for as long as bytes go to the disk; `is_done` itself waits for `patience`."""
        while not self.failure:
            before = self._written
            if is_done():
                return
            if self._written == before:
                self.failure = f"nothing could be written for {self._patience:g} s"

    def _is_put(self, file: StepFile | None) -> bool:
        try:
            self._queue.put(file, timeout=self._patience)
        except queue.Full:
            return False
        return True

    def _has_ended(self, thread: threading.Thread) -> bool:
        thread.join(self._patience)
        return not thread.is_alive()

    def _run(self, folder: Path) -> None:
        with suppress(OSError):  # if nothing can be done there, writing says so
            remove_leftovers(folder)
        while (file := self._queue.get()) is not None:
            if not self.failure:
                self._try_to_write(file)
            del file  # or its tensors would stay until the next one comes

    def _try_to_write(self, file: StepFile) -> None:
        try:
            write(file, self._count)
        except ResultsError as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 (whatever it is, it must not go unnoticed)
            self._fail(f"cannot write {file.path}: {error}")

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._on_failure()

    def _count(self, size: int) -> None:
        self._written += size


def write(file: StepFile, on_bytes: Callable[[int], None] = lambda _: None) -> None:
    """Write a safetensors file; its folder is made.

    Parameters
    ----------
    on_bytes
        Called with the size of each piece that was written.

    Raises
    ------
    ResultsError
        If it cannot be written; no partial file is left.
    """
    # Durable, as some file systems say only then that they are full.
    with replacing(file.path, durable=True) as stream:
        for piece in _pieces(file):
            stream.write(piece)
            on_bytes(len(piece))


def _pieces(file: StepFile) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file."""
    # The widest types first: each tensor then starts at a multiple of its values' size.
    tensors = sorted(file.tensors.items(), key=lambda item: -item[1].element_size())
    header: dict[str, object] = {"__metadata__": dict(file.metadata)}
    end = 0
    for key, tensor in tensors:
        start, end = end, end + tensor.nbytes
        entry = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape)}
        header[key] = {**entry, "data_offsets": [start, end]}
    text = json_text.text(header, is_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in tensors:
        data = memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE]
