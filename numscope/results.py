"""The results folder: whose it is, and the files in it. They appear by rename, whole or not at all.

Nothing here computes or draws; it is told what to keep.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard, TypeVar

from numscope import json_text, parts, runs, series, tables, writing
from numscope.authorship import is_own
from numscope.errors import RecipeError, ResultsError, UsageError
from numscope.tables import LayerRow, Row
from numscope.written import parse_tile

RUN, TENSORS, LAYERS, FINDINGS = "run.json", "tensors.csv", "layers.csv", "findings.md"
FINDINGS_TABLE, RECIPES = "findings.csv", "recipes.csv"
REPORT, ADVICE = "report.html", "advise.csv"
CHARTS, PARTS, PLANS = "charts", "parts", "plans"

#: What a folder of results holds, in whatever state it is.
_MARKS = (TENSORS, LAYERS, RECIPES, FINDINGS, FINDINGS_TABLE, CHARTS, PARTS, PLANS)
_CHART_SUFFIXES = (".csv", ".png", ".svg", ".pdf")

_R = TypeVar("_R", Row, LayerRow)


@dataclass(frozen=True, slots=True)
class Results:
    """A results folder of this run, or of an earlier one that is read.

    It is there: nothing that is kept makes it anew if it is taken away.
    """

    folder: Path

    @property
    def parts(self) -> Path:
        """The folder of the dump files' rows."""
        return self.folder / PARTS

    @property
    def plans(self) -> Path:
        """The folder of what was to be done by whom."""
        return self.folder / PLANS

    def keep_tensors(self, rows: Iterable[Row]) -> None:
        """Write tensors.csv.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        tables.write_csv(self.folder / TENSORS, rows, Row)

    def keep_layers(self, rows: Collection[LayerRow]) -> list[Path]:
        """Write layers.csv; what was removed because it was made of another one.

        That are numscope's own page and advice, and they go first, so that none outlives its table.

        Raises
        ------
        ResultsError
            If it cannot be written, or one of these cannot be removed.
        """
        path = self.folder / LAYERS
        outdated: list[Path] = []
        if not _holds(path, tables.to_csv(rows, LayerRow)):
            made = (self.folder / name for name in (REPORT, ADVICE))
            outdated = [each for each in made if each.is_file() and is_own(each)]
            _remove(outdated)
        tables.write_csv(path, rows, LayerRow)
        return outdated

    def keep_run(self, facts: Mapping[str, Any]) -> None:
        """Write run.json.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        text = json_text.text(facts, indent=2, is_ascii=False) + "\n"
        # Without it the parts would be nobody's.
        writing.write_text(self.folder / RUN, text, durable=True, inside=self.folder)

    def keep_findings(self, text: str, table: str) -> None:
        """Write findings.md and findings.csv.

        Raises
        ------
        ResultsError
            If one cannot be written.
        """
        writing.write_text(self.folder / FINDINGS, text, inside=self.folder)
        writing.write_text(self.folder / FINDINGS_TABLE, table, inside=self.folder)

    def keep_recipes(self, table: str) -> None:
        """Write recipes.csv.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        writing.write_text(self.folder / RECIPES, table, inside=self.folder)

    def keep_charts(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write the charts' files, named relative to the charts folder.

        Raises
        ------
        ResultsError
            If one cannot be written.
        """
        written = [self.folder / CHARTS / name for name in files]
        for path, content in zip(written, files.values(), strict=True):
            writing.write_bytes(path, content, inside=self.folder)
        return written

    def foreign_charts(self, names: Iterable[str]) -> list[str]:
        """Those of these names in the charts folder that somebody else's files have."""
        listed = self.listed_charts()
        paths = {name: self.folder / CHARTS / name for name in names if name not in listed}
        return [name for name, path in paths.items() if path.exists() and not is_own(path)]

    def listed_charts(self) -> list[str]:
        """The names of the files in the charts folder that run.json lists as this run's own."""
        try:
            listed = self.run_facts().get("charts")
        except ResultsError:
            return []
        return [each for each in listed if _is_chart(each)] if isinstance(listed, list) else []

    def forget_charts(self, names: Iterable[str]) -> None:
        """Remove these files of the charts folder, and the folders in it that this empties.

        Raises
        ------
        ResultsError
            If one cannot be removed.
        """
        paths = [self.folder / CHARTS / name for name in names]
        _remove(paths)
        for folder in {path.parent for path in paths} - {self.folder / CHARTS}:
            with suppress(OSError):  # it is not empty
                folder.rmdir()

    def other_parts(self, but: Collection[str]) -> list[Path]:
        """The parts of dump files other than `but`."""
        names = {parts.part_name(path) for path in but}
        return [path for path in parts.kept(self.parts) if path.name not in names]

    def forget_parts(self, those: Iterable[Path]) -> None:
        """Remove these parts.

        Raises
        ------
        ResultsError
            If one cannot be removed.
        """
        _remove(those)

    def forget_leftovers(self) -> None:
        """Remove the partial files that killed processes have left in all folders of the run."""
        charts = self.folder / CHARTS
        of_recipes = (path for path in charts.glob("*") if path.is_dir())
        for folder in (self.folder, self.parts, self.plans, charts, *of_recipes):
            writing.remove_leftovers(folder)

    def forget(self, paths: Collection[str] | None = None) -> None:
        """Remove the tables of an earlier run, and the parts of these dump files, all if `None`.

        What says whose folder it is stays, until another run takes its place.

        Raises
        ------
        ResultsError
            If one cannot be removed.
        """
        _remove(path for path in self.tables if path.name != RUN)
        _remove(
            parts.kept(self.parts)
            if paths is None
            else [self.parts / parts.part_name(path) for path in paths]
        )

    @property
    def has_run(self) -> bool:
        """Whether there is a run.json, of a finished run or not."""
        return (self.folder / RUN).exists()

    @property
    def is_unfinished(self) -> bool:
        """Whether run.json says of a run that it has begun and not that it has ended."""
        try:
            return self.run_facts().get("finished") is False
        except ResultsError:
            return False

    @property
    def tables(self) -> list[Path]:
        """The files that a reader starts with."""
        names = (TENSORS, LAYERS, RECIPES, FINDINGS, FINDINGS_TABLE, RUN)
        return [self.folder / name for name in names]

    def beside_tables(self, chosen: Path | None, name: str) -> Path:
        """Where to write what a command makes of the tables.

        Parameters
        ----------
        chosen
            What somebody has chosen; whatever is there may be replaced, but not the tables.
        name
            What it is called in this folder else; only numscope's own file may be replaced.

        Raises
        ------
        UsageError
            If it is one of the tables, by whatever name, or somebody else's file.
        """
        path = chosen or self.folder / name
        if chosen is None and path.exists() and not is_own(path):
            raise UsageError(f"{path} was not written by numscope; choose another name with --out")
        if any(path.exists() and own.exists() and path.samefile(own) for own in self.tables):
            raise UsageError(f"{path} is a file of the results themselves; choose another name")
        return path

    def tensor_rows(self) -> list[Row]:
        """The rows of tensors.csv.

        Raises
        ------
        ResultsError
            If it is not there, has no rows, or cannot be read.
        """
        return self._rows(TENSORS, Row)

    def layer_rows(self) -> list[LayerRow]:
        """The rows of layers.csv.

        Raises
        ------
        ResultsError
            If it is not there, has no rows, or cannot be read.
        """
        return self._rows(LAYERS, LayerRow)

    def run_facts(self) -> dict[str, Any]:
        """What run.json says; nothing if there is none.

        Raises
        ------
        ResultsError
            If it cannot be read, or is not JSON.
        """
        try:
            found = _read_json(self.folder / RUN)
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = error.strerror or error
            raise ResultsError(f"{self.folder / RUN} cannot be read: {why}") from error
        except ValueError as error:
            raise ResultsError(f"{self.folder / RUN} cannot be read: {error}") from error
        return found if isinstance(found, dict) else {}

    def own_tiles(self, rows: Collection[LayerRow]) -> dict[str, str]:
        """The recipes' own tiles by name: as run.json has them, or as the rows of layers.csv say.

        Some of the rows may not say it: those of gradients have the tile turned, too.
        """
        try:
            recorded = recorded_tiles(self.run_facts())
        except ResultsError:
            recorded = {}
        return series.own_tiles(rows, recorded)

    def _rows(self, name: str, kind: type[_R]) -> list[_R]:
        """A table's rows, of which there is at least one: none is ever written without."""
        path = self.folder / name
        advice = f"make it with `numscope analyze DUMP_DIR --out {self.folder}`"
        if not path.is_file():
            raise ResultsError(f"{self.folder} holds no {name}; {advice}")
        rows = tables.read_csv(path, kind)
        if not rows:
            raise ResultsError(f"{path} has no rows; {advice}")
        return rows


