"""The tensors in nested dictionaries, lists and tuples, and the way to each.

A tree may be deep, contain itself, or hold the same part many times; each part is walked once, and
nothing here recurses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numscope.dumps.contents import Remark
from numscope.dumps.pickled_arrays import PickledArray, PickledType
from numscope.dumps.pickles import Broken, Unknown
from numscope.dumps.torch_values import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numscope.dumps.refs import Key, KeyPart

DEPTH_LIMIT = 32
"""How many dictionaries and lists a tensor may be inside of."""

_TEXT_LIMIT = 200


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


def leaves(tree: Any) -> Leaves:
    """Collect the tensors of a tree and count the rest."""
    found = Leaves()
    unknown, too_deep, plain = 0, 0, 0
    for key, value in _walk(tree):
        if isinstance(value, (Tensor, PickledArray)):
            found.tensors.append((key, value))
        elif isinstance(value, Broken):
            found.broken.append((key, value))
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
    return found


def _is_container(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple))


def _walk(tree: Any) -> Iterator[tuple[Key, Any]]:
    """Give every leaf with its key, and parts that lie too deep as leaves."""
    seen: set[int] = set()
    stack: list[tuple[Key, Any]] = [((), tree)]
    while stack:
        key, value = stack.pop()
        if not _is_container(value) or len(key) >= DEPTH_LIMIT:
            yield key, value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        items = value.items() if isinstance(value, dict) else enumerate(value)
        stack.extend(((*key, _part(name)), item) for name, item in reversed(list(items)))


def _part(name: Any) -> KeyPart:
    """Make a dictionary key part of a `Key`."""
    if isinstance(name, tuple):
        return tuple(_part(item) for item in name)
    return name if type(name) in (str, int) else f"<{name!r}>" if type(name) is bytes else str(name)


def _note(metadata: dict[str, str], name: str, value: Any) -> None:
    """Keep a number or a short string."""
    if type(value) is int or (isinstance(value, str) and len(value) <= _TEXT_LIMIT):
        metadata[name] = f"{value}" if isinstance(value, str) or abs(value) < 1 << 62 else ""
