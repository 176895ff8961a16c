"""The table of named recipes: one entry each, with where it comes from and what sets it apart.

Adding a recipe is adding an entry. What an entry's fields mean is in `recipes.Recipe`; nothing here
computes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numscope.recipes import Recipe, Tile


class NamedRecipe(NamedTuple):
    """An entry of the table.

    Attributes
    ----------
    family
        The entries that `--recipes FAMILY` takes together: `fp8`, `mx`, `nvfp4`, `int8`.
    recipe
        For activations and, with its transpose, for gradients.
    weight_tile
        The tile that the same scheme has for weights.
    formula
        How a tile's scale and elements come about; `max` is the largest element.
    source
        Whose it is.
    differs
        What sets it apart from its neighbours.
    weight
        The entry that weights are quantized by, where they have more than another tile; or `""`.
    """

    family: str
    recipe: Recipe
    weight_tile: Tile
    formula: str
    source: str
    differs: str
    weight: str = ""


_BLOCK, _TENSOR, _ROW, _MX = (128, 128), (None, None), (1, None), (1, 32)

_E8M0: dict[str, Any] = {"scale": "float8_e8m0fnu", "nonfinite": "nan"}
_RCEIL: dict[str, Any] = {
    "scale": "float8_e8m0fnu",
    "scale_from": "amax*(1/max)",
    "scale_rounding": "up",
}
_NVFP4: dict[str, Any] = {"scale": "float8_e4m3fn", "outer": "tensor", "nonfinite": "propagate"}
_OCP = "OCP Microscaling Formats (MX) Specification 1.0, section 6.3"
_FLOOR = "s = 2^(floor(log2 amax) - emax); x*2^-e is rounded to nearest even and clipped"
_ATORCH = "atorch, modules/fp8/triton_kernel.py, tile_quant"
_TE_NVFP4 = "Transformer Engine, NVFP4 kernels, tests/cpp/operator/test_cast_nvfp4_transpose.cu"

#: The named recipes by name.
NAMED: dict[str, NamedRecipe] = {
    "ling": NamedRecipe(
        "fp8",
        Recipe("float8_e4m3fn", (1, 128), "float32"),
        _BLOCK,
        "m = max/amax, s = 1/m, zero tiles get 1; x*m is rounded to nearest even and clipped",
        "Ling 2.0 (arXiv 2510.22115, 5.1); Transformer Engine block scaling with FP32 scales",
        "the default; NaN and infinities do not count for amax",
    ),
    "te-block": NamedRecipe(
        "fp8",
        Recipe("float8_e4m3fn", (1, 128), "float32", nonfinite="one_if_infinite"),
        _BLOCK,
        "m = max/amax, s = 1/m, zero tiles get 1; x*m is rounded to nearest even and clipped",
        "Transformer Engine, common/recipe/recipe_common.cuh, compute_scale_from_amax",
        "ling, but a tile with an infinity gets the scale 1",
    ),
    "te-block-pow2": NamedRecipe(
        "fp8",
        Recipe("float8_e4m3fn", (1, 128), "power_of_two", nonfinite="one_if_infinite"),
        _BLOCK,
        "m = 2^floor(log2(max/amax)), s = 1/m; x*m is rounded to nearest even and clipped",
        "Transformer Engine, common/recipe/recipe_common.cuh, its default for block scaling",
        "te-block with scales rounded up to powers of two: up to one bit less range, and no error"
        " from requantizing in the other orientation",
    ),
    "te-tensor": NamedRecipe(
        "fp8",
        Recipe("float8_e4m3fn", _TENSOR, "float32", nonfinite="one_if_infinite"),
        _TENSOR,
        "m = max/amax over the whole tensor, s = 1/m; x*m is rounded to nearest even and clipped",
        "Transformer Engine, per-tensor current scaling",
        "te-block with one scale for the whole tensor",
    ),
    "te-tensor-e5m2": NamedRecipe(
        "fp8",
        Recipe("float8_e5m2", _TENSOR, "float32", nonfinite="one_if_infinite"),
        _TENSOR,
        "m = max/amax over the whole tensor, s = 1/m; x*m is rounded to nearest even and clipped",
        "Transformer Engine, per-tensor current scaling of gradients in the hybrid format",
        "te-tensor with E5M2: 14 bits more range, one bit less precision",
    ),
    "deepgemm": NamedRecipe(
        "fp8",
        Recipe(scale_from="amax/max", amax_floor=1e-4, nonfinite="propagate"),
        _BLOCK,
        "s = fl(max(amax, 1e-4)/max); x*fl(1/s) is rounded to nearest even",
        "DeepGEMM, deep_gemm/utils/math.py, per_token_cast_to_fp8",
        "amax is at least 1e-4: what is below 2e-10 vanishes; s is rounded before its reciprocal",
    ),
    "deepgemm-ue8m0": NamedRecipe(
        "fp8",
        Recipe(
            scale="float8_e8m0fnu",
            scale_from="amax/max",
            scale_rounding="up",
            amax_floor=1e-4,
            nonfinite="largest",
        ),
        _BLOCK,
        "s = 2^ceil(log2(max(amax, 1e-4)/max)), from the exponent's bits; x/s is rounded",
        "DeepGEMM, deep_gemm/utils/math.py, per_token_cast_to_fp8(use_ue8m0=True)",
        "deepgemm with scales rounded up to powers of two, 8 bits each",
    ),
    "deepgemm-fp4": NamedRecipe(
        "mx",
        Recipe(
            "float4_e2m1fn",
            _MX,
            "float8_e8m0fnu",
            scale_from="amax/max",
            scale_rounding="up",
            amax_floor=1e-4,
            nonfinite="largest",
            rounding="nearest_toward_zero",
            negative_zero="positive",
        ),
        _MX,
        "s = 2^ceil(log2(max(amax, 1e-4)/6)); x/s is rounded to nearest, ties toward zero, no -0",
        "DeepGEMM, deep_gemm/utils/math.py, per_token_cast_to_fp4",
        "mx-e2m1 with scales rounded up, ties toward zero and a floor for amax",
    ),
    "linghe": NamedRecipe(
        "fp8",
        Recipe(scale_from="amax/max", scale_floor=1e-30, apply="divide", nonfinite="propagate"),
        _BLOCK,
        "s = max(fl(amax/max), 1e-30); x/s is rounded to nearest even",
        "linghe, linghe/tools/util.py, torch_group_quant",
        "divides by the scale where others multiply; the floor is far below deepgemm's, and linghe"
        " has none for its own square tiles: scale_floor=0",
    ),
    "linghe-pow2": NamedRecipe(
        "fp8",
        Recipe(
            scale="power_of_two",
            scale_from="amax/max",
            scale_floor=1e-30,
            apply="divide",
            nonfinite="propagate",
        ),
        _BLOCK,
        "s = 2^ceil(log2 max(amax/max, 1e-30)); x/s is rounded to nearest even",
        "linghe, linghe/tools/util.py, torch_group_quant(round_scale=True)",
        "linghe with scales rounded up to powers of two",
    ),
    "atorch": NamedRecipe(
        "fp8",
        Recipe(scale_from="amax/max", apply="divide", nonfinite="propagate"),
        _BLOCK,
        "s = fl(amax/max), 0 becomes 1; x/s is rounded to nearest even",
        _ATORCH,
        "linghe without a floor",
    ),
    "atorch-ceil": NamedRecipe(
        "fp8",
        Recipe(scale="power_of_two", scale_from="amax/max", apply="divide", nonfinite="propagate"),
        _BLOCK,
        "s = 2^ceil(log2(amax/max)), 0 becomes 1; x/s is rounded to nearest even",
        _ATORCH,
        "atorch with scales rounded up to powers of two: nothing saturates",
    ),
    "atorch-floor": NamedRecipe(
        "fp8",
        Recipe(
            scale="power_of_two",
            scale_from="amax/max",
            scale_rounding="down",
            apply="divide",
            nonfinite="propagate",
        ),
        _BLOCK,
        "s = 2^floor(log2(amax/max)), 0 becomes 1; x/s is rounded to nearest even and clipped",
        _ATORCH,
        "atorch with scales rounded down: a bit more range, the largest values saturate",
    ),
    "atorch-nearest": NamedRecipe(
        "fp8",
        Recipe(
            scale="power_of_two",
            scale_from="amax/max",
            scale_rounding="nearest",
            apply="divide",
            nonfinite="propagate",
        ),
        _BLOCK,
        "s = 2^floor(log2(amax/max) + 1/2), 0 becomes 1; x/s is rounded to nearest even, clipped",
        _ATORCH,
        "between atorch-ceil and atorch-floor",
    ),
    "torchao-block": NamedRecipe(
        "fp8",
        Recipe(
            amax_floor=1e-12,
            amax_floor_precision="float64",
            infinite_multiplier="kept",
            nonfinite="propagate",
        ),
        _BLOCK,
        "m = max/max(amax, 1e-12) in float64, s = 1/m; x*m is rounded to nearest even and clipped",
        "torchao, prototype/blockwise_fp8_training/kernels.py",
        "ling with a floor for amax, which makes zero tiles' scale 2e-15",
    ),
    "torchao-row": NamedRecipe(
        "fp8",
        Recipe(
            tile=_ROW,
            amax_floor=1e-12,
            amax_floor_precision="float64",
            infinite_multiplier="kept",
            nonfinite="propagate",
            dequantize="divide",
        ),
        _ROW,
        "m = max/max(amax, 1e-12) in float64; x*m is rounded, clipped; elements are divided by m",
        "torchao, float8/float8_utils.py, amax_to_scale with axiswise granularity",
        "torchao-block with a scale per row; elements are divided by m, not multiplied by 1/m",
    ),
    "torchao-tensor": NamedRecipe(
        "fp8",
        Recipe(
            tile=_TENSOR,
            amax_floor=1e-12,
            amax_floor_precision="float64",
            infinite_multiplier="kept",
            nonfinite="propagate",
            dequantize="divide",
        ),
        _TENSOR,
        "m = max/max(amax, 1e-12) in float64; x*m is rounded, clipped; elements are divided by m",
        "torchao, float8/float8_utils.py, amax_to_scale with tensorwise granularity",
        "torchao-row with one scale for the whole tensor",
    ),
    "mx-e4m3": NamedRecipe(
        "mx",
        Recipe("float8_e4m3fn", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; torchao's FLOOR, gfloat",
        "MXFP8 as specified: values above 1.75*2^k saturate at 448/512 of their size",
    ),
    "mx-e5m2": NamedRecipe(
        "mx",
        Recipe("float8_e5m2", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; torchao's FLOOR, gfloat",
        "mx-e4m3 with E5M2: 14 bits more range, one bit less precision",
    ),
    "mx-e2m3": NamedRecipe(
        "mx",
        Recipe("float6_e2m3fn", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; torchao's FLOOR, gfloat",
        "MXFP6 with the precision of E4M3 and 7 bits of range",
    ),
    "mx-e3m2": NamedRecipe(
        "mx",
        Recipe("float6_e3m2fn", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; torchao's FLOOR, gfloat",
        "MXFP6 with the precision of E5M2 and 9 bits of range",
    ),
    "mx-e2m1": NamedRecipe(
        "mx",
        Recipe("float4_e2m1fn", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; torchao's FLOOR, gfloat",
        "MXFP4; te-nvfp4 has finer tiles and finer scales",
    ),
    "mx-int8": NamedRecipe(
        "mx",
        Recipe("mxint8", _MX, **_E8M0),
        _MX,
        _FLOOR,
        f"{_OCP}; microxcaling",
        "equal steps of 2^-6 of the scale: the best precision near amax, the least range; gfloat"
        " has a code for -2 of the scale, too: overflow=asymmetric",
    ),
    "mx-e4m3-rceil": NamedRecipe(
        "mx",
        Recipe("float8_e4m3fn", _MX, **_RCEIL, nonfinite="nan"),
        _MX,
        "s = 2^ceil(log2(amax*fl(1/max))); x*2^-e is rounded to nearest even",
        "torchao, prototype/mx_formats/mx_tensor.py, RCEIL",
        "mx-e4m3 with scales rounded up: nothing saturates, up to one bit less range",
    ),
    "mx-e4m3-ceil": NamedRecipe(
        "mx",
        Recipe("float8_e4m3fn", _MX, **_E8M0, scale_rounding="up"),
        _MX,
        "s = 2^(ceil(log2 amax) - emax); x*2^-e is rounded to nearest even",
        "torchao, prototype/mx_formats/mx_tensor.py, CEIL",
        "rounds amax/256 up where mx-e4m3-rceil rounds amax/448: a bit is often wasted",
    ),
    "mx-e4m3-even": NamedRecipe(
        "mx",
        Recipe("float8_e4m3fn", _MX, **_E8M0, scale_rounding="even"),
        _MX,
        "s = 2^(floor(log2 r) - emax), r = amax rounded to the element's mantissa bits",
        "torchao, prototype/mx_formats/mx_tensor.py, EVEN; microxcaling's rounding of amax",
        "mx-e4m3, but an amax just below a power of two counts as that power",
    ),
    "te-mxfp8": NamedRecipe(
        "mx",
        Recipe("float8_e4m3fn", _MX, **_RCEIL, nonfinite="largest_if_infinite"),
        _MX,
        "s = 2^ceil(log2(amax*fl(1/max))); x*2^-e is rounded to nearest even",
        "Transformer Engine, MXFP8 cast kernels and tests/cpp/operator/test_cast_mxfp8.cu",
        "mx-e4m3-rceil, but an infinity makes its tile's scale 2^127 and NaN is ignored",
    ),
    "te-mxfp4": NamedRecipe(
        "mx",
        Recipe(
            "float4_e2m1fn",
            _MX,
            "float8_e8m0fnu",
            scale_from="amax/max",
            scale_rounding="up",
            nonfinite="nan",
            negative_zero="positive_if_exact",
        ),
        _MX,
        "s = 2^ceil(log2(amax/6)); x*fl(1/s) is rounded to nearest even, -0 becomes +0",
        "Transformer Engine, pytorch/custom_recipes/reference_nvfp4.py",
        "mx-e2m1 with scales rounded up: nothing saturates",
    ),
    "te-nvfp4": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (1, 16),
            **_NVFP4,
            scale_from="amax*((1/outer)*(1/max))",
            zero="multiplier_0",
        ),
        (16, 16),
        "S = 448*6/amax of the tensor; b = e4m3(amax*(S*fl(1/6))); x*fl(1/(b*fl(1/S))) is rounded",
        _TE_NVFP4,
        "E4M3 scales below one float32 scale per tensor; mx-e2m1 has only powers of two",
        weight="te-nvfp4-2d",
    ),
    "te-nvfp4-2d": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (16, 16),
            **_NVFP4,
            scale_from="(amax/max)*(1/outer)",
            apply="multiply_levels",
            zero="multiplier_0",
        ),
        (16, 16),
        "S = 448*6/amax of the tensor; b = e4m3((amax/6)*S); x*fl(S/b) is rounded",
        _TE_NVFP4,
        "te-nvfp4 for weights: square tiles, both orientations alike, other roundings",
    ),
    "te-nvfp4-row": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (1, 16),
            "float8_e4m3fn",
            scale_from="amax*((1/outer)*(1/max))",
            nonfinite="propagate",
            outer="row",
            negative_zero="positive_if_exact",
        ),
        (1, 16),
        "S = 448*6/amax of the row; b = e4m3(amax*(S*fl(1/6))); x*fl(1/(b*fl(1/S))) is rounded",
        "Transformer Engine, pytorch/custom_recipes/reference_nvfp4.py, row-scaled",
        "te-nvfp4 with a float32 scale per row: a token of large values does not flush others",
    ),
    "te-nvfp4-4over6": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (1, 16),
            **_NVFP4,
            scale_from="(amax/max)*(1/outer)",
            four_over_six="absolute",
            negative_zero="positive_if_exact",
        ),
        (16, 16),
        "S = 448*6/amax of the tensor; b = e4m3((amax/6)*S) or e4m3(1.5*(amax/6)*S), whichever errs"
        " less; x*fl(1/(b*fl(1/S))) is rounded",
        "Transformer Engine, pytorch/custom_recipes/reference_nvfp4.py, four over six",
        "te-nvfp4 that maps amax to 4 instead of 6 where that is the better fit",
    ),
    "torchao-nvfp4": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (1, 16),
            **_NVFP4,
            scale_from="(amax/max)/outer",
            scale_floor=2.0**-6,
            apply="multiply_levels",
        ),
        (1, 16),
        "t = amax of the tensor/2688; b = e4m3(clip((amax/6)/t, 2^-6, 448)); x*((1/t)/b), rounded",
        "torchao, prototype/mx_formats/nvfp4_tensor.py, two levels",
        "te-nvfp4 with the outer scale formed first and no subnormal tile scales",
    ),
    "nvfp4-one-level": NamedRecipe(
        "nvfp4",
        Recipe(
            "float4_e2m1fn",
            (1, 16),
            "float8_e4m3fn",
            scale_floor=2.0**-6,
            nonfinite="propagate",
        ),
        (1, 16),
        "b = e4m3(clip(amax/6, 2^-6, 448)); x*fl(1/b) is rounded",
        "torchao, prototype/mx_formats/nvfp4_tensor.py, one level",
        "no outer scale: tiles below 6*2^-6 lose bits, gradients below 2^-8 vanish",
    ),
    "int8": NamedRecipe(
        "int8",
        Recipe("int8", (1, 128), "float32"),
        _BLOCK,
        "m = 127/amax, s = 1/m; x*m is rounded to nearest even and clipped; -128 is not used",
        "symmetric INT8, as in LLM.int8() (arXiv 2208.07339) with tiles",
        "equal steps: 8 bits of range, against 18.8 of E4M3",
    ),
}

#: What people write for the names above.
ALIASES: dict[str, str] = {
    "fp8": "ling",
    "blockwise": "ling",
    "per-tensor": "te-tensor",
    "mxfp8": "mx-e4m3",
    "mxfp8-e4m3": "mx-e4m3",
    "mxfp8-e5m2": "mx-e5m2",
    "mxfp6": "mx-e2m3",
    "mxfp6-e2m3": "mx-e2m3",
    "mxfp6-e3m2": "mx-e3m2",
    "mxfp4": "mx-e2m1",
    "nvfp4": "te-nvfp4",
}

#: The families, and all of them.
FAMILIES: tuple[str, ...] = (*dict.fromkeys(entry.family for entry in NAMED.values()), "all")


def family(name: str) -> list[Recipe]:
    """The recipes of a family of `FAMILIES`, in the table's order."""
    return [entry.recipe for entry in NAMED.values() if name in (entry.family, "all")]
