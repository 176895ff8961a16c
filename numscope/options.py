"""The command line's own words: lists of numbers, tiles, recipes, and options that commands share.

They turn text into values and complain in one line. Nothing here does what a command does.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numscope import ranges
from numscope.errors import RecipeError, UsageError
from numscope.ranges import Ranges
from numscope.recipes import Recipe, Tile
from numscope.written import parse, parse_tile

if TYPE_CHECKING:
    ParamType = click.ParamType
else:

    class ParamType(click.ParamType):
        """With a parameter for what is converted to, which click has since 8.4."""

        __class_getitem__ = classmethod(lambda cls, _: cls)


F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose options can be set by the environment: `NUMSCOPE_<COMMAND>_<OPTION>`."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        for param in self.params:
            if isinstance(param, click.Option):
                word = max(param.opts, key=len).removeprefix("--").replace("-", "_")
                param.envvar = f"NUMSCOPE_{self.name}_{word}".upper()


class Commands(click.Group):
    """A group of them."""

    command_class = Command


#: The kinds of DESIGN's vocabulary; spelled out so that `--help` imports nothing.
KINDS = ("activation", "gradient", "weight", "output", "input_gradient", "weight_gradient")

#: The parameter that holds the recipes of files, by name.
_OWN = "own"


class Numbers(ParamType[Ranges]):
    """A list of numbers and ranges: `0,4,8,12,16`, `0-16`, `0-3,16`."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Ranges:
        """The numbers."""
        if isinstance(value, Ranges):
            return value
        try:
            return ranges.parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


class TileType(ParamType[Tile]):
    """A tile shape, rows x columns."""

    name = "tile"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tile:
        """(rows, columns), `None` for a whole axis."""
        try:
            return parse_tile(str(value))
        except RecipeError as error:
            self.fail(str(error), param, ctx)


class RecipeType(ParamType[tuple[str, Recipe]]):
    """A recipe by name or written form, or by its name in a `--recipe-file`."""

    name = "recipe"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Recipe]:
        """What the recipe is called in the tables, and the recipe."""
        own: Mapping[str, Recipe] = ctx.params.get(_OWN, {}) if ctx else {}
        text = ":".join(part.strip() for part in str(value).split(":"))
        try:
            recipe = parse(text, own)
        except RecipeError as error:
            self.fail(f"{error}; `numscope recipes` lists them", param, ctx)
        return text if text.partition(":")[0] in own else str(recipe), recipe


class Kinds(ParamType[tuple[str, ...]]):
    """A list of kinds: `activation,gradient`."""

    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The kinds, each once."""
        words = value.split(",") if isinstance(value, str) else value
        kinds = tuple(dict.fromkeys(word.strip() for word in words))
        for kind in kinds:
            if kind not in KINDS:
                self.fail(f"{kind!r} is no kind; known are {', '.join(KINDS)}", param, ctx)
        return kinds


class TokensMap(ParamType[dict[int, int]]):
    """A CSV file with the columns step and tokens."""

    name = "file.csv"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[int, int]:
        """Tokens by step."""
        try:
            with Path(value).open(encoding="utf-8-sig", newline="") as file:
                lines = csv.DictReader(file)
                records = [(int(line["step"]), int(line["tokens"])) for line in lines]
            return _by_step(records)
        except UsageError as error:
            self.fail(f"{value} {error}", param, ctx)
        except KeyError as error:
            self.fail(f"{value} has no column {error}; it needs step and tokens", param, ctx)
        except OSError as error:
            self.fail(f"{value} cannot be read: {error.strerror or error}", param, ctx)
        except (ValueError, TypeError, csv.Error) as error:
            self.fail(f"{value} cannot be read as step,tokens: {error}", param, ctx)


def _by_step(records: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The tokens of each step, of which there is one number at least.

    Raises
    ------
    UsageError
        If there is none, or a step cannot have its tokens.
    """
    tokens: dict[int, int] = {}
    for step, count in records:
        if count < 0:
            raise UsageError(f"says that step {step} is at {count} tokens; they are 0 or more")
        if tokens.setdefault(step, count) != count:
            raise UsageError(f"says that step {step} is at {tokens[step]} tokens, and at {count}")
    if not tokens:
        raise UsageError("holds no step; it needs the columns step and tokens, and a line per step")
    return tokens


