"""What a scan found, layout by layout, for a screen or a script. Nothing here reads or prints."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numscope.dumps.dtypes import FLOAT_TYPES
from numscope.dumps.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numscope.dumps.refs import Kind, Scan, TensorRef


@dataclass(frozen=True, slots=True)
class KindSummary:
    """The tensors of one kind (`None` for those without): how many, how large, in which forms.

    `forms` counts tensors by shape and dtype, the most frequent first.
    """

    kind: Kind | None
    tensors: int
    bytes: int
    forms: tuple[tuple[tuple[int, ...], str, int], ...]


@dataclass(frozen=True, slots=True)
class LayoutSummary:
    """The tensors that one layout named.

    Attributes
    ----------
    layout, description
        As in `layouts.LAYOUTS`; a pattern of the user's has no description.
    files, tensors, bytes
        How many files and tensors, and how many bytes of values.
    layers, steps, tokens, ranks, microbatches
        All that occur, in ascending order, without `None`.
    unnamed
        How many tensors have no layer, step, tokens, rank or microbatch, by that word.
    modules
        How many different module names there are.
    kinds
        What there is of each kind, the largest first.
    """

    layout: str
    description: str
    files: int
    tensors: int
    bytes: int
    layers: tuple[int, ...]
    steps: tuple[int, ...]
    tokens: tuple[int, ...]
    ranks: tuple[int, ...]
    microbatches: tuple[int, ...]
    unnamed: dict[str, int]
    modules: int
    kinds: tuple[KindSummary, ...]


def nbytes_of(ref: TensorRef) -> int:
    """How many bytes the values of a tensor take in memory."""
    return math.prod(ref.shape) * FLOAT_TYPES[ref.dtype].itemsize


def summarize(scan: Scan) -> tuple[LayoutSummary, ...]:
    """Summarize a scan, the layout with the most tensors first."""
    groups: dict[str, list[TensorRef]] = defaultdict(list)
    for ref in scan:
        groups[ref.layout].append(ref)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_of_layout(name, refs) for name, refs in ordered)


def _of_layout(name: str, refs: list[TensorRef]) -> LayoutSummary:
    by_kind: dict[Kind | None, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        by_kind[ref.kind].append(ref)
    kinds = [_of_kind(kind, group) for kind, group in by_kind.items()]
    return LayoutSummary(
        layout=name,
        description=next((entry.description for entry in LAYOUTS if entry.name == name), ""),
        files=len({ref.path for ref in refs}),
        tensors=len(refs),
        bytes=sum(kind.bytes for kind in kinds),
        layers=_occurring(ref.layer for ref in refs),
        steps=_occurring(ref.step for ref in refs),
        tokens=_occurring(ref.tokens for ref in refs),
        ranks=_occurring(ref.rank for ref in refs),
        microbatches=_occurring(ref.microbatch for ref in refs),
        unnamed={
            "layer": sum(ref.layer is None for ref in refs),
            "step": sum(ref.step is None for ref in refs),
            "tokens": sum(ref.tokens is None for ref in refs),
            "rank": sum(ref.rank is None for ref in refs),
            "microbatch": sum(ref.microbatch is None for ref in refs),
        },
        modules=len({ref.module for ref in refs}),
        kinds=tuple(sorted(kinds, key=lambda kind: (-kind.bytes, str(kind.kind)))),
    )


def _of_kind(kind: Kind | None, refs: list[TensorRef]) -> KindSummary:
    forms = Counter((ref.shape, ref.dtype) for ref in refs)
    return KindSummary(
        kind=kind,
        tensors=len(refs),
        bytes=sum(map(nbytes_of, refs)),
        forms=tuple((*form, count) for form, count in forms.most_common()),
    )


def _occurring(values: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(sorted({value for value in values if value is not None}))
