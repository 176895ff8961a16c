"""What FP8 and MX block quantization lose in a training run's activations and gradients.

>>> import numscope
>>> str(numscope.recipe("ling").transpose)
'ling:128x1'
"""

from __future__ import annotations

# ruff: noqa: E402 (what is imported after this may be interrupted)
from numscope import starting

starting.begin()

from typing import TYPE_CHECKING

# Bound here at once, since `numscope.measure`, `.quantize` and `.recipes` are modules too.
from numscope.measure import ErrorSums, measure
from numscope.quantize import Quantized, quantize
from numscope.recipes import Recipe
from numscope.version import __version__ as __version__
from numscope.written import parse as recipe
from numscope.written import recipes

if TYPE_CHECKING:
    from numscope.analysis import analyze
    from numscope.dumps import load, scan
    from numscope.recipe_files import read as read_recipes

__all__ = [
    "ErrorSums",
    "Quantized",
    "Recipe",
    "analyze",
    "load",
    "measure",
    "quantize",
    "read_recipes",
    "recipe",
    "recipes",
    "scan",
]


def __getattr__(name: str) -> object:
    """Import what takes time when it is asked for: `numscope --help` does without."""
    if name == "analyze":
        from numscope.analysis import analyze  # noqa: PLC0415

        return analyze
    if name == "read_recipes":
        from numscope.recipe_files import read  # noqa: PLC0415

        return read
    if name in ("load", "scan"):
        from numscope import dumps  # noqa: PLC0415

        return getattr(dumps, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
