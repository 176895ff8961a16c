"""How loops are compiled: once per installation, cached in a folder that can be written.

numba keeps its cache beside the source, or else in the user's cache folder, and gives up if it can
write neither: a read-only installation under a read-only home. Then a private temporary folder is
used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event

from numscope import caches

config: Any = numba.core.config  # untyped: its settings are not declared

P = ParamSpec("P")
R = TypeVar("R")

#: Without numba's runtime, by an option that its documentation does not name, nothing counts who
#: uses an array: each row's slices took longer than its arithmetic where rows are short.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function compiled at its first call, without the interpreter's lock, cached on disk.

    It cannot make arrays: whoever calls it holds all that it uses.
    """
    return cast("Callable[P, R]", numba.njit(cache=True, **_OPTIONS)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The function as a part of the compiled functions that call it."""
    return cast("Callable[P, R]", numba.njit(**_OPTIONS)(function))


@contextmanager
def noticed(on_compiling: Callable[[], object]) -> Iterator[None]:
    """Call `on_compiling` whenever a loop is compiled, and not taken from the cache, meanwhile."""
    with event.install_listener("numba:compile", _Listener(on_compiling)):
        yield


class _Listener(event.Listener):
    def __init__(self, on_start: Callable[[], object]) -> None:
        self._on_start = on_start

    def on_start(self, _event: Any) -> None:
        self._on_start()

    def on_end(self, _event: Any) -> None:
        """Nothing to say."""


def _choose_cache() -> None:
    """Point numba to a temporary folder if none of its own places can be written."""
    if config.CACHE_DIR:
        return
    places = [Path(__file__).parent / "__pycache__"]
    personal = caches.personal("XDG_CACHE_HOME", ".cache")
    if personal:
        places.append(personal / "numba")
    if not any(map(caches.is_writable, places)):
        config.CACHE_DIR = str(caches.private_folder(Path(tempfile.gettempdir())))


_choose_cache()
