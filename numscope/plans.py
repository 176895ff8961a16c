"""What to do with a dump: which tensors are measured, and under which recipes.

From a scan and what was asked for to a list of work, one item per dump file. Nothing here opens a
file or measures.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from numscope import amounts
from numscope.catalogue import family
from numscope.dumps import Kind, Problem, Scan, TensorRef
from numscope.dumps.sources import Stamp
from numscope.dumps.summaries import nbytes_of
from numscope.errors import NothingToDo, UsageError
from numscope.ranges import Ranges
from numscope.recipes import Recipe, Tile
from numscope.written import fields_text, parse, weight_recipe

DEFAULT_KINDS: tuple[Kind, ...] = ("activation", "gradient")


class Scheme(NamedTuple):
    """A recipe as it was asked for: its name in the tables, for activations, and for weights."""

    label: str
    recipe: Recipe
    weight: Recipe


class Planned(NamedTuple):
    """A recipe for one tensor and the name that it has in the tables."""

    label: str
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tensors are wanted; `None` is any.

    `module` is a part of the module's name, or a pattern with `*`, `?` or `[…]` for all of it.
    """

    kinds: tuple[Kind, ...] = DEFAULT_KINDS
    layers: Collection[int] | None = None
    steps: Collection[int] | None = None
    module: str | None = None

    def takes(self, ref: TensorRef) -> bool:
        """Whether the tensor is wanted."""
        return (
            ref.kind in self.kinds
            and (self.layers is None or ref.layer in self.layers)
            and (self.steps is None or ref.step in self.steps)
            and matches_module(ref.module, self.module)
        )


@dataclass(frozen=True, slots=True)
class FileWork:
    """The tensors of one dump file and what to do with each. Picklable.

    `stamp` is the file's as it was scanned; `None` is any.
    """

    root: str
    path: str
    tensors: tuple[tuple[TensorRef, tuple[Planned, ...]], ...]
    npy_dtype: str | None = None
    stamp: Stamp | None = None

    @property
    def bytes(self) -> int:
        """Size of the tensors in memory, as a measure of the work."""
        return sum(nbytes_of(ref) for ref, _ in self.tensors)


def schemes(
    recipes: str | Recipe | Sequence[str | Recipe] | Mapping[str, Recipe],
    tiles: Sequence[Tile] = (),
) -> list[Scheme]:
    """The recipes as asked for, each once, with `tiles` in place of their own if any are given.

    Those of a mapping have its names in the tables, others the text that stands for them.
    """
    if isinstance(recipes, str | Recipe):
        recipes = [recipes]
    bases = (
        dict(recipes)
        if isinstance(recipes, Mapping)
        else {str(base): base for base in map(parse, recipes)}
    )
    if not tiles:
        return [Scheme(label, base, weight_recipe(base)) for label, base in bases.items()]
    turned = {
        _label_with(label, base, tile): replace(base, tile=tile)
        for label, base in bases.items()
        for tile in tiles
    }
    return [Scheme(label, base, base) for label, base in turned.items()]


def chosen(
    asked: Mapping[str, Recipe], families: Sequence[str], own: Mapping[str, Recipe]
) -> dict[str, Recipe]:
    """The recipes to measure by their names in the tables; the default one if nothing is given.

    Parameters
    ----------
    asked
        Those that were asked for one by one.
    families
        Of which all are taken.
    own
        Someone's own, which are all taken if none is asked for.
    """
    members = {str(recipe): recipe for name in families for recipe in family(name)}
    return {**(asked or own), **members} or {str(Recipe()): Recipe()}


def planned(kind: str, wanted: Sequence[Scheme]) -> tuple[Planned, ...]:
    """The recipes for a tensor of that kind.

    Gradients are quantized with the recipe's tile for the input gradient and with its transpose for
    the weight gradient.

    Raises
    ------
    UsageError
        If the tables could not tell one from the other.
    """
    if kind == "weight":
        return tuple(Planned(each.label, each.weight) for each in wanted)
    if kind.endswith("gradient"):
        _refuse_twins(wanted)
        both = (
            Planned(each.label, recipe)
            for each in wanted
            for recipe in (each.recipe, each.recipe.transpose)
        )
        return tuple(dict.fromkeys(both))
    return tuple(Planned(each.label, each.recipe) for each in wanted)


def plan(
    found: Scan, selection: Selection, wanted: Sequence[Scheme], *, npy_dtype: str | None = None
) -> tuple[list[FileWork], list[Problem]]:
    """The work on each dump file, in order, and remarks about tensors that are left out.

    Raises
    ------
    NothingToDo
        If nothing is selected; the message says what there is.
    """
    chosen = [ref for ref in found if selection.takes(ref)]
    empty = [ref for ref in chosen if 0 in ref.shape]
    undated = [ref for ref in chosen if ref.step is None and ref.tokens is None]
    unnamed = [ref for ref in found if ref.kind is None]
    remarks = [
        *_remark(unnamed, "left out: no kind (activation, gradient, …) is recognised in its name"),
        *_remark(empty, "left out: it is empty, there is nothing to measure"),
        *_remark(undated, _undated_message(chosen, undated)),
        *_over_steps(chosen),
        *_absent(found, selection),
    ]
    filled = (ref for ref in chosen if 0 not in ref.shape)
    recipes = {kind: planned(kind, wanted) for kind in {ref.kind or "" for ref in chosen}}
    work = [
        FileWork(
            root,
            path,
            tuple((ref, recipes[ref.kind or ""]) for ref in refs),
            npy_dtype,
            found.stamps.get(path),
        )
        for (root, path), refs in groupby(filled, lambda ref: (ref.root, ref.path))
    ]
    if not work:
        raise NothingToDo(_nothing(found, selection, empty))
    return work, remarks


