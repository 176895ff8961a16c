"""What a scan finds: references to tensors, and what could not be understood.

These are plain values that can be pickled and sent elsewhere; nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["activation", "gradient", "weight", "output", "input_gradient", "weight_gradient"]

KINDS: tuple[Kind, ...] = (
    "activation",
    "gradient",
    "weight",
    "output",
    "input_gradient",
    "weight_gradient",
)


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Where one tensor is and what it is.

    Attributes
    ----------
    root
        The dump folder, as it was given.
    path
        The file, relative to `root`, with `/`.
    key
        The way to the tensor inside its file: `()` for a bare tensor, else dictionary keys and list
        indices from the outside in. Joined by `/` in tables.
    shape, dtype
        As saved; `dtype` is the ml_dtypes or NumPy name, such as `bfloat16` or `float32`.
    kind
        One of `KINDS`, or `None` if the layout does not say.
    layer, step, tokens, rank, microbatch
        As in the dump, 0 or more, or `None` where the dump does not say. `tokens` is how many tokens
        had been trained on.
    module
        The module's name as written in the layout, `""` if there is none.
    layout
        The name of the layout that recovered this identity.
    """

    root: str
    path: str
    key: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: str
    kind: Kind | None = None
    layer: int | None = None
    module: str = ""
    step: int | None = None
    tokens: int | None = None
    rank: int | None = None
    microbatch: int | None = None
    layout: str = "generic"

    @property
    def name(self) -> str:
        """Path and key as one word for messages: `step_000120.safetensors:layers.4.mlp.fc1.gradient`."""
        return f"{self.path}:{self.key_text}" if self.key else self.path

    @property
    def key_text(self) -> str:
        """The key as tables write it: its parts joined by `/`."""
        return "/".join(str(part) for part in self.key)


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or tensor that could not be read, and why, in one line.

    `where` is a path relative to the dump folder, with `:key` behind it when it is about one tensor.
    A `failure` means that data is missing from the tables (exit code 3); otherwise it is a remark.
    """

    where: str
    message: str
    failure: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """What a dump folder holds: its tensors in a fixed order, and what was not understood.

    Iterating gives the `TensorRef`s, sorted by path and by the order in their file.

    Attributes
    ----------
    root
        The folder (or single file) that was scanned, as it was given.
    refs
        Every floating-point tensor that was found, with or without a known kind.
    problems
        Files and tensors that could not be read, and remarks.
    files
        How many files were recognised as dump files.
    bytes
        Their total size.
    """

    root: str
    refs: tuple[TensorRef, ...]
    problems: tuple[Problem, ...] = ()
    files: int = 0
    bytes: int = 0

    def __iter__(self) -> Iterator[TensorRef]:
        return iter(self.refs)

    def __len__(self) -> int:
        return len(self.refs)
