"""The tensors in nested dictionaries, lists and tuples, and the way to each.

A tree may be deep, contain itself, or hold the same part many times; each part is walked once, and
nothing here recurses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numscope.dumps.bounds import Work
from numscope.dumps.contents import Remark
from numscope.dumps.pickled_arrays import PickledArray, PickledType
from numscope.dumps.pickled_values import Broken, Unknown
from numscope.dumps.refs import key_text
from numscope.dumps.torch_values import Tensor
from numscope.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numscope.dumps.refs import Key, KeyPart

DEPTH_LIMIT = 32
"""How many dictionaries and lists a tensor may be inside of."""

TENSOR_LIMIT = 1 << 17
"""The most tensors of a file."""

_TEXT_LIMIT = 200
_KEY_STEP = 16  # so many characters of the key of a tensor cost a step
_ALIKE_LIMIT = 64


@dataclass(slots=True)
class Leaves:
    """What a tree holds.

    Attributes
    ----------
    tensors
        Keys and tensors, also NumPy's, in the order of the tree.
    broken
        Keys and what contradicts itself.
    remarks
        How much else there is.
    metadata
        Numbers and short strings at the top of the tree, as strings.
    """

    tensors: list[tuple[Key, Tensor | PickledArray]] = field(default_factory=list)
    broken: list[tuple[Key, Broken]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)

    def add(self, key: Key, value: Tensor | PickledArray | Broken) -> None:
        """Note a tensor, or what is wrong with it.

        Raises
        ------
        DumpError
            If there are too many.
        """
        if len(self.tensors) + len(self.broken) >= TENSOR_LIMIT:
            raise DumpError(f"holds more than {TENSOR_LIMIT} tensors; refused")
        if isinstance(value, Broken):
            self.broken.append((key, value))
        else:
            self.tensors.append((key, value))


def leaves(tree: Any, work: Work | None = None) -> Leaves:
    """Collect the tensors of a tree and count the rest.

    Parameters
    ----------
    work
        What the file may still cost.

    Raises
    ------
    DumpError
        If there are too many tensors, or it takes too long to name them.
    """
    found = Leaves()
    work = work or Work()
    unknown, too_deep, plain = 0, 0, 0
    for key, value in _walk(tree):
        work.spend(1)
        if isinstance(value, (Tensor, PickledArray, Broken)):
            work.spend(len(key) + len(key_text(key)) // _KEY_STEP)
            found.add(key, value)
        elif isinstance(value, (Unknown, PickledType)):
            unknown += 1
        elif _is_container(value):
            too_deep += 1
        else:
            plain += 1
            if len(key) == 1 and isinstance(key[0], str):
                _note(found.metadata, key[0], value)
    counts = {
        "objects of unknown classes left alone": unknown,
        f"parts nested more than {DEPTH_LIMIT} deep left alone": too_deep,
        "values that are no tensors passed over": plain,
    }
    found.remarks.extend(Remark(what, count=count) for what, count in counts.items() if count)
    _refuse_crafted([key for key, _ in (*found.tensors, *found.broken)])
    return found


def _refuse_crafted(keys: list[Key]) -> None:
    """Refuse keys whose numbers were chosen so that they take forever to tell apart.

    Raises
    ------
    DumpError
        If many different keys have the same hash.
    """
    alike = Counter(map(hash, keys))
    if max(alike.values(), default=0) > _ALIKE_LIMIT:
        raise DumpError("has many keys that cannot be told apart by their hash; refused")


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple))


def _walk(tree: Any) -> Iterator[tuple[Key, Any]]:
    """Give every leaf with its key, and parts that lie too deep as leaves."""
    seen: set[int] = set()
    stack: list[tuple[Key, Iterator[tuple[KeyPart, Any]]]] = []
    found: tuple[Key, Any] | None = ((), tree)
    while found is not None:
        key, value = found
        if not _is_container(value) or len(key) >= DEPTH_LIMIT:
            yield key, value
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((key, _items(value)))
        found = _next(stack)


def _items(container: Any) -> Iterator[tuple[KeyPart, Any]]:
    """Give what is in a container, each under its own part of a key."""
    if not isinstance(container, dict):
        yield from enumerate(container)
        return
    for position, (name, item) in enumerate(container.items()):
        yield (f"<key {position}>" if isinstance(name, Unknown) else _part(name)), item


def _next(stack: list[tuple[Key, Iterator[tuple[KeyPart, Any]]]]) -> tuple[Key, Any] | None:
    """Take the next item of the innermost container that has one left."""
    while stack:
        key, items = stack[-1]
        for part, item in items:
            return (*key, part), item
        stack.pop()
    return None


def _part(name: Any) -> KeyPart:
    """Make a dictionary key part of a `Key`."""
    if isinstance(name, tuple):
        return tuple(_part(item) for item in name)
    return name if type(name) in (str, int) else f"<{name!r}>" if type(name) is bytes else str(name)


def _note(metadata: dict[str, str], name: str, value: Any) -> None:
    """Keep a number or a short string."""
    if type(value) is int or (isinstance(value, str) and len(value) <= _TEXT_LIMIT):
        metadata[name] = f"{value}" if isinstance(value, str) or abs(value) < 1 << 62 else ""
