"""The recipes behind the golden tables of scales, whose records state their rule in words only."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from numscope.errors import UnsupportedRecipe
from numscope.recipes import Recipe

_UP = {"scale": "float8_e8m0fnu", "scale_rounding": "up"}
_RULES: dict[str, dict[str, Any]] = {
    r"te_python_(?P<element>\w+)_fp32_(?P<dtype>\w+)_multiplier": {"nonfinite": "propagate"},
    r"te_python_(?P<element>\w+)_pow2_(?P<dtype>\w+)_multiplier": {
        "scale": "power_of_two",
        "nonfinite": "propagate",
    },
    r"te_kernel_(?P<element>\w+)_fp32_(?P<dtype>\w+)_multiplier": {"nonfinite": "one_if_infinite"},
    r"te_kernel_(?P<element>\w+)_pow2_(?P<dtype>\w+)_multiplier": {
        "scale": "power_of_two",
        "nonfinite": "one_if_infinite",
    },
    r"te_python_mx(?P<element>\w+)_code": _UP | {"scale_from": "amax/max", "nonfinite": "nan"},
    r"te_cpp_mx(?P<element>\w+)_code": _UP
    | {"scale_from": "amax*(1/max)", "nonfinite": "largest_if_infinite"},
    r"te_mxfp4_scale": _UP
    | {"element": "e2m1", "scale_from": "amax/max", "nonfinite": "largest_if_infinite"},
    r"deepgemm_fp32": {"scale_from": "amax/max", "amax_floor": 1e-4, "nonfinite": "propagate"},
    r"deepgemm_ue8m0": _UP | {"scale_from": "amax/max", "amax_floor": 1e-4, "nonfinite": "largest"},
    r"linghe_pow2": {
        "scale": "power_of_two",
        "scale_from": "amax/max",
        "scale_floor": 1e-30,
        "nonfinite": "propagate",
    },
    r"torchao_f8_(?P<element>\w+)_fp32_multiplier": {
        "amax_floor": 1e-12,
        "amax_floor_precision": "float64",
        "nonfinite": "propagate",
    },
    r"torchao_f8_(?P<element>\w+)_pow2_multiplier": {
        "scale": "power_of_two",
        "amax_floor": 1e-12,
        "amax_floor_precision": "float64",
        "nonfinite": "propagate",
    },
    r"torchao_mx(?P<element>\w+)_floor_code": {"scale": "float8_e8m0fnu", "nonfinite": "nan"},
    r"torchao_mx(?P<element>\w+)_ceil_code": _UP | {"nonfinite": "nan"},
    r"torchao_mx(?P<element>\w+)_even_code": {
        "scale": "float8_e8m0fnu",
        "scale_rounding": "even",
        "nonfinite": "nan",
    },
    r"torchao_mx(?P<element>\w+)_rceil_code": _UP
    | {"scale_from": "amax*(1/max)", "nonfinite": "nan"},
    r"cuda_e8m0_rz_nosat_of_amax_over_448": _UP
    | {"scale_from": "amax/max", "scale_rounding": "down", "nonfinite": "nan"},
    r"cuda_e8m0_rz_satfinite_of_amax_over_448": _UP
    | {"scale_from": "amax/max", "scale_rounding": "down", "nonfinite": "largest_if_infinite"},
    r"cuda_e8m0_rp_nosat_of_amax_over_448": _UP | {"scale_from": "amax/max", "nonfinite": "nan"},
    r"cuda_e8m0_rp_satfinite_of_amax_over_448": _UP
    | {"scale_from": "amax/max", "nonfinite": "largest_if_infinite"},
}

_DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}


def scale_rule(table: str) -> tuple[Recipe, np.dtype[Any]]:
    """The recipe whose scales the table of that name holds, and the dtype of the input.

    Raises
    ------
    UnsupportedRecipe
        If no recipe has such scales.
    """
    for pattern, fields in _RULES.items():
        match = re.fullmatch(pattern, table)
        if match:
            words: dict[str, Any] = match.groupdict()
            dtype = _DTYPES[words.get("dtype", "f32")]
            return Recipe(**{"element": words.get("element", "e4m3")} | fields), dtype
    raise UnsupportedRecipe(f"{table}: no project quantizes with the scale of that cast")
