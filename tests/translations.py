"""What other projects call the same loss: their metrics from the counts and sums of `ErrorSums`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numscope import ErrorSums

TRANSLATIONS: dict[str, Callable[[ErrorSums], float]] = {
    "te_underflows_pct": lambda m: 100 * m.underflow,
    "te_mse": lambda m: m.mse,
    "linghe_zero_fraction": lambda m: m.zeros_after,
    "atorch_underflow_pct": lambda m: 100 * m.underflow_nonzero if m.zeros < m.count else 0.0,
    "deepgemm_calc_diff": lambda m: (
        1 - 2 * m.sum_xy / (m.sum_xx + m.sum_yy) if m.sum_xx or m.sum_yy else 0.0
    ),
    "torchao_compute_error_db": lambda m: m.sqnr_db,
}

#: Those that the projects evaluate in float32.
COARSE = {"te_underflows_pct", "te_mse", "torchao_compute_error_db"}

#: Those that count codes, not values.
COUNTED_IN_CODES = {"te_underflows_pct", "linghe_zero_fraction"}
