"""The tables: one row per tensor and recipe, and the same merged to layers; CSV in and out.

A row's fields are the columns. Floats are written so that they read back to the same bits. Nothing
here measures: every number comes from an `ErrorSums`, and merging adds those.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from numscope.errors import ResultsError
from numscope.measure import ErrorSums

if TYPE_CHECKING:
    from numscope.dumps.refs import TensorRef
    from numscope.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The part that both tables share: what was quantized how, the sums, and what follows from them.

    `recipe` is what the user asked for and groups a series; `element`, `tile` and `scale` say what
    was done, so a gradient's row and column tiles are two rows of one recipe.
    All other fields are those of `ErrorSums`.
    """

    recipe: str
    element: str
    tile: str
    scale: str
    count: int
    zeros: int
    nan_count: int
    inf_count: int
    underflow_count: int
    saturated_count: int
    sum_xx: float
    sum_yy: float
    sum_xy: float
    sum_ee: float
    amax: float
    max_abs_error: float
    row_count: int
    zero_rows: int
    flushed_rows: int
    sum_row_cosine: float
    min_row_cosine: float
    tile_count: int
    zero_tiles: int
    scale_min: float
    scale_max: float
    tile_range_log2_max: float
    underflow: float
    underflow_nonzero: float
    zeros_after: float
    saturated: float
    distortion: float
    cosine: float
    sqnr_db: float
    mse: float
    relative_error: float

    @property
    def sums(self) -> ErrorSums:
        """The addable record that this row was derived from."""
        return ErrorSums(*(getattr(self, name) for name in _SUM_NAMES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Measured):
    """One tensor under one recipe: a line of tensors.csv."""

    step: int | None
    tokens: int | None
    rank: int | None
    microbatch: int | None
    layer: int | None
    kind: str
    module: str
    path: str
    key: str
    rows: int
    cols: int
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(Measured):
    """All tensors of one layer, kind, step and recipe, merged: a line of layers.csv."""

    tokens: int | None
    step: int | None
    layer: int | None
    kind: str
    tensors: int


_SUM_NAMES = tuple(field.name for field in fields(ErrorSums))
_RATIO_NAMES = (
    "underflow",
    "underflow_nonzero",
    "zeros_after",
    "saturated",
    "distortion",
    "cosine",
    "sqnr_db",
    "mse",
    "relative_error",
)
_RECIPE_NAMES = ("recipe", "element", "tile", "scale")

TENSOR_COLUMNS: tuple[str, ...] = (
    *("step", "tokens", "rank", "microbatch", "layer", "kind", "module", "path", "key"),
    *("rows", "cols", "dtype"),
    *_RECIPE_NAMES,
    *_SUM_NAMES,
    *_RATIO_NAMES,
)
LAYER_COLUMNS: tuple[str, ...] = (
    *("tokens", "step", "layer", "kind"),
    *_RECIPE_NAMES,
    "tensors",
    *_SUM_NAMES,
    *_RATIO_NAMES,
)


def _measured(sums: ErrorSums) -> dict[str, Any]:
    return {name: getattr(sums, name) for name in (*_SUM_NAMES, *_RATIO_NAMES)}
