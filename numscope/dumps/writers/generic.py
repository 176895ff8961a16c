"""Hand-written hooks: names such as `layers.4.mlp.fc1.activation`, in a key or a file's name.

What is not said is `None`; a kind is never guessed from a shape or from what a layer might be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numscope.dumps.places import NUMBERS, Identity, Place, stated_numbers
from numscope.dumps.writers.modules import expert_of, layer_of
from numscope.dumps.writers.words import (
    BIAS,
    FOLDER_WORDS,
    KIND_OF_WORD,
    LEADING_WORDS,
    kind_beside,
    may_be_module,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numscope.dumps.refs import Kind

_SAYS_NOTHING = {"data", "tensor", "tensors", "value", "values", "array", "arr_0", "t"}
"""Keys that stand for the only tensor of a file; its name is that of the file."""


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_ENDING = re.compile(
    rf"(?P<before>.+?)(?P<separator>[._\-])(?P<word>{_alternatives((*KIND_OF_WORD, BIAS))})"
    r"(?:[._](?P<index>\d+))?",
    re.IGNORECASE,
)
_LEADING = re.compile(
    rf"(?:(?P<word>{_alternatives(LEADING_WORDS)})_|(?P<any>{_alternatives(KIND_OF_WORD)})(?:\.|__))"
    r"(?P<rest>.+)",
    re.IGNORECASE,
)
_ONLY_BEHIND_A_DOT = {"x", "y", "w", "in", "out", "inp"}
"""Endings that are part of a module's name behind anything else: `fc_in`, `proj_w`."""

_GRADIENT_OF = re.compile(r"(?P<before>(?:.*\.)?)(?:d?grad|d)_(?P<module>[^.]+)", re.IGNORECASE)
_SHARD = re.compile(r"(?:^|(?<=[._\-]))(?:tp|pp|cp|ep|etp)(?:_?rank)?[-_=]?\d{1,9}(?=$|[._\-])")


@dataclass(frozen=True, slots=True)
class Named:
    """A tensor's name, taken apart."""

    kind: Kind | None
    module: str
    slot: str = ""


def identify(place: Place) -> Identity:
    """Say what a tensor is by the words in its key, its file's name and its folders."""
    parts = [part for part in place.key if str(part).lower() not in _SAYS_NOTHING]
    if all(isinstance(part, int) for part in parts):  # a bare tensor, or a tuple as hooks get it
        surroundings = place.folders
        parts = [_word(place.stem) or place.stem, *parts]
    else:
        surroundings = (*place.folders, place.stem)
    named = _take_apart(parts, _said_around(surroundings))
    module, slot = named.module or _module_around(surroundings), named.slot
    layers = map(layer_of, (module, place.stem, *reversed(place.folders)))
    layer = next((layer for layer in layers if layer is not None), None)
    if layer is None and not named.module and slot.isdigit():
        layer, slot = int(slot), ""  # a dictionary or list by layer
    if not (slot or place.key or named.module):  # `act_0` and `act_1` are not the same
        slot = _without_numbers(place.stem)[len(_word(place.stem)) :].strip("._-")
    shards = _SHARD.findall("/".join((*place.folders, place.stem)).replace("/", "."))
    return Identity(
        kind=named.kind,
        layer=layer,
        module=module,
        expert=expert_of(module),
        slot="" if slot == "0" else slot,
        shard=" ".join(shards),
        **stated_numbers(place),
    )


def _said_around(parts: Iterable[str]) -> Kind | None:
    """Find the kind that folders and files are named after, `acts` or `step_120_grads`."""
    said: Kind | None = None
    for word in map(_word, parts):
        if word:
            said = kind_beside(word, said)
    return said


def _word(name: str) -> str:
    """Find the word in the name of a folder or file that is called after a kind."""
    word = re.sub(r"[._\-]?\d+$", "", _without_numbers(name)).lower()
    return word if word in FOLDER_WORDS else ""


def _take_apart(parts: Iterable[object], said: Kind | None) -> Named:
    """Find kind, module and slot in the parts of a key, given what is said around it."""
    names: list[str] = []
    slot, follows_word = "", False
    for part in parts:
        word = str(part).lower()
        if isinstance(part, int) and (follows_word or layer_of(".".join(names)) is not None):
            slot = str(part)
        elif word in KIND_OF_WORD:
            said = kind_beside(word, said)
        else:
            names.append(str(part))
        follows_word = word in KIND_OF_WORD
    named = split_name(_without_numbers(".".join(names)), said)
    if named.slot == BIAS:
        return named
    return Named(named.kind, named.module, slot or named.slot)


@lru_cache(maxsize=4096)  # folders and files are asked about for each of their tensors
def _without_numbers(name: str) -> str:
    """Take `step_120`, `rank3` and the like out of a name."""
    rest = name
    for pattern in (*NUMBERS.values(), _SHARD):
        rest = pattern.sub("", rest)
    return name if rest == name else re.sub(r"([._\-])[._\-]+", r"\1", rest).strip("._-")


def split_name(name: str, said: Kind | None) -> Named:
    """Split a name into kind, module and slot, given the kind that its surroundings say."""
    match = _ENDING.fullmatch(name)
    word = match["word"].lower() if match else ""
    if match is None or (match["separator"] != "." and word in _ONLY_BEHIND_A_DOT):
        return _split_leading(name, said)
    module, slot = match["before"], BIAS if word == BIAS else match["index"] or ""
    kind = kind_beside(word, said)
    if said is not None:
        if kind == said and may_be_module(word):
            return Named(kind, name)
        return Named(kind, module, slot)
    inner = _ENDING.fullmatch(module)
    if kind in ("gradient", "weight_gradient") and inner is not None:
        inner_word = inner["word"].lower()
        slot = BIAS if inner_word == BIAS else slot
        return Named(kind_beside(inner_word, kind), inner["before"], slot)
    gradient = _GRADIENT_OF.fullmatch(module)
    if gradient is not None and match["separator"] == "_":
        return Named(kind_beside(word, "gradient"), gradient["before"] + gradient["module"], slot)
    return Named(kind, module, slot)


def _split_leading(name: str, said: Kind | None) -> Named:
    """Split a name that begins with a word, `grad_output_layers.4.mlp` or `act.layers.4.mlp`."""
    match = _LEADING.fullmatch(name) if said is None else None
    if match is None or layer_of(match["rest"]) is None:
        return Named(said, name)
    return Named(kind_beside((match["word"] or match["any"]).lower(), None), match["rest"])


def _module_around(parts: tuple[str, ...]) -> str:
    """Find the module in the names of folders and file, for tensors called by their kind.

    That is everything from the first name with a layer on, else the innermost name.
    """
    names = [_without_numbers(part) for part in parts]
    names = [name for name in names if name and not _word(name)]
    starts = (index for index, name in enumerate(names) if layer_of(name) is not None)
    return ".".join(names[next(starts, -1) :])
