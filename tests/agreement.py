"""When two records are the same: counts and extremes to the last bit, sums and ratios to 1e-12."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from numscope import ErrorSums

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RATIOS = [name for name, value in vars(ErrorSums).items() if isinstance(value, property)]

_EXACT = {"amax", "max_abs_error", "scale_min", "scale_max"}


def record(sums: ErrorSums) -> dict[str, float]:
    """The fields of a record by name."""
    return {field.name: getattr(sums, field.name) for field in fields(sums)}


def ratios(sums: ErrorSums) -> dict[str, float]:
    """What follows from a record, by name."""
    return {name: getattr(sums, name) for name in RATIOS}


def assert_agree(
    found: Mapping[str, float], expected: Mapping[str, float], *, besides: Collection[str] = ()
) -> None:
    """Hold `found` against `expected`, name by name, but for the names in `besides`."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name not in besides:
            is_exact = name in _EXACT or isinstance(found[name], int)
            nought = 1e-11 if name == "sqnr_db" else 0  # the difference of two logarithms
            wanted = pytest.approx(value, rel=0 if is_exact else 1e-12, abs=nought, nan_ok=True)
            assert found[name] == wanted, name
