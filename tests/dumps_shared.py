"""The dumps that other tools wrote and what is known about each of their tensors."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parent


def dumps_folder() -> Path:
    """All dumps, where they lie beside the repository, else the few that are part of it."""
    shared = os.environ.get("NUMSCOPE_SHARED", str(TESTS.parent.parent / "shared"))
    folder = Path(shared, "dumps")
    return folder if folder.is_dir() else TESTS / "data" / "dumps"


@dataclass(frozen=True)
class Expected:
    """One line of an expectations.json: `facts` holds it as it is."""

    folder: Path
    path: str
    key: tuple[Any, ...]
    facts: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.folder.name}/{self.path}:{'/'.join(map(str, self.key))}"


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def expectations(layout: str, part: str = "entries") -> list[Expected]:
    """What is known of a layout's tensors (`entries`) or of everything else (`others`)."""
    folder = dumps_folder() / layout
    if not folder.is_dir():
        return []
    content = json.loads((folder / "expectations.json").read_text())
    return [
        Expected(folder, line["path"], _tuples(line.get("key", [])), line) for line in content[part]
    ]


def facts_of(values: np.ndarray[Any, Any]) -> dict[str, float | int]:
    """The numbers that the expectations state, computed in float64."""
    wide = values.astype(np.float64).reshape(-1, values.shape[-1] if values.ndim else 1)
    return {
        "amax": float(np.abs(wide).max(initial=0.0)),
        "zeros": int((wide == 0).sum()),
        "zero_rows": int((wide == 0).all(axis=1).sum()),
        "sum_squares": float((wide * wide).sum()),
    }
