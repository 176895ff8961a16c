"""What a scan finds: references to tensors, and what could not be understood.

These are plain values that can be pickled and sent elsewhere; nothing here opens a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numscope.dumps.sources import Stamp

Kind = Literal["activation", "gradient", "weight", "output", "input_gradient", "weight_gradient"]

KeyPart: TypeAlias = "str | int | tuple[KeyPart, ...]"
Key: TypeAlias = tuple[KeyPart, ...]

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
        As in the dump, 0 or more, or `None` where the dump does not say. `tokens` is how many
        tokens had been trained on.
    module
        The module's name as written in the layout, `""` if there is none.
    expert
        The number of the expert whose tensor it is, where a module holds several.
    slot
        Which of a module's tensors of this kind it is, where that is not the only or first one:
        `1` for a second input, `bias` for a bias.
    shard
        The model-parallel part of the module that the tensor is of, as the layout writes it.
    stage
        Pipeline stage and model chunk that `layer` counts within, `None` if it counts in the model.
    layout
        The name of the layout that recovered this identity.
    """

    root: str
    path: str
    key: Key
    shape: tuple[int, ...]
    dtype: str
    kind: Kind | None = None
    layer: int | None = None
    module: str = ""
    step: int | None = None
    tokens: int | None = None
    rank: int | None = None
    microbatch: int | None = None
    expert: int | None = None
    slot: str = ""
    shard: str = ""
    stage: tuple[int, int] | None = None
    layout: str = "generic"

    @property
    def identity(self) -> tuple[object, ...]:
        """What may occur only once in the dump of one tool, whatever file it is in."""
        return (
            self.step,
            self.rank,
            self.microbatch,
            self.layer,
            self.kind,
            self.module,
            self.expert,
            self.slot,
            self.shard,
            self.layout,
        )

    @property
    def name(self) -> str:
        """Path and key as one word for messages: `step_120.safetensors:layers.4.fc1.gradient`."""
        return f"{self.path}:{self.key_text}" if self.key else self.path

    @property
    def key_text(self) -> str:
        """The key as tables write it: its parts joined by `/`."""
        return key_text(self.key)


def key_text(key: Key) -> str:
    """A key as tables and messages write it: its parts joined by `/`, which they may contain."""
    return "/".join(map(str, key))


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or tensor that could not be read, and why, in one line.

    `where` is a path relative to the dump folder, with `:key` behind it if it is about one tensor.
    A `failure` means that data is missing from the tables (exit code 3); otherwise it is a remark.
    """

    where: str
    message: str
    failure: bool = True


@dataclass(frozen=True, slots=True)
class Unread:
    """The file that a failure is about, and its stamp when it was opened: it may be unfinished.

    `is_cut_short` if it ends before all that it announces.
    """

    path: str
    stamp: Stamp
    is_cut_short: bool = False


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
    left_out
        Tensors that are not in `refs` because one with the same identity was found before them, or
        because a later sum contains them; a problem says so.
    folder
        The folder that paths are relative to; unlike `root` never a file.
    stamps
        By path, the size and time of the last change of every dump file.
    unread
        By the failure's `where`, the files that could not be read, or not all of them.
    """

    root: str
    refs: tuple[TensorRef, ...]
    problems: tuple[Problem, ...] = ()
    files: int = 0
    bytes: int = 0
    left_out: tuple[TensorRef, ...] = ()
    folder: str = ""
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    unread: Mapping[str, Unread] = field(default_factory=dict)

    def __iter__(self) -> Iterator[TensorRef]:
        return iter(self.refs)

    def __len__(self) -> int:
        return len(self.refs)
