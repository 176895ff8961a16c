"""A recipe: all that changes a bit of a quantized tensor, as one value.

A recipe cannot be built wrong: every field is checked and brought to its canonical form when it is
made, so nothing further on validates again. The arithmetic is elsewhere: the scale rules are in
`scales`, the rounding in `kernels`. Named recipes are in `catalogue`, their text in `written`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace

from numscope.errors import RecipeError
from numscope.formats import FORMATS, FloatFormat, format_named

Tile = tuple[int | None, int | None]

#: What a scale can be, and what the other fields are for it unless said otherwise.
SCALES: dict[str, dict[str, str]] = {
    "float32": {"scale_from": "max/amax", "scale_rounding": "none", "zero": "scale_1"},
    "power_of_two": {"scale_from": "max/amax", "scale_rounding": "up", "zero": "scale_1"},
    "float8_e8m0fnu": {"scale_from": "amax/2^emax", "scale_rounding": "down", "zero": "none"},
    "float8_e4m3fn": {"scale_from": "amax/max", "scale_rounding": "none", "zero": "none"},
}

SCALE_ALIASES = {
    "fp32": "float32",
    "f32": "float32",
    "pow2": "power_of_two",
    "power-of-two": "power_of_two",
    "e8m0": "float8_e8m0fnu",
    "ue8m0": "float8_e8m0fnu",
    "e8m0fnu": "float8_e8m0fnu",
    "e4m3": "float8_e4m3fn",
    "e4m3fn": "float8_e4m3fn",
}

_FROM_MULTIPLIER = ("max/amax", "max*(1/amax)")
_FROM_SCALE = ("amax/max", "amax*(1/max)")
_FROM_OUTER_MULTIPLIER = ("amax*((1/outer)*(1/max))", "(amax/max)*(1/outer)")
_FROM_OUTER = (*_FROM_OUTER_MULTIPLIER, "(amax/max)/outer")

#: A floor above this keeps every scale from being 0, whatever the element format.
_TINY = 1e-36

#: What the fields of words accept.
CHOICES: dict[str, tuple[str, ...]] = {
    "scale": tuple(SCALES),
    "scale_from": (*_FROM_MULTIPLIER, *_FROM_SCALE, "amax/2^emax", *_FROM_OUTER),
    "scale_rounding": ("none", "up", "down", "nearest", "even"),
    "scale_precision": ("float32", "input"),
    "amax_floor_precision": ("float32", "float64", "input"),
    "infinite_multiplier": ("input_max", "kept"),
    "zero": ("none", "scale_1", "amax_1", "amax_2^-126", "multiplier_0"),
    "nonfinite": (
        "ignore",
        "propagate",
        "nan",
        "one_if_infinite",
        "largest_if_infinite",
        "largest",
    ),
    "outer": ("none", "tensor", "row", "column"),
    "apply": ("multiply", "divide", "multiply_levels"),
    "product_precision": ("float32", "input"),
    "rounding": (
        *("nearest_even", "nearest_away", "nearest_toward_zero", "toward_zero"),
        "stochastic",
    ),
    "overflow": ("saturate", "ieee", "asymmetric"),
    "negative_zero": ("kept", "positive_if_exact", "positive"),
    "dequantize": ("multiply", "divide"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Recipe:
    """How a tensor is quantized: element format, tile shape, scale, and how they are computed.

    Attributes
    ----------
    element
        The elements' number format: a name of `formats.FORMATS` or an alias such as `e4m3`.
    tile
        (rows, columns) that share one scale, each 1 or more, or `None` for the whole axis.
        The last tile of an axis is shorter if the axis ends inside it.
    scale
        What a scale can be: `float32`, `power_of_two`, `float8_e8m0fnu` or `float8_e4m3fn`.
    scale_from
        The expression that a scale is made from, see `scales`; by default `max/amax`, for E8M0
        scales `amax/2^emax`, for E4M3 scales `amax/max`.
    scale_rounding
        To which power of two a scale is rounded: `up`, `down`, `nearest` in the logarithm, or
        `even`: down after amax was rounded to the element's precision. `none` for other scales.
    scale_precision
        `input` rounds amax/max to the input's dtype.
    scale_floor, amax_floor
        The least scale before it is rounded, and the least amax.
    amax_floor_precision
        What the amax floor itself is rounded to: `float32`, `float64` (not at all) or `input`.
    infinite_multiplier
        What a multiplier beyond float32 becomes: `input_max`, the largest finite value of the
        input's dtype, or `kept` (infinite).
    zero
        What a tile of zeros has: `scale_1`; `amax_1` or `amax_2^-126` in place of its amax;
        `multiplier_0` for E4M3 scales; or `none`, whatever the expression makes of it.
    nonfinite
        What NaN and infinities do to their tile. `ignore`: amax is over the finite values.
        `propagate`: amax is NaN or infinite. `nan`: the scale is NaN. `largest`: the scale is
        2^127. `one_if_infinite`, `largest_if_infinite`: infinities make the scale 1 or 2^127, NaN
        is ignored.
    outer
        What the outer scale of a recipe with two levels spans: `tensor`, `row`, `column`, `none`.
    apply
        Values are multiplied by the multiplier (or the rounded reciprocal of the scale), or divided
        by the scale. `multiply_levels`: by the outer multiplier over the tile's scale.
    product_precision
        `input` rounds the product or quotient to the input's dtype before it becomes an element.
    rounding
        `nearest_even`, `nearest_away`, `nearest_toward_zero` (these differ for ties only),
        `toward_zero`, or `stochastic`.
    seed
        Of the stochastic rounding, 0 or more.
    overflow
        Beyond the largest element: `saturate`, `ieee` (infinite or NaN), or, for integers,
        `asymmetric` (saturate, with the most negative code in use).
    negative_zero
        Codes of -0: `kept`, `positive_if_exact` (+0 where the product is 0) or `positive`.
    dequantize
        `multiply` by the scale, or `divide` by the multiplier.

    Two recipes are equal if and only if they give the same bits for every tensor. `str(recipe)` is
    a text that `written.parse` turns back into an equal recipe.

    Raises
    ------
    RecipeError
        For fields that name nothing or cannot go together.
    """

    element: str = "float8_e4m3fn"
    tile: Tile = (1, 128)
    scale: str = "float32"
    scale_from: str = ""
    scale_rounding: str = ""
    scale_precision: str = "float32"
    scale_floor: float = 0.0
    amax_floor: float = 0.0
    amax_floor_precision: str = "float32"
    infinite_multiplier: str = ""
    zero: str = ""
    nonfinite: str = "ignore"
    outer: str = "none"
    apply: str = "multiply"
    product_precision: str = "float32"
    rounding: str = "nearest_even"
    seed: int = 0
    overflow: str = "saturate"
    negative_zero: str = "kept"
    dequantize: str = "multiply"

    def __post_init__(self) -> None:
        """Check every field and bring it to its canonical form."""
        self._set("element", format_named(_word("element", self.element)).name)
        self._set("tile", checked_tile(self.tile))
        scale = _word("scale", self.scale).lower()
        self._set("scale", _known("scale", SCALE_ALIASES.get(scale, scale)))
        for name, value in SCALES[self.scale].items():
            self._set(name, getattr(self, name) or value)
        guard = "input_max" if self.scale_from == "max/amax" else "kept"
        self._set("infinite_multiplier", self.infinite_multiplier or guard)
        for name in CHOICES:
            _known(name, getattr(self, name))
        for name in ("scale_floor", "amax_floor"):
            self._set(name, _floor(name, getattr(self, name)))
        _seed(self.seed)
        _check_scale(self)
        _check_levels(self)
        _check_elements(self)
        for name, value in _canonical(self).items():
            self._set(name, value)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        from numscope.written import text  # noqa: PLC0415 (it knows the named recipes)

        return text(self)

    def __repr__(self) -> str:
        shown = {"element": self.element, "tile": self.tile, "scale": self.scale, **self.details}
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def details(self) -> dict[str, str | float]:
        """The fewest fields that make this recipe of its element, tile and scale."""
        needed = {field.name: getattr(self, field.name) for field in fields(self)[3:]}
        for name in list(needed):
            others = {each: value for each, value in needed.items() if each != name}
            try:
                is_implied = Recipe(self.element, self.tile, self.scale, **others) == self
            except RecipeError:
                continue
            if is_implied:
                del needed[name]
        return needed

    @property
    def element_format(self) -> FloatFormat:
        """The elements' number format."""
        return FORMATS[self.element]

    @property
    def tile_text(self) -> str:
        """The tile as text: `1x128`, `*` for a whole axis."""
        return "x".join("*" if extent is None else str(extent) for extent in self.tile)

    @property
    def outer_tile(self) -> Tile | None:
        """The values that share an outer scale, `None` if there is none."""
        return {"tensor": (None, None), "row": (1, None), "column": (None, 1)}.get(self.outer)

    @property
    def transpose(self) -> Recipe:
        """The recipe for the tensor's other orientation: the same with the tile turned."""
        outer = {"row": "column", "column": "row"}.get(self.outer, self.outer)
        return replace(self, tile=self.tile[::-1], outer=outer)

    @property
    def has_multiplier(self) -> bool:
        """Whether the multiplier is formed first and the scale is its reciprocal."""
        return self.scale_from in _FROM_MULTIPLIER

    @property
    def has_outer_multiplier(self) -> bool:
        """Whether the outer multiplier is formed first and the outer scale is its reciprocal."""
        return self.scale_from in _FROM_OUTER_MULTIPLIER