def recorded_tiles(facts: Mapping[str, Any]) -> dict[str, str]:
    """The tiles of the recipes by name, as far as the facts of run.json have them."""
    recipes = facts.get("recipes")
    entries = recipes.items() if isinstance(recipes, Mapping) else ()
    found = {name: entry.get("tile") for name, entry in entries if isinstance(entry, Mapping)}
    return {name: tile for name, tile in found.items() if _is_tile(tile)}


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
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = _broken_link(folder) or error.strerror
        raise ResultsError(
            f"cannot write results to {folder}: {why}; choose another folder with --out"
        ) from error
    if not fresh:
        _refuse_others(folder, dump)
    return Results(folder)


def opened(folder: Path) -> Results:
    """A folder of results that are read.

    Raises
    ------
    ResultsError
        If the folder is a link to nowhere.
    """
    if why := _broken_link(folder):
        raise ResultsError(f"cannot read results from {folder}: {why}")
    return Results(folder)


def _broken_link(folder: Path) -> str | None:
    """What is wrong with a folder that leads nowhere by a link, its own or one above it."""
    for path in (folder, *folder.parents):
        if path.is_symlink() and not path.exists():
            return f"{path} is a link to {path.readlink()}, and nothing is there"
    return None


def _refuse_others(folder: Path, dump: str) -> None:
    advice = "choose another folder with --out, or replace them with --fresh"
    try:
        found = _read_json(folder / RUN)["dump"]
    except FileNotFoundError:
        if not any((folder / name).exists() for name in _MARKS):
            return
        found = _planned(folder)
        if found is None:
            raise ResultsError(f"{folder} holds results without a {RUN}; {advice}") from None
    except OSError as error:
        raise ResultsError(f"{folder / RUN} cannot be read: {error.strerror}; {advice}") from error
    except (ValueError, TypeError, LookupError) as error:
        is_torn = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        found = _planned(folder) if is_torn else None
        if found is None:
            raise ResultsError(f"{folder / RUN} was not written by numscope; {advice}") from error
    if found != dump:
        raise ResultsError(f"{folder} holds the results of {found}, not of {dump}; {advice}")


def _planned(folder: Path) -> str | None:
    """The dump that the last run begun in a folder is about, if its plan is there and whole.

    A plan is as good as run.json, of which the loss of a machine may leave nothing, or a half.
    """
    begun = runs.begun(folder / PLANS)
    return begun[-1].plan.dump if begun else None


def _read_json(path: Path) -> Any:
    """What a JSON file says; a `ValueError` for what JSON has no words for, such as NaN."""
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


def _is_tile(text: object) -> TypeGuard[str]:
    if not isinstance(text, str):
        return False
    try:
        parse_tile(text)
    except RecipeError:
        return False
    return True


def _is_chart(name: object) -> bool:
    """Whether that can be a chart's name, relative to their folder and in it."""
    if not isinstance(name, str):
        return False
    path = PurePosixPath(name)
    return path.suffix in _CHART_SUFFIXES and not path.is_absolute() and ".." not in path.parts


def _holds(path: Path, text: str) -> bool:
    """Whether a file has this content."""
    try:
        return path.read_bytes() == text.encode(errors="backslashreplace")
    except OSError:
        return False


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot remove {path}: {error.strerror}") from error
