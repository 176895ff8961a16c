"""A reader of pickles that cannot do anything but build plain values.

Python's unpickler is not used. A pickle is a program for a stack machine; here its opcodes are
played on lists, dictionaries and tuples of our own, every global stays a name, and a call is looked
up in a table of pure builders. Nothing is imported, nothing is called that is not in that table,
and what is not in it becomes an inert `Unknown`, so that one odd object does not lose the tensors
beside it.
"""

from __future__ import annotations

import pickletools
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from numscope.errors import DumpError

OPCODE_LIMIT = 4_000_000
"""The most steps a pickle may take; a dump of tensors takes some sixty for each."""

_KEY_DEPTH = 3
_KEY_WIDTH = 16


@dataclass(frozen=True, slots=True)
class Global:
    """The name of something importable. It is never imported."""

    module: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """An object of a class that is not known, or the result of a call that is not made."""

    what: Global | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A tensor that contradicts itself or its file, and why."""

    message: str


class Stateful(ABC):
    """A value of a builder that takes the state of the object it stands for."""

    __slots__ = ()

    @abstractmethod
    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take over what is needed of a state, without doing anything else."""


Builder = Callable[..., Any]
Builders = Mapping[Global, Builder]


class _Mark:
    """The bottom of a group on the stack."""


_MARK = _Mark()


