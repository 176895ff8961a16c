"""Small dumps and rows of tables that tests are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save_file

from numscope import tables
from numscope.dumps.refs import TensorRef
from numscope.measure import ErrorSums
from numscope.tables import LayerRow, Row
from numscope.written import parse

REPOSITORY = Path(__file__).resolve().parent.parent
SAMPLE_DUMPS = REPOSITORY / "sample_dumps"
SMALL_RUN = REPOSITORY / "tests" / "data" / "small_run"


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


#: Four values in one row and one tile, of which one is zero and one became zero; round ratios.
SUMS = ErrorSums(
    count=4,
    zeros=1,
    underflow_count=1,
    sum_xx=100.0,
    sum_yy=25.0,
    sum_xy=40.0,
    sum_ee=1.0,
    amax=2.5,
    max_abs_error=0.5,
    row_count=1,
    sum_row_cosine=0.75,
    min_row_cosine=0.75,
    tile_count=1,
    scale_min=0.5,
    scale_max=0.5,
    tile_range_log2_max=3.0,
)

REF = TensorRef(
    root="dumps",
    path="step_000060.safetensors",
    key=("layers.4.mlp.fc1.gradient",),
    shape=(1, 4),
    dtype="bfloat16",
    kind="gradient",
    layer=4,
    module="layers.4.mlp.fc1",
    step=60,
    tokens=30720,
)


def ref(**changes: Any) -> TensorRef:
    """`REF` with some fields changed."""
    return replace(REF, **changes)


def row(recipe: str = "ling", label: str = "ling", sums: ErrorSums = SUMS, **identity: Any) -> Row:
    """A row of tensors.csv for `REF` with some fields changed."""
    return tables.row(ref(**identity), parse(recipe), sums, label=label)


def layer_rows(*rows: Row) -> list[LayerRow]:
    """The rows of layers.csv that follow from these."""
    return tables.merge_layers(rows)


def save_dump(path: Path, tensors: dict[str, np.ndarray[Any, Any]], **metadata: str) -> Path:
    """Save a safetensors file as a training run's hooks would, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(path), metadata=metadata or None)
    return path


def gradient(rows: int, cols: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows of very different magnitudes, as gradients of tokens are, in float32."""
    random = np.random.default_rng(seed)
    tokens = np.exp2(random.uniform(-24, 0, (rows, 1)))
    return (random.standard_normal((rows, cols)) * tokens).astype(np.float32)
