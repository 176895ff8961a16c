"""The stack machine that pickles are programs for, played on plain values of our own.

Every global stays a name, and a call is looked up in a table of pure builders: nothing here imports
anything or calls what is not in that table. What takes a step takes it in a bounded time, however
large the values are that a pickle names again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from numscope.dumps import bounds
from numscope.dumps.pickled_values import Broken, Builders, Global, Stateful, Unknown

_ARGUMENT_LIMIT = 16
"""The most arguments of a call: no builder has more, and they are copied for each call."""

_MEMO_LIMIT = 1 << 32
"""Above every place that the opcodes of today can name; the oldest ones write it in digits."""


class _Mark:
    """The bottom of a group on the stack."""


_MARK = _Mark()


class Machine:
    """The state of a pickle being read: its stack and its memo."""

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
        """Take everything above the last mark, and the mark.

        Raises
        ------
        ValueError
            If there is none.
        """
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
        if len(arguments) > _ARGUMENT_LIMIT:
            return Broken(f"is made by a call of {function.name} with too many arguments")
        try:
            return builder(*arguments)
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
            return Broken(f"the arguments of {function.name} are not what they should be")

    def set_items(self, group: list[Any]) -> None:
        """Put keys and values into the dictionary on top of the stack.

        Raises
        ------
        ValueError
            If a key has no value.
        """
        target = self.stack[-1]
        if len(group) % 2:
            raise ValueError("a key without a value")
        if isinstance(target, dict):
            target.update(_pairs(group))

    def append(self, group: list[Any]) -> None:
        """Put values at the end of the list on top of the stack."""
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(group)


class _Composite(tuple[Any, ...]):
    """A tuple as a key, hashed as text: tuples can be chosen so that all have the same hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(repr(self))


def _key(key: Any) -> Any:
    """Give a key to put into a dictionary, or a placeholder for what takes long to hash."""
    if not bounds.is_key_part(key):
        return Unknown()
    return _Composite(key) if isinstance(key, tuple) else key


def _push_argument(machine: Machine, argument: Any) -> None:
    machine.stack.append(argument)


def _push(make: Callable[[], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make())


def _push_group(make: Callable[[list[Any]], Any]) -> Callable[[Machine, Any], None]:
    return lambda machine, _: machine.stack.append(make(machine.pop_group()))


def _tuple_of(count: int) -> Callable[[Machine, Any], None]:
    def act(machine: Machine, _: Any) -> None:
        values = [machine.pop() for _ in range(count)]
        machine.stack.append(tuple(reversed(values)))

    return act


def _pairs(group: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair keys and values that follow each other."""
    return zip(map(_key, group[::2]), group[1::2], strict=True)


def _dict_of(group: list[Any]) -> dict[Any, Any]:
    return dict(_pairs(group))


def _put(machine: Machine, place: int | None) -> None:
    place = len(machine.memo) if place is None else place
    if not 0 <= place < _MEMO_LIMIT:
        raise ValueError("a place in the memo that no pickle needs")
    machine.memo[place] = machine.stack[-1]


def _get(machine: Machine, place: int) -> None:
    machine.stack.append(machine.memo[place])


def _global(machine: Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(Global(module, name))


def _stack_global(machine: Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise TypeError("a global without a name")
    machine.stack.append(Global(module, name))


def _reduce(machine: Machine, _: Any) -> None:
    arguments, function = machine.pop(), machine.pop()
    machine.stack.append(machine.call(function, arguments))


def _new_object_with_names(machine: Machine, _: Any) -> None:
    machine.pop()
    _reduce(machine, None)


def _instance(machine: Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(machine.call(Global(module, name), tuple(machine.pop_group())))


def _object(machine: Machine, _: Any) -> None:
    function, *arguments = machine.pop_group()
    machine.stack.append(machine.call(function, tuple(arguments)))


def _persistent(machine: Machine, argument: str | None) -> None:
    identifier = machine.pop() if argument is None else argument
    machine.stack.append(machine.load_persistent(identifier))


def _drop(machine: Machine, _: Any) -> None:
    machine.stack.pop()


def _drop_group(machine: Machine, _: Any) -> None:
    machine.pop_group()


def _build(machine: Machine, _: Any) -> None:
    """Drop the state of an object, unless a builder's value stands for it."""
    state = machine.pop()
    if isinstance(machine.stack[-1], Stateful) and isinstance(state, tuple):
        with suppress(ValueError, IndexError):  # then it stays without, and is found out later
            machine.stack[-1].set_state(state)


def _ignore(machine: Machine, argument: Any) -> None:
    """Do nothing: what frames and protocols say is not needed."""


ACTIONS: dict[str, Callable[[Machine, Any], None]] = {
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