class _Machine:
    """The state of a pickle being read."""

    def __init__(self, builders: Builders, load_persistent: Callable[[Any], Any]) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.builders = builders
        self.load_persistent = load_persistent

    def pop(self) -> Any:
        """Take the top of the stack.

        Raises
        ------
        ValueError
            If that is the bottom of a group.
        """
        value = self.stack.pop()
        if value is _MARK:
            raise ValueError("a value is missing")
        return value

    def pop_group(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("a mark is missing")
        group = self.stack[place + 1 :]
        del self.stack[place:]
        return group

    def call(self, function: Any, arguments: Any) -> Any:
        """Give what a call stands for, by the table of builders."""
        builder = self.builders.get(function) if isinstance(function, Global) else None
        if builder is None or not isinstance(arguments, tuple):
            return Unknown(function if isinstance(function, Global) else None)
        try:
            return builder(*arguments)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
            return Broken(f"the arguments of {function.name} are not what they should be")

    def set_items(self, group: list[Any]) -> None:
        """Put keys and values into the dictionary on top of the stack."""
        target = self.stack[-1]
        if len(group) % 2:
            raise ValueError("a key without a value")
        if isinstance(target, dict):
            target.update(
                (key if _is_plain(key) else Unknown(), value)
                for key, value in zip(group[::2], group[1::2], strict=True)
            )

    def append(self, group: list[Any]) -> None:
        """Put values at the end of the list on top of the stack."""
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(group)


def _is_plain(key: Any, depth: int = _KEY_DEPTH) -> bool:
    """Whether a key can be hashed in no time: tuples can be made that take forever."""
    if isinstance(key, tuple):
        parts_are_plain = (_is_plain(part, depth - 1) for part in key)
        return depth > 0 and len(key) <= _KEY_WIDTH and all(parts_are_plain)
    return key is None or isinstance(key, (str, int, float, bytes))


def _push_argument(machine: _Machine, argument: Any) -> None:
    machine.stack.append(argument)


def _push(make: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make())


def _push_group(make: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make(machine.pop_group()))


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def act(machine: _Machine, _: Any) -> None:
        values = [machine.pop() for _ in range(count)]
        machine.stack.append(tuple(reversed(values)))

    return act


def _dict_of(group: list[Any]) -> dict[Any, Any]:
    pairs = zip(group[::2], group[1::2], strict=True)
    return {(key if _is_plain(key) else Unknown()): value for key, value in pairs}


def _put(machine: _Machine, place: int | None) -> None:
    machine.memo[len(machine.memo) if place is None else place] = machine.stack[-1]


def _get(machine: _Machine, place: int) -> None:
    machine.stack.append(machine.memo[place])


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(Global(module, name))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise TypeError("a global without a name")
    machine.stack.append(Global(module, name))


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.stack.append(machine.call(function, arguments))


def _new_object_with_names(machine: _Machine, _: Any) -> None:
    machine.pop()
    _reduce(machine, None)


def _instance(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(machine.call(Global(module, name), tuple(machine.pop_group())))


def _object(machine: _Machine, _: Any) -> None:
    function, *arguments = machine.pop_group()
    machine.stack.append(machine.call(function, tuple(arguments)))


def _persistent(machine: _Machine, argument: str | None) -> None:
    identifier = machine.pop() if argument is None else argument
    machine.stack.append(machine.load_persistent(identifier))


def _drop(machine: _Machine, _: Any) -> None:
    machine.stack.pop()


def _drop_group(machine: _Machine, _: Any) -> None:
    machine.pop_group()


def _build(machine: _Machine, _: Any) -> None:
    """Drop the state of an object, unless a builder's value stands for it."""
    state = machine.pop()
    if isinstance(machine.stack[-1], Stateful) and isinstance(state, tuple):
        with suppress(ValueError, IndexError):  # then it stays without, and is found out later
            machine.stack[-1].set_state(state)


def _ignore(machine: _Machine, argument: Any) -> None:
    """Do nothing: what frames and protocols say is not needed."""


_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(
        [
            "INT",
            "BININT",
            "BININT1",
            "BININT2",
            "LONG",
            "LONG1",
            "LONG4",
            "FLOAT",
            "BINFLOAT",
            "STRING",
            "BINSTRING",
            "SHORT_BINSTRING",
            "UNICODE",
            "BINUNICODE",
            "SHORT_BINUNICODE",
            "BINUNICODE8",
            "BINBYTES",
            "SHORT_BINBYTES",
            "BINBYTES8",
            "BYTEARRAY8",
        ],
        _push_argument,
    ),
    **dict.fromkeys(("PROTO", "FRAME"), _ignore),
    "NONE": _push(lambda: None),
    "NEWTRUE": _push(lambda: True),
    "NEWFALSE": _push(lambda: False),
    "EMPTY_LIST": _push(list),
    "EMPTY_TUPLE": _push(tuple),
    "EMPTY_DICT": _push(dict),
    "EMPTY_SET": _push(list),
    "MARK": _push(lambda: _MARK),
    "LIST": _push_group(list),
    "TUPLE": _push_group(tuple),
    "FROZENSET": _push_group(list),
    "DICT": _push_group(_dict_of),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "POP": _drop,
    "POP_MARK": _drop_group,
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "APPEND": lambda machine, _: machine.append([machine.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_group()),
    "ADDITEMS": lambda machine, _: machine.append(machine.pop_group()),
    "SETITEM": lambda machine, _: machine.set_items([machine.pop(), machine.pop()][::-1]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_group()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _get),
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "NEWOBJ": _reduce,
    "NEWOBJ_EX": _new_object_with_names,
    "INST": _instance,
    "OBJ": _object,
    "BUILD": _build,
    "PERSID": _persistent,
    "BINPERSID": _persistent,
}
"""What each opcode does. Extension codes and out-of-band buffers are left out: they are refused."""

_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, EOFError, struct.error),
    DeprecationWarning,  # what an unknown escape in a string is where warnings are errors
)


def read_pickle(
    stream: Any, builders: Builders, load_persistent: Callable[[Any], Any] = Unknown
) -> Any:
    """Read one pickle.

    Parameters
    ----------
    stream
        A binary file object or bytes. After the pickle, a file object stands behind it.
    builders
        What calls stand for, by what is called: functions without side effects.
    load_persistent
        What a persistent id stands for, likewise.

    Returns
    -------
    object
        Numbers, strings, bytes, lists (also for sets), dictionaries, tuples, what builders gave,
        and `Global`, `Unknown` and `Broken`. Containers may contain themselves.

    Raises
    ------
    DumpError
        If it is no pickle, or takes too many steps.
    """
    machine = _Machine(builders, load_persistent)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if opcode.name == "STOP":
                break
            if count > OPCODE_LIMIT:
                raise DumpError(f"has a pickle of more than {OPCODE_LIMIT} steps; refused")
            _ACTIONS[opcode.name](machine, argument)
        return machine.pop()
    except _DAMAGE as error:
        raise DumpError("has a damaged pickle") from error
