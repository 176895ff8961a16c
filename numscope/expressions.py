"""The expressions that scales are made from, beside their names: formula and source of each.

Adding one is adding a function and its entry in `EXPRESSIONS` or `OUTER_EXPRESSIONS`, and its name
in `checks`. Every operation rounds to float32, as in the kernels that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from numscope.formats import FloatFormat

    Float32 = NDArray[np.float32]
    #: (amax in float32 or float64, element format) -> multiplier or scale.
    Expression = Callable[[NDArray[Any], FloatFormat], NDArray[Any]]
    #: (amax, element format, outer scale, outer multiplier) -> scale before its rounding to E4M3.
    OuterExpression = Callable[[Float32, FloatFormat, Float32, Float32], Float32]

_ONE = np.float32(1)


def _max_over_amax(amax: NDArray[Any], element: FloatFormat) -> NDArray[Any]:
    """Multiplier max/amax.

    Source: Transformer Engine, `compute_scale_from_amax` in common/recipe/recipe_common.cuh; Ling
    2.0 (arXiv 2510.22115) section 5.1; torchao, `amax_to_scale` in float8/float8_utils.py.
    """
    return _float32(np.float32(element.max) / amax)


def _max_times_reciprocal(amax: NDArray[Any], element: FloatFormat) -> NDArray[Any]:
    """Multiplier max * (1/amax): two roundings.

    Source: atorch, modules/fp8/quantize.py, whose framework divides a number by a tensor so.
    """
    return _float32(_float32(_ONE / amax) * np.float32(element.max))


def _amax_over_max(amax: NDArray[Any], element: FloatFormat) -> NDArray[Any]:
    """Scale amax/max.

    Source: DeepGEMM, deep_gemm/utils/math.py; linghe, tools/util.py; atorch, `tile_quant` in
    modules/fp8/triton_kernel.py.
    """
    return _float32(amax / np.float32(element.max))


def _amax_times_reciprocal(amax: NDArray[Any], element: FloatFormat) -> NDArray[Any]:
    """Scale amax * (1/max), 1/max rounded to float32 first.

    Source: Transformer Engine's MXFP8 cast kernels; torchao, `ScaleCalculationMode.RCEIL`.
    """
    return _float32(amax * (_ONE / np.float32(element.max)))


def _amax_over_power(amax: NDArray[Any], element: FloatFormat) -> NDArray[Any]:
    """Scale amax/2^emax, exact; emax is the exponent of the largest element.

    Elements may saturate where it is rounded down: amax/scale can be up to 2^(emax+1).

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
    """
    return amax.astype(np.float64) * 2.0**-element.max_exponent


#: By the name that a `Recipe` carries in its field `scale_from`.
EXPRESSIONS: dict[str, Expression] = {
    "max/amax": _max_over_amax,
    "max*(1/amax)": _max_times_reciprocal,
    "amax/max": _amax_over_max,
    "amax*(1/max)": _amax_times_reciprocal,
    "amax/2^emax": _amax_over_power,
}


def _by_joint_multiplier(
    amax: Float32, element: FloatFormat, _: Float32, multiplier: Float32
) -> Float32:
    """Scale amax * ((1/outer) * (1/max)).

    Source: Transformer Engine, NVFP4 cast kernels with 1 x 16 tiles and their reference in
    pytorch/custom_recipes/reference_nvfp4.py.
    """
    return amax * (multiplier * (_ONE / np.float32(element.max)))


def _by_multiplier(amax: Float32, element: FloatFormat, _: Float32, multiplier: Float32) -> Float32:
    """Scale (amax/max) * (1/outer).

    Source: Transformer Engine, NVFP4 cast kernels with 16 x 16 tiles.
    """
    return (amax / np.float32(element.max)) * multiplier


def _by_scale(amax: Float32, element: FloatFormat, outer: Float32, _: Float32) -> Float32:
    """Scale (amax/max) / outer.

    Source: torchao, `nvfp4_quantize` in prototype/mx_formats/nvfp4_tensor.py.
    """
    return (amax / np.float32(element.max)) / outer


#: By the name that a `Recipe` with two levels carries in its field `scale_from`.
OUTER_EXPRESSIONS: dict[str, OuterExpression] = {
    "amax*((1/outer)*(1/max))": _by_joint_multiplier,
    "(amax/max)*(1/outer)": _by_multiplier,
    "(amax/max)/outer": _by_scale,
}


def _float32(values: NDArray[Any]) -> Float32:
    return values.astype(np.float32, copy=False)
