"""The results folder: the files in it. They appear by rename, whole or not at all.

Nothing here computes or draws; it is told what to keep.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard, TypeVar

from numscope import json_text, parts, series, tables, writing
from numscope.authorship import is_own
from numscope.errors import RecipeError, ResultsError, UsageError
from numscope.tables import LayerRow, Row
from numscope.written import parse_tile

RUN, TENSORS, LAYERS, FINDINGS = "run.json", "tensors.csv", "layers.csv", "findings.md"
FINDINGS_TABLE, RECIPES = "findings.csv", "recipes.csv"
REPORT, ADVICE = "report.html", "advise.csv"
CHARTS, PARTS, PLANS = "charts", "parts", "plans"

_CHART_SUFFIXES = (".csv", ".png", ".svg", ".pdf")

_R = TypeVar("_R", Row, LayerRow)


def _always() -> None:
    """Agree: whoever has not begun a run has nothing to lose."""


@dataclass(frozen=True, slots=True)
class Results:
    """A results folder of this run, or of an earlier one that is read.

    It is there: nothing that is kept makes it anew if it is taken away.

    Attributes
    ----------
    folder
        Where it is.
    confirm
        Called at the last moment before anything in it is replaced or removed; what it raises keeps
        that from happening.
    """

    folder: Path
    confirm: Callable[[], object] = field(default=_always, compare=False, repr=False)

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
        tables.write_csv(self.folder / TENSORS, rows, Row, self.confirm)

    def keep_layers(self, rows: Collection[LayerRow]) -> list[Path]:
        """Write layers.csv; what was removed because it was made of another one.

        These are the page and advice of numscope; they go first: none outlives its table.

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
            self._remove(outdated)
        tables.write_csv(path, rows, LayerRow, self.confirm)
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
        self._keep(RUN, text, durable=True)

    def keep_findings(self, text: str, table: str) -> None:
        """Write findings.md and findings.csv.

        Raises
        ------
        ResultsError
            If one cannot be written.
        """
        self._keep(FINDINGS, text)
        self._keep(FINDINGS_TABLE, table)

    def keep_recipes(self, table: str) -> None:
        """Write recipes.csv.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        self._keep(RECIPES, table)

    def keep_charts(self, files: Mapping[str, bytes]) -> list[Path]:
        """Write the charts' files, named relative to the charts folder.

        Raises
        ------
        ResultsError
            If one cannot be written.
        """
        written = [self.folder / CHARTS / name for name in files]
        for path, content in zip(written, files.values(), strict=True):
            writing.write_bytes(path, content, inside=self.folder, confirm=self.confirm)
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
        self._remove(paths)
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
        self._remove(those)

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
        self._remove(path for path in self.tables if path.name != RUN)
        self._remove(
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
        ResultsError
            If it is somebody else's file.
        UsageError
            If it is one of the tables, by whatever name.
        """
        path = chosen or self.folder / name
        if chosen is None and path.exists() and not is_own(path):
            raise ResultsError(
                f"{path} was not written by numscope; choose another name with --out"
            )
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
            found = read_json(self.folder / RUN)
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

    def _keep(self, name: str, text: str, *, durable: bool = False) -> None:
        path = self.folder / name
        writing.write_text(path, text, durable=durable, inside=self.folder, confirm=self.confirm)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            self.confirm()
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise ResultsError(f"cannot remove {path}: {error.strerror}") from error

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


def read_json(path: Path) -> Any:
    """What a JSON file says.

    Raises
    ------
    ValueError
        If it is no JSON, or has what JSON has no words for, such as NaN.
    """
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