def checked_tile(tile: Tile) -> Tile:
    """The tile as a pair of integers of 1 or more, or `None` for a whole axis.

    Raises
    ------
    RecipeError
        If it is not.
    """
    is_pair = isinstance(tile, tuple | list) and len(tile) == 2
    if not is_pair or not all(n is None or (isinstance(n, int) and n >= 1) for n in tile):
        text = "x".join("*" if n is None else str(n) for n in tile) if is_pair else repr(tile)
        raise RecipeError(
            f"tile {text} is not possible: rows and columns are 1 or more, or the whole axis (*)"
        )
    rows, cols = tile
    return (rows, cols)


def _word(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise RecipeError(f"{name} is a name, not {value!r}")
    return value


def _known(name: str, value: object) -> str:
    word = _word(name, value)
    if word not in CHOICES[name]:
        near = difflib.get_close_matches(word, CHOICES[name], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise RecipeError(f"unknown {name} {word!r}; known are {', '.join(CHOICES[name])}{hint}")
    return word


def _floor(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecipeError(f"{name} is a number, not {value!r}")
    if not 0 <= value < 2.0**127:
        raise RecipeError(f"{name} {value} is not possible: it is 0 or more and within float32")
    return float(value)


def _seed(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise RecipeError(f"seed {value!r} is not possible: it is an integer from 0 to 2^64 - 1")


def _require(recipe: Recipe, name: str, reason: str, *, holds: bool) -> None:
    if not holds:
        raise RecipeError(f"{name}={getattr(recipe, name)} needs {reason}")


def _check_scale(recipe: Recipe) -> None:
    """A scale that is a power of two is rounded to one, any other is not."""
    source, rounding = recipe.scale_from, recipe.scale_rounding
    is_power = recipe.scale in ("power_of_two", "float8_e8m0fnu")
    if is_power:
        allowed: tuple[str, ...] = (*_FROM_MULTIPLIER, *_FROM_SCALE, "amax/2^emax")
    elif recipe.scale == "float32":
        allowed = (*_FROM_MULTIPLIER, *_FROM_SCALE)
    else:
        allowed = ("amax/max", *_FROM_OUTER)
    if source not in allowed:
        raise RecipeError(
            f"scale_from={source} does not give a scale in {recipe.scale};"
            f" that needs {' or '.join(allowed)}"
        )
    if is_power == (rounding == "none"):
        text = "up, down, nearest or even" if is_power else "none"
        raise RecipeError(f"scale={recipe.scale} needs scale_rounding={text}, not {rounding}")
    _check_details(recipe, is_power=is_power)


def _check_details(recipe: Recipe, *, is_power: bool) -> None:
    """What goes with some expressions or scale formats only."""
    source = recipe.scale_from
    if recipe.scale_rounding == "even":
        _require(recipe, "scale_rounding", "scale_from=amax/2^emax", holds=source == "amax/2^emax")
    if recipe.scale_floor:
        holds = not recipe.has_multiplier
        _require(recipe, "scale_floor", "a scale_from that forms the scale first", holds=holds)
    if recipe.infinite_multiplier == "input_max":
        _require(recipe, "infinite_multiplier", "scale_from=max/amax", holds=source == "max/amax")
    is_e4m3 = recipe.scale == "float8_e4m3fn"
    if recipe.scale_precision == "input":
        holds = source in ("max/amax", "amax/max") and not is_e4m3
        _require(recipe, "scale_precision", "scale_from=amax/max or max/amax", holds=holds)
    if recipe.nonfinite.startswith("largest"):
        _require(recipe, "nonfinite", "a scale that is a power of two", holds=is_power)
    elif is_e4m3:
        holds = recipe.nonfinite in ("ignore", "propagate")
        _require(recipe, "nonfinite", "a scale other than float8_e4m3fn", holds=holds)


def _check_levels(recipe: Recipe) -> None:
    """Two levels of scales belong to E4M3 scales whose expression has an outer one."""
    has_outer = recipe.outer != "none"
    if has_outer != (recipe.scale_from in _FROM_OUTER):
        needs = f"scale=float8_e4m3fn and scale_from={' or '.join(_FROM_OUTER)}"
        if has_outer:
            _require(recipe, "outer", needs, holds=False)
        _require(recipe, "scale_from", "outer=tensor, row or column", holds=False)
    if recipe.outer in ("row", "column"):
        extent = recipe.tile[recipe.outer == "column"]
        _require(recipe, "outer", f"a tile within one {recipe.outer}", holds=extent == 1)
    is_e4m3 = recipe.scale == "float8_e4m3fn"
    if recipe.zero == "multiplier_0":
        _require(recipe, "zero", "scale=float8_e4m3fn", holds=is_e4m3)
    elif recipe.zero != "none":
        _require(recipe, "zero", "a scale other than float8_e4m3fn", holds=not is_e4m3)
    if recipe.apply == "multiply_levels":
        _require(recipe, "apply", "two levels of scales (outer)", holds=has_outer)
    if recipe.apply == "divide":
        _require(recipe, "apply", "one level of scales", holds=not has_outer)
    if recipe.dequantize == "divide":
        sources = " or ".join(_FROM_MULTIPLIER)
        _require(recipe, "dequantize", f"scale_from={sources}", holds=recipe.has_multiplier)


def _check_elements(recipe: Recipe) -> None:
    element = recipe.element_format
    if element.is_scale_only:
        raise RecipeError(f"{element.name} holds scales, not elements")
    if recipe.seed:
        _require(recipe, "seed", "rounding=stochastic", holds=recipe.rounding == "stochastic")
    if recipe.overflow == "ieee":
        _require(recipe, "overflow", "an element format with NaN", holds=element.has_nan)
        is_even = recipe.rounding == "nearest_even"
        _require(recipe, "overflow", "rounding=nearest_even", holds=is_even)
    if recipe.overflow == "asymmetric":
        is_integer = element.specials == "integer"
        _require(recipe, "overflow", "an integer element format", holds=is_integer)


def _canonical(recipe: Recipe) -> dict[str, str]:
    """The fields that cannot matter, as they are by default."""
    changes: dict[str, str] = {}
    if recipe.scale == "float8_e8m0fnu":
        changes["apply"] = "multiply"  # 2^-e is exact: the quotient is the product
        if recipe.nonfinite == "propagate":
            changes["nonfinite"] = "nan"  # what E8M0 makes of both
        if recipe.zero == "amax_2^-126" and recipe.element_format.max_exponent > 0:
            changes["zero"] = "none"  # both are below the least scale
    if recipe.scale in ("power_of_two", "float8_e8m0fnu"):
        changes["dequantize"] = "multiply"
        if recipe.has_multiplier:
            changes["apply"] = "multiply"
    if not recipe.amax_floor:
        changes["amax_floor_precision"] = "float32"
    is_exact = recipe.amax_floor_precision != "input"
    if max(recipe.amax_floor * is_exact, recipe.scale_floor) > _TINY and "_1" in recipe.zero:
        changes["zero"] = "none"  # neither amax nor scale is ever 0
    if recipe.amax_floor * is_exact > _TINY:
        # No multiplier is infinite.
        changes["infinite_multiplier"] = "input_max" if recipe.scale_from == "max/amax" else "kept"
    if not recipe.element_format.has_negative_zero:
        changes["negative_zero"] = "kept"
    return changes
