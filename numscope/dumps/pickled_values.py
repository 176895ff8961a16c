"""What the reader of pickles makes of what is no plain value: names, placeholders, and builders.

A name is never imported, and a placeholder never becomes what it stands for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
