"""Which modules of a model are captured, and what they are called in the dump.

Names are those of the model without the wrappers around it. Nothing here touches a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from numscope.dumps.writers.modules import layer_of
from numscope.plans import matches_module

if TYPE_CHECKING:
    from torch import nn

Which: TypeAlias = (
    "str | type[nn.Module] | Callable[[str, nn.Module], bool] | Sequence[str | type[nn.Module]]"
)
"""A pattern of names, a class, or several of these; or a function of a module's name and itself."""

_INNER = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""What torch.compile, FSDP and checkpoint wrappers call the module that they hold."""

_INNER_OF_MODEL = {"module", *_INNER}
"""The same of what may be around the whole model, such as DDP."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A module to be captured.

    Attributes
    ----------
    name
        Of the module in the model.
    module
        Itself.
    layer
        The number of its layer, `None` if its name has no number.
    aliases
        Other names that the same module has in the model.
    """

    name: str
    module: nn.Module
    layer: int | None
    aliases: tuple[str, ...] = ()


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside of DDP, torch.compile and the like."""
    children = dict(model.named_children())
    while len(children) == 1 and children.keys() <= _INNER_OF_MODEL:
        (model,) = children.values()
        children = dict(model.named_children())
    return model


def choose(model: nn.Module, layers: Collection[int] | None, which: Which) -> list[Chosen]:
    """The modules that are wanted, each once and under its first name that is wanted.

    Parameters
    ----------
    model
        Without wrappers around it.
    layers
        `None` for all modules, whether or not they are in a layer.
    which
        What is wanted in these layers.
    """
    names: dict[int, list[str]] = {}
    modules: dict[int, nn.Module] = {}
    for full, module in model.named_modules(remove_duplicate=False):
        name = ".".join(part for part in full.split(".") if part not in _INNER)
        is_inside = layers is None or number_of(name) in layers
        if is_inside and not _is_wrapper(module) and _is(name, module, which):
            modules[id(module)] = module
            names.setdefault(id(module), []).append(name)
    return [
        Chosen(first, modules[key], number_of(first), tuple(others))
        for key, (first, *others) in names.items()
    ]


def number_of(name: str) -> int | None:
    """The layer in a name, by the words for layers, else the first part that is a number."""
    layer = layer_of(name)
    numbers = (int(part) for part in name.split(".") if part.isdecimal())
    return layer if layer is not None else next(numbers, None)


def _is_wrapper(module: nn.Module) -> bool:
    return not _INNER.isdisjoint(name for name, _ in module.named_children())


def _is(name: str, module: nn.Module, which: Which) -> bool:
    """Whether a module is wanted, given that its layer is."""
    if isinstance(which, str):
        return bool(name) and matches_module(name, which)
    if isinstance(which, type):
        return isinstance(module, which)
    if isinstance(which, Sequence):
        return any(_is(name, module, each) for each in which)
    return bool(which(name, module))
