"""Hand-written hooks: names such as `layers.4.mlp.fc1.activation`, in a key or a file's name.

What is not said is `None`; a kind is never guessed from a shape or from what a layer might be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numscope.dumps.places import NUMBERS, Identity, Place, stated_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numscope.dumps.refs import Kind

LAYER = re.compile(
    r"(?:^|(?<=[._/\-]))(?:(?:layers?|blocks?)[._\-]?|(?:h|encoder|decoder)[._])(\d{1,9})(?!\d)",
    re.IGNORECASE,
)

_WORDS: dict[Kind, str] = {
    "activation": "activation activations act acts input inputs hidden_states x",
    "gradient": "gradient gradients grad grads grad_output grad_outputs grad_out output_gradient "
    "output_grad out_grad dy",
    "input_gradient": "input_gradient input_gradients input_grad grad_input grad_inputs grad_in "
    "dgrad dgrads dx",
    "weight": "weight weights param params w",
    "weight_gradient": "weight_gradient weight_gradients weight_grad wgrad wgrads grad_weight "
    "grad_weights main_grad param_grad dw",
    "output": "output outputs out y",
}

KIND_OF_WORD: dict[str, Kind] = {
    word: kind for kind, words in _WORDS.items() for word in words.split()
}

_FOLDER_WORDS = {
    word: kind
    for word, kind in KIND_OF_WORD.items()
    if len(word) > 2 and not word.startswith("out")
}
"""Folders called `x` or `outputs` say nothing about what is in them."""

_PARTICULAR: dict[tuple[str, Kind], Kind] = {
    ("weight", "gradient"): "weight_gradient",
    ("bias", "gradient"): "weight_gradient",
    ("input", "gradient"): "input_gradient",
    ("inputs", "gradient"): "input_gradient",
    ("output", "gradient"): "gradient",
    ("outputs", "gradient"): "gradient",
    ("output", "activation"): "output",
    ("outputs", "activation"): "output",
}
"""What a tensor is whose own name ends in a word while a key, folder or suffix says a kind."""

_ENDING = re.compile(
    rf"(?P<before>.+?)[._\-](?P<word>{'|'.join(sorted(KIND_OF_WORD, key=len, reverse=True))}|bias)"
    r"(?:\.(?P<index>\d+))?",
    re.IGNORECASE,
)
_SHORT = 3
"""Words up to this length are endings only behind a dot: `fc_in` and `proj_w` are modules."""


def identify(place: Place) -> Identity:
    """Say what a tensor is by the words in its key, its file's name and its folders."""
    names = place.key_names or (place.stem,)
    surroundings = (*place.folders, place.stem) if place.key else place.folders
    said = _kind_said(_FOLDER_WORDS, surroundings, None)
    said = _kind_said(KIND_OF_WORD, names, said)
    name = ".".join(part for part in names if part.lower() not in KIND_OF_WORD)
    kind, module, slot = _ending(_without_numbers(name), said)
    if not module:
        module = _module_of_folders(place)
    layer = LAYER.search(module)
    if layer is None:
        outer = (LAYER.search(part) for part in (place.stem, *reversed(place.folders)))
        layer = next((match for match in outer if match), None)
    return Identity(
        kind=kind,
        layer=int(layer[1]) if layer else None,
        module=module,
        slot=slot,
        **stated_numbers(place),
    )


def _kind_said(words: Mapping[str, Kind], parts: tuple[str, ...], said: Kind | None) -> Kind | None:
    """Find the kind that whole keys or folders are named after, given what lies around them."""
    for part in parts:
        word = part.lower()
        if word in words:
            said = words[word] if said is None else _PARTICULAR.get((word, said), words[word])
    return said


def _without_numbers(name: str) -> str:
    """Take `step_120`, `rank3` and the like out of a name."""
    for pattern in NUMBERS.values():
        name = pattern.sub("", name)
    return re.sub(r"([._\-])[._\-]+", r"\1", name).strip("._-")


def _ending(name: str, said: Kind | None) -> tuple[Kind | None, str, str]:
    """Split a name into kind, module and slot, given the kind that its surroundings say."""
    match = _ENDING.fullmatch(name)
    if match is None:
        return said, name, ""
    word, module, slot = match["word"].lower(), match["before"], (match["index"] or "").strip("0")
    separator = name[len(module)]
    if separator != "." and len(word) <= _SHORT:
        return said, name, ""
    if word == "bias":
        kind: Kind = "weight" if said is None else _PARTICULAR.get((word, said), said)
        return kind, module, "bias"
    if said is not None:
        kind = _PARTICULAR.get((word, said), said)
        return (kind, name, "") if kind == said else (kind, module, slot)
    kind = KIND_OF_WORD[word]
    inner = _ENDING.fullmatch(module)
    if inner is not None and (inner["word"].lower(), kind) in _PARTICULAR:
        slot = "bias" if inner["word"].lower() == "bias" else slot
        return _PARTICULAR[inner["word"].lower(), kind], inner["before"], slot
    return kind, module, slot


def _module_of_folders(place: Place) -> str:
    """Join the folders that follow a layer's, for files that are called after a kind."""
    names = [name for name in place.folders if name.lower() not in KIND_OF_WORD]
    for index, name in enumerate(names):
        if LAYER.search(name):
            return ".".join(names[index:])
    return ""
