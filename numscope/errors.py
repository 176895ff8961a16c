"""The exceptions of numscope.

Every message says what was given and what is allowed or what to do, in one line, so that a command
can print it as it is. This module must not import anything of numscope.
"""


class NumscopeError(Exception):
    """Base of everything numscope raises on purpose; `str()` is one line for a person to read."""


class UsageError(NumscopeError, ValueError):
    """An option or argument that cannot be meant: a layer list `a-b`, an unknown name."""


class RecipeError(UsageError):
    """A recipe that cannot exist: an unknown format, a tile of no rows, contradictory fields."""


class UnsupportedRecipe(NumscopeError):
    """A recipe of another tool that numscope knows of but does not reproduce."""


class DumpError(NumscopeError):
    """A dump file or a tensor in it that cannot be read: damaged, refused or unsupported.

    `opened` is the stamp that the file had when it was opened, if it was.
    """

    opened: tuple[int, int] | None = None


class CutShort(DumpError):
    """A dump file that ends before all that it announces: damaged, or not written to its end."""


class NotOpened(DumpError):
    """A path where there is no file to be read, whatever it would have been."""


class ResultsError(NumscopeError):
    """A results folder that cannot be written, read, or that belongs to another run."""


class ArrayError(NumscopeError, TypeError):
    """An array in memory that cannot be quantized, such as one of integers."""


class MissingExtra(NumscopeError):
    """An optional library that is not installed; the message names the extra that brings it."""


class NothingToDo(NumscopeError):
    """There is nothing to analyse or to draw."""


class EngineError(NumscopeError):
    """What was to do the work cannot: no Dask scheduler, or workers that lack numscope."""
