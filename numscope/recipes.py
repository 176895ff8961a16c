"""A recipe: all that changes a bit of a quantized tensor, as one value.

A recipe cannot be built wrong: every field is checked and brought to its canonical form when it is
made (`checks`), so nothing further on validates again. The arithmetic is elsewhere: scales are in
`scales`, rounding is in `kernels`. Named recipes are in `catalogue`, their text in `written`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from numscope import checks
from numscope.choices import (
    CHOICES,
    FROM_MULTIPLIER,
    FROM_OUTER_MULTIPLIER,
    SCALE_ALIASES,
    SCALES,
)
from numscope.errors import RecipeError
from numscope.formats import FORMATS, FloatFormat
from numscope.ranges import MOST_DIGITS

Tile = tuple[int | None, int | None]


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
    outer_limit
        The tile scale that the tile with the outer amax has: 448, or less.
    four_over_six
        Of a tile's scale and 1.5 times that, the one that leaves the smaller `absolute` or
        `squared` error; `none` does not ask.
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
    outer_limit: float = 448.0
    four_over_six: str = "none"
    apply: str = "multiply"
    product_precision: str = "float32"
    rounding: str = "nearest_even"
    seed: int = 0
    overflow: str = "saturate"
    negative_zero: str = "kept"
    dequantize: str = "multiply"

    def __post_init__(self) -> None:
        """Check every field and bring it to its canonical form."""
        self._set("element", checks.element(self.element))
        self._set("tile", checked_tile(self.tile))
        scale = checks.word("scale", self.scale).lower()
        self._set("scale", checks.known("scale", SCALE_ALIASES.get(scale, scale)))
        for name, value in SCALES[self.scale].items():
            self._set(name, getattr(self, name) or value)
        guard = "input_max" if self.scale_from == "max/amax" else "kept"
        self._set("infinite_multiplier", self.infinite_multiplier or guard)
        for name in CHOICES:
            checks.known(name, getattr(self, name))
        for name in ("scale_floor", "amax_floor", "outer_limit"):
            self._set(name, checks.floor(name, getattr(self, name)))
        self._set("seed", checks.seed(self.seed))
        checks.check_scale(self)
        checks.check_levels(self)
        checks.check_elements(self)
        for name, settled in checks.canonical(self).items():
            self._set(name, settled)

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
        return self.scale_from in FROM_MULTIPLIER

    @property
    def has_outer_multiplier(self) -> bool:
        """Whether the outer multiplier is formed first and the outer scale is its reciprocal."""
        return self.scale_from in FROM_OUTER_MULTIPLIER


def checked_tile(tile: Tile) -> Tile:
    """The tile as a pair of integers of 1 or more, or `None` for a whole axis.

    Raises
    ------
    RecipeError
        If it is not.
    """
    is_pair = isinstance(tile, tuple | list) and len(tile) == 2
    if not is_pair or not all(n is None or (checks.is_integer(n) and n >= 1) for n in tile):
        text = "x".join("*" if n is None else str(n) for n in tile) if is_pair else repr(tile)
        raise RecipeError(
            f"tile {text} is not possible: rows and columns are integers of 1 or more, or the whole"
            " axis (*)"
        )
    rows, cols = (None if n is None else int(n) for n in tile)
    if any(n is not None and n >= 10**MOST_DIGITS for n in (rows, cols)):
        raise RecipeError(f"a tile's rows and columns have at most {MOST_DIGITS} digits; * is all")
    return (rows, cols)