class LayerOffset(ParamType[int | dict[str, int]]):
    """A number for every layer, or one for each of some layouts: `-1`, `megatron=-1,atorch=2`."""

    name = "offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | dict[str, int]:
        """The offset, or offsets by layout."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            if "=" not in value:
                return int(value)
            pairs = (part.split("=", 1) for part in value.split(","))
            return {layout.strip(): int(number) for layout, number in pairs}
        except ValueError:
            self.fail(f"{value!r} is neither a number nor like megatron=-1", param, ctx)


class LocalPath(ParamType[Path]):
    """A file or folder of this machine; in the environment, several as in PATH."""

    name = "path"
    envvar_list_splitter = os.pathsep

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path; an empty one, which the working folder would be, is none."""
        if value == "":
            self.fail("it is empty, give the name of a file or folder", param, ctx)
        if "//" in str(value) and _is_address(value):
            self.fail(
                f"{value!r} is an address: only dumps are read from there, give a path", param, ctx
            )
        return Path(value)


class DumpPlace(ParamType[str]):
    """Where a dump is: a path or an address."""

    name = "dump"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The place; an empty one, which the working folder would be, is none."""
        if value == "":
            self.fail("it is empty, give a folder, a file or an address", param, ctx)
        return str(value)


def _is_address(text: str) -> bool:
    from numscope.dumps.folders import is_address  # noqa: PLC0415 (`--help` reads no dumps)

    return is_address(text)


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """The command with these options, which its help lists in this order."""
    return reduce(lambda made, option: option(made), reversed(options), command)


def results_argument(command: F) -> F:
    """The folder that `analyze` has written."""
    return click.argument("results", type=LocalPath(), default="numscope-out")(command)


def choosing(command: F) -> F:
    """`--layers`, `--kinds` and `--module`: which rows of the results a command is about."""
    return with_options(
        command,
        click.option("--layers", type=Numbers(), help="Only these layers, such as 0,4,8,12,16."),
        click.option("--kinds", type=Kinds(), help="Only these kinds of tensors, all by default."),
        click.option(
            "--module",
            metavar="TEXT",
            help="Only modules whose name contains or matches this.",
        ),
    )


def recipe_files(command: F) -> F:
    """`--recipe-file`; `RecipeType` knows the recipes of these files, so it is read before."""

    def read(
        _: click.Context, param: click.Parameter, paths: Sequence[Path]
    ) -> Mapping[str, Recipe]:
        if not paths:
            return {}
        from numscope.recipe_files import read_all  # noqa: PLC0415 (few read TOML)

        try:
            return read_all(paths)
        except RecipeError as error:
            raise click.BadParameter(str(error), param=param) from None

    return click.option(
        "--recipe-file",
        _OWN,
        type=LocalPath(),
        multiple=True,
        is_eager=True,
        callback=read,
        metavar="FILE.toml",
        help="Recipes of your own by name, all of them unless some are asked for; can be repeated.",
    )(command)


def verbosity(
    *,
    quiet: str = "Say nothing but errors.",
    verbose: str = "Changes nothing: there is no more to say.",
) -> Callable[[F], F]:
    """`--quiet` and `--verbose`, which all commands take, and what they do to this one."""
    return lambda command: with_options(
        command,
        click.option("-q", "--quiet", is_flag=True, help=quiet),
        click.option("-v", "--verbose", is_flag=True, help=verbose),
    )


def reading(command: F) -> F:
    """The options that say how a dump is to be understood."""
    return with_options(
        command,
        click.option(
            "--tokens-per-step",
            type=click.IntRange(min=1),
            metavar="N",
            help="Tokens trained on per step: batch size x sequence length.",
        ),
        click.option(
            "--tokens-map",
            type=TokensMap(),
            metavar="FILE.csv",
            help="Tokens of each step, as CSV with the columns step and tokens.",
        ),
        click.option(
            "--step-offset",
            type=int,
            default=0,
            metavar="N",
            help="Added to the dump's steps before they are turned into tokens.",
        ),
        click.option(
            "--layers-per-stage",
            type=click.IntRange(min=1),
            metavar="N",
            help="Layers per pipeline stage, where a dump counts them within a stage.",
        ),
        click.option(
            "--layer-offset",
            type=LayerOffset(),
            default="0",
            metavar="[LAYOUT=]N",
            help="Added to every layer, or to those of one layout: -1 where they count from 1.",
        ),
        click.option(
            "--pattern",
            metavar="TEXT",
            help="How your own hooks build names, such as {step}/L{layer}_{kind}.npy.",
        ),
        click.option(
            "--npy-dtype",
            metavar="DTYPE",
            help="What NumPy arrays of raw bytes or 16-bit integers hold, such as bfloat16.",
        ),
    )