def settings(
    selection: Selection, wanted: Sequence[Scheme], reading: Mapping[str, object]
) -> dict[str, str]:
    """The options that change a row of the tables, as text, by their names on the command line.

    `reading` is how the dump is understood, as for `dumps.scan`.
    """
    facts = {
        "--recipe": ",".join(map(_in_full, wanted)),
        "--kinds": ",".join(selection.kinds),
        "--layers": "all" if selection.layers is None else amounts.ranges(selection.layers),
        "--steps": "all" if selection.steps is None else amounts.ranges(selection.steps),
        "--module": selection.module or "all",
    }
    return facts | {
        f"--{name.replace('_', '-')}": str(value)
        for name, value in sorted(reading.items())
        if value
    }


def matches_module(module: str, wanted: str | None) -> bool:
    """Whether a module's name contains `wanted`, or matches it where that is a pattern."""
    if wanted is None:
        return True
    if any(sign in wanted for sign in "*?["):
        return fnmatch.fnmatchcase(module, wanted)
    return wanted in module


def _refuse_twins(wanted: Sequence[Scheme]) -> None:
    for label, recipe, _ in wanted:
        if recipe != recipe.transpose and recipe.tile == recipe.transpose.tile:
            raise UsageError(
                f"{label}: tile {recipe.tile_text} is the same for a gradient and its transpose,"
                f" but outer={recipe.outer} is not; choose another tile or outer=tensor"
            )


def _label_with(label: str, recipe: Recipe, tile: Tile) -> str:
    """The name in the tables of a recipe that gets another tile."""
    turned = replace(recipe, tile=tile)
    if label == str(recipe):
        return str(turned)
    return label if turned == recipe else f"{label}:{turned.tile_text}"


def _in_full(scheme: Scheme) -> str:
    """A recipe's name in the tables, with its fields if the name is someone's own."""
    is_own = scheme.label != str(scheme.recipe)
    return f"{scheme.label} ({fields_text(scheme.recipe)})" if is_own else scheme.label


def _undated_message(chosen: Sequence[TensorRef], undated: Sequence[TensorRef]) -> str:
    if len(undated) == len(chosen):
        return "no step is named: it is charted at step 0"
    return "no step is named, as it is for others: it is in the tables but in no chart"


def _over_steps(chosen: Sequence[TensorRef]) -> list[Problem]:
    """A remark if the tokens of some steps are known, and those of others not."""
    dated = [ref for ref in chosen if ref.step is not None]
    lost = [ref for ref in dated if ref.tokens is None]
    if not lost or len(lost) == len(dated):
        return []
    steps = {ref.step for ref in lost if ref.step is not None}
    what = f"step{'s' if len(steps) > 1 else ''} {amounts.span(steps)}"
    message = (
        f"no tokens are known of {what}, as they are of others: all charts are drawn over steps;"
        " give them with --tokens-map, or leave such steps out with --steps"
    )
    return [Problem(lost[0].name, message, failure=False)]


def _remark(refs: Sequence[TensorRef], message: str) -> list[Problem]:
    if not refs:
        return []
    others = amounts.others(len(refs) - 1, "tensor")
    return [Problem(refs[0].name, f"{message}{others}", failure=False)]


def _absent(found: Scan, selection: Selection) -> list[Problem]:
    """A remark for layers and steps that were asked for one by one and are not there.

    A range only narrows; so do numbers beside others where they were not given as text.
    """
    remarks = []
    for word, wanted, present in (
        ("layer", selection.layers, {ref.layer for ref in found}),
        ("step", selection.steps, {ref.step for ref in found}),
    ):
        missing = set(Ranges.of(wanted or ()).named) - present
        if missing:
            remarks.append(
                Problem(found.root, f"has no {word} {amounts.ranges(missing)}", failure=False)
            )
    return remarks


def _nothing(found: Scan, selection: Selection, empty: Sequence[TensorRef]) -> str:
    """Why nothing is selected, by what there is."""
    if empty:
        others = amounts.others(len(empty) - 1, "tensor")
        return f"nothing to analyse in {found.root}: {empty[0].name} is empty{others}"
    if not found.refs:
        return (
            f"nothing to analyse in {found.root}: no tensor was found in"
            f" {amounts.counted(found.files, 'dump file')}"
            if found.files
            else f"nothing to analyse in {found.root}: it holds no dump file that numscope reads"
        )
    kinds = sorted({ref.kind for ref in found if ref.kind})
    there = [f"kinds {', '.join(kinds) or 'none recognised'}"]
    there += [
        f"{word}s {amounts.span(values)}"
        for word, values in (
            ("layer", {ref.layer for ref in found if ref.layer is not None}),
            ("step", {ref.step for ref in found if ref.step is not None}),
        )
        if values
    ]
    asked = [f"kinds {','.join(selection.kinds)}"]
    asked += [f"layers {amounts.ranges(selection.layers)}"] if selection.layers is not None else []
    asked += [f"steps {amounts.ranges(selection.steps)}"] if selection.steps is not None else []
    asked += [f"module {selection.module}"] if selection.module is not None else []
    return f"nothing to analyse for {'; '.join(asked)}; {found.root} has {'; '.join(there)}"
