"""The results folder: whose it is, and the files in it. They appear by rename, whole or not at all.

Nothing here computes or draws; it is told what to keep.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numscope import tables
from numscope.errors import ResultsError
from numscope.tables import LayerRow, Row

RUN, TENSORS, LAYERS, FINDINGS = "run.json", "tensors.csv", "layers.csv", "findings.md"
FINDINGS_TABLE = "findings.csv"
CHARTS, PARTS = "charts", "parts"

_CHART_SUFFIXES = (".csv", ".png", ".svg", ".pdf")


@dataclass(frozen=True, slots=True)
class Results:
    """A results folder of this run, or of an earlier one that is read."""

    folder: Path

    def keep_part(self, path: str, rows: Sequence[Row]) -> None:
        """Keep the rows of one dump file."""
        tables.write_csv(self.folder / PARTS / part_name(path), rows, Row)

    def keep_tables(self, rows: Sequence[Row], layers: Sequence[LayerRow]) -> None:
        """Write tensors.csv and layers.csv."""
        tables.write_csv(self.folder / TENSORS, rows, Row)
        tables.write_csv(self.folder / LAYERS, layers, LayerRow)

    def keep_run(self, facts: Mapping[str, Any]) -> None:
        """Write run.json."""
        tables.write_text(self.folder / RUN, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    def keep_findings(self, text: str, table: str) -> None:
        """Write findings.md and findings.csv."""
        tables.write_text(self.folder / FINDINGS, text)
        tables.write_text(self.folder / FINDINGS_TABLE, table)

    def keep_charts(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write the charts' files, named relative to the charts folder."""
        written = [self.folder / CHARTS / name for name in files]
        for path, content in zip(written, files.values(), strict=True):
            tables.write_bytes(path, content)
        return written

    def forget_charts(self, but: Collection[Path]) -> None:
        """Remove the charts of an earlier run, that is all but these files."""
        _remove(
            path
            for path in (self.folder / CHARTS).rglob("*")
            if path.suffix in _CHART_SUFFIXES and path not in but
        )

    def forget_parts(self, but: Iterable[str]) -> None:
        """Remove the parts of dump files other than `but`."""
        names = {part_name(path) for path in but}
        _remove(path for path in (self.folder / PARTS).glob("*.csv") if path.name not in names)

    @property
    def tables(self) -> list[Path]:
        """The files that a reader starts with."""
        return [self.folder / name for name in (TENSORS, LAYERS, FINDINGS, FINDINGS_TABLE, RUN)]

    def tensor_rows(self) -> list[Row]:
        """The rows of tensors.csv."""
        return tables.read_csv(self._existing(TENSORS), Row)

    def layer_rows(self) -> list[LayerRow]:
        """The rows of layers.csv."""
        return tables.read_csv(self._existing(LAYERS), LayerRow)

    def run_facts(self) -> dict[str, Any]:
        """What run.json says; nothing if there is none."""
        try:
            found = json.loads((self.folder / RUN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ResultsError(f"{self.folder / RUN} cannot be read: {error}") from error
        return found if isinstance(found, dict) else {}

    def _existing(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise ResultsError(
                f"{self.folder} holds no {name};"
                f" make it with `numscope analyze DUMP_DIR --out {self.folder}`"
            )
        return path


def claim(folder: Path, dump: str, *, fresh: bool = False) -> Results:
    """The folder for the results of analysing `dump`, made if need be, and certain to be writable.

    Parameters
    ----------
    fresh
        Whether the results of another dump in that folder may be replaced.

    Raises
    ------
    ResultsError
        If it cannot be written, or holds the results of another dump.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ResultsError(
            f"cannot write results to {folder}: {error.strerror}; choose another folder with --out"
        ) from error
    if not fresh:
        _refuse_others(folder, dump)
    return Results(folder)


def part_name(path: str) -> str:
    """The name of the part with the rows of a dump file: of bounded length, whatever its path."""
    return (
        hashlib.blake2b(path.encode(errors="surrogateescape"), digest_size=12).hexdigest() + ".csv"
    )


def _refuse_others(folder: Path, dump: str) -> None:
    advice = "choose another folder with --out, or replace them with --fresh"
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8"))["dump"]
    except FileNotFoundError:
        if any((folder / name).exists() for name in (TENSORS, LAYERS, FINDINGS, CHARTS, PARTS)):
            raise ResultsError(f"{folder} holds results without a {RUN}; {advice}") from None
        return
    except OSError as error:
        raise ResultsError(f"{folder / RUN} cannot be read: {error.strerror}; {advice}") from error
    except (ValueError, TypeError, LookupError) as error:
        raise ResultsError(f"{folder / RUN} was not written by numscope; {advice}") from error
    if found != dump:
        raise ResultsError(f"{folder} holds the results of {found}, not of {dump}; {advice}")


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        try:
            path.unlink()
        except OSError as error:
            raise ResultsError(f"cannot remove {path}: {error.strerror}") from error
