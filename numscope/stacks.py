"""Layers of different stacks, such as an encoder and a decoder, that a dump gives the same numbers.

A layer is a line of the charts, whatever stack it is of. Nothing here takes them apart: it tells
that they are together, and with which option they come apart.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from numscope import amounts
from numscope.dumps import Problem, TensorRef
from numscope.dumps.writers.modules import LAYER
from numscope.plans import FileWork, matches_module

#: Words that tell one stack from another where they stand before the layer's number.
_WORDS = ("encoder", "decoder", "vision", "visual", "audio", "speech", "text", "language")

Stack = tuple[str, ...]


def merged(work: Iterable[FileWork]) -> list[Problem]:
    """A remark, for each layout, about layers that are merged though they are of several stacks."""
    layouts: dict[str, list[TensorRef]] = defaultdict(list)
    for file in work:
        for ref, _ in file.tensors:
            layouts[ref.layout].append(ref)
    return [problem for refs in layouts.values() for problem in _merged(refs)]


def stack_of(prefix: str) -> Stack:
    """The words in it that tell a stack from others.

    Examples
    --------
    >>> stack_of("vision_tower.vision_model.encoder.layers."), stack_of("model.layers.")
    (('vision', 'encoder'), ())

    Parameters
    ----------
    prefix
        Of a module's name, up to the layer's number.
    """
    words = re.split(r"[^a-z]+", prefix.lower())
    return tuple(dict.fromkeys(word for word in words if word in _WORDS))


def _merged(refs: Sequence[TensorRef]) -> list[Problem]:
    """The remark, if there is one to make, about tensors of one layout."""
    prefixes = {module: _prefix(module) for module in {ref.module for ref in refs}}
    modules: dict[Stack, list[str]] = defaultdict(list)
    for module in sorted(module for module in prefixes if prefixes[module]):
        modules[stack_of(prefixes[module])].append(module)
    lines: dict[tuple[str | None, int], set[Stack]] = defaultdict(set)
    for ref in refs:
        if ref.layer is not None and prefixes[ref.module]:
            lines[ref.kind, ref.layer].add(stack_of(prefixes[ref.module]))
    together = {line: stacks for line, stacks in lines.items() if len(stacks) > 1}
    if not together:
        return []
    stacks = sorted(set().union(*together.values()), key=lambda stack: modules[stack])
    layers = {layer for _, layer in together}
    names = [prefixes[modules[stack][0]].rstrip("._") for stack in stacks]
    options = [f"--module {option}" for stack in stacks for option in _options(stack, modules)]
    message = (
        f"layer{'' if len(layers) == 1 else 's'} {amounts.span(layers)} of {' and of '.join(names)}"
        " are merged in layers.csv and the charts, for they are numbered alike"
    )
    advice = f"; {' or '.join(options)} takes one of them" if options else ""
    return [Problem(refs[0].root, message + advice, failure=False)]


def _prefix(module: str) -> str:
    """A module's name up to the layer's number; empty if it has none."""
    match = LAYER.search(module)
    return module[: match.start(1)] if match else ""


def _options(stack: Stack, modules: dict[Stack, list[str]]) -> list[str]:
    """The simplest value of --module that takes all modules of a stack and no others, if any."""
    own = modules[stack]
    others = [module for other in modules if other != stack for module in modules[other]]
    prefix = _prefix(own[0])
    parts = [part for part in prefix.split(".") if stack_of(part)]
    for wanted, shown in [*((part, part) for part in parts), (f"{prefix}*", f"'{prefix}*'")]:
        if all(matches_module(module, wanted) for module in own) and not any(
            matches_module(module, wanted) for module in others
        ):
            return [shown]
    return []
