"""A reader of pickles that cannot do anything but build plain values.

Python's unpickler is not used. A pickle is a program for a stack machine, and here it is played by
one of our own (see `opcodes`). Nothing is imported, nothing is called that is not in the table of
builders, and what is not in it becomes an inert `Unknown`, so that one odd object does not lose the
tensors beside it.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any

from numscope.dumps.bounds import Work
from numscope.dumps.opcodes import ACTIONS, Machine
from numscope.dumps.pickled_values import Builders, Unknown
from numscope.errors import DumpError

_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, EOFError, struct.error),
    DeprecationWarning,  # what an unknown escape in a string is where warnings are errors
)


def read_pickle(
    stream: Any,
    builders: Builders,
    load_persistent: Callable[[Any], Any] = Unknown,
    work: Work | None = None,
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
    work
        What the file may still cost; as much as any if not given.

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
    machine = Machine(builders, load_persistent)
    work = work or Work()
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                break
            work.spend(1)
            ACTIONS[opcode.name](machine, argument)
        return machine.pop()
    except _DAMAGE as error:
        raise DumpError("has a damaged pickle") from error
