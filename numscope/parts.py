"""Parts: the rows of one dump file in a file of their own, kept as soon as they are measured.

A part says what it was made from and how. One that is damaged, or was made from something else,
is no part: its dump file is measured anew. Nothing here measures or decides what is measured.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from numscope import json_text, tables, writing
from numscope.dumps import Problem
from numscope.errors import ResultsError
from numscope.plans import FileWork, Planned
from numscope.tables import Row
from numscope.version import __version__

_NAME = re.compile(r"[0-9a-f]{24}\.csv")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a part is made from: a dump file as it was, what was measured in it, and by what.

    Attributes
    ----------
    path
        Relative to the dump folder.
    size, mtime_ns
        The file's.
    work
        A fingerprint of its tensors as they were understood and the recipes on each.
    bytes
        How much work it is: the size of its tensors.
    numscope
        The version.
    """

    path: str
    size: int
    mtime_ns: int
    work: str
    bytes: int
    numscope: str = __version__


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one dump file, and what could not be read of it."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...] = ()


def origins(work: Iterable[FileWork]) -> tuple[Origin, ...]:
    """What the parts of this work are made from."""
    written: dict[tuple[Planned, ...], str] = {}  # most tensors share theirs

    def fingerprint(file: FileWork) -> str:
        lines = [repr(file.npy_dtype)]
        for ref, recipes in file.tensors:
            if recipes not in written:
                written[recipes] = repr(recipes)
            # Where the dump folder is mounted changes no row.
            lines += [repr(replace(ref, root="")), written[recipes]]
        return digest("\n".join(lines).encode(errors="backslashreplace"))

    return tuple(
        Origin(file.path, *(file.stamp or (0, 0)), fingerprint(file), file.bytes) for file in work
    )


def write_part(folder: Path, made_from: Origin, part: Part) -> None:
    """Keep a part; it takes the place of an earlier one of the same dump file.

    The folder is made if need be, in one that is there.

    Raises
    ------
    ResultsError
        If it cannot be written.
    """
    facts = asdict(made_from) | {"problems": [asdict(each) for each in part.problems]}
    content = f"{json_text.text(facts)}\n{tables.to_csv(part.rows, Row)}".encode(
        errors="backslashreplace"
    )
    marked = f"# {digest(content)} ".encode() + content
    writing.write_bytes(folder / part_name(made_from.path), marked, inside=folder.parent)


def read_part(folder: Path, wanted: Origin) -> Part | None:
    """The part made from exactly that, `None` if there is none or it is damaged.

    Raises
    ------
    ResultsError
        If it must not be read, or the disk fails.
    """
    try:
        found = _read(folder, wanted)
    except OSError as error:
        path = folder / part_name(wanted.path)
        raise ResultsError(f"{path} cannot be read: {error.strerror or error}") from error
    if found is None:
        return None
    problems, text = found
    rows = tables.from_csv(io.StringIO(text, newline=""), Row, part_name(wanted.path))
    return Part(tuple(rows), problems)


def is_finished(folder: Path, wanted: Origin) -> bool:
    """Whether there is a part made from exactly that, with nothing to try again."""
    try:
        found = _read(folder, wanted)
    except OSError:
        return False
    return found is not None and not found[0]


def part_name(path: str) -> str:
    """The name of the part of a dump file: of bounded length, whatever its path."""
    return digest(path.encode(errors="surrogateescape")) + ".csv"


def kept(folder: Path) -> list[Path]:
    """All parts in a folder, and nothing else that may be in it."""
    return [path for path in folder.glob("*.csv") if _NAME.fullmatch(path.name)]


def dump_file(part: Path) -> str | None:
    """The path of the dump file that a part is of, `None` if the part does not say."""
    try:
        with part.open("rb") as file:
            _, _, head = file.readline().split(b" ", 2)
        return str(json.loads(head)["path"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read(folder: Path, wanted: Origin) -> tuple[tuple[Problem, ...], str] | None:
    """The problems of a part and the text of its rows."""
    try:
        mark, stated, content = (folder / part_name(wanted.path)).read_bytes().split(b" ", 2)
        if mark != b"#" or stated.decode() != digest(content):
            return None
        head, _, text = content.decode().partition("\n")
        facts = json.loads(head)
        problems = tuple(Problem(**each) for each in facts.pop("problems"))
        return (problems, text) if Origin(**facts) == wanted else None
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError):
        return None


def digest(content: bytes) -> str:
    """What tells contents apart, in 24 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()
