"""A naming rule that the user gives, such as `run/{step}/L{layer}_{kind}.npy`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numscope.dumps.places import Identity, Place, stated_numbers
from numscope.dumps.writers.modules import expert_of, layer_of
from numscope.dumps.writers.words import KIND_OF_WORD
from numscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = r"\d{1,18}"
_FIELDS = {
    "step": _NUMBER,
    "tokens": _NUMBER,
    "layer": _NUMBER,
    "rank": _NUMBER,
    "microbatch": _NUMBER,
    "expert": _NUMBER,
    "module": r"[^/:]+?",
    "kind": r"\w+?",
}
_PARTS = re.compile(r"\{(\w*)\}|(\*\*?)")
_WILD = {"*": r"[^/:]*", "**": r".*"}


def identifier(pattern: str) -> Callable[[Place], Identity | None]:
    """Make a rule of a pattern.

    Parameters
    ----------
    pattern
        How the end of a tensor's name looks: its path, with the suffix, then `:` and its key if it
        has one. `{layer}`, `{kind}`, `{step}`, `{module}`, `{tokens}`, `{rank}`, `{microbatch}` and
        `{expert}` stand for what is there, `*` for anything within a part, `**` for anything.

    Returns
    -------
    callable
        From a place to an identity, `None` if the name does not look so. What the pattern does not
        mention is taken from the metadata or the usual words in the path.

    Raises
    ------
    UsageError
        If a field is not known or is there twice, or there is none.
    """
    expression = _expression(pattern)

    def identify(place: Place) -> Identity | None:
        match = expression.search(place.name)
        return _identity(place, match.groupdict()) if match else None

    return identify


def _expression(pattern: str) -> re.Pattern[str]:
    parts, place, seen = [r"(?:^|(?<=[/:]))"], 0, set[str]()
    for match in _PARTS.finditer(pattern):
        parts.append(re.escape(pattern[place : match.start()]))
        place = match.end()
        field, wild = match.groups()
        if wild:
            parts.append(_WILD[wild])
            continue
        if field not in _FIELDS:
            known = ", ".join(f"{{{name}}}" for name in _FIELDS)
            raise UsageError(
                f"unknown field {{{field}}} in the pattern {pattern!r}; known are {known}"
            )
        if field in seen:
            raise UsageError(f"the field {{{field}}} is twice in the pattern {pattern!r}")
        seen.add(field)
        parts.append(f"(?P<{field}>{_FIELDS[field]})")
    if not seen:
        raise UsageError(f"no field such as {{layer}} or {{kind}} in the pattern {pattern!r}")
    return re.compile("".join(parts) + re.escape(pattern[place:]) + "$")


def _identity(place: Place, found: dict[str, str]) -> Identity:
    """Build an identity of what the pattern found and what else is said."""
    module = found.pop("module", "")
    kind = KIND_OF_WORD.get(found.pop("kind", "").lower())
    numbers: dict[str, Any] = {name: int(text) for name, text in found.items()}
    stated = Identity(
        kind=kind,
        layer=layer_of(module),
        module=module,
        expert=expert_of(module),
        **stated_numbers(place),
    )
    return replace(stated, **numbers)
