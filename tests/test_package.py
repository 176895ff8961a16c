"""How the package is put together: which module may know which, and where it keeps its cache."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Literal

import pytest

import numscope
from numscope import caches, compiling
from tests.examples import REPOSITORY

PACKAGE = REPOSITORY / "numscope"

#: Imports point only upward in this list, as in the one of DESIGN.md, from which its order differs
#: in places. A new module has its place in it, a package its own: inside it, imports are its own
#: matter.
ORDER = (
    *("version", "starting", "errors", "authorship", "json_text", "toml_files", "ranges"),
    *("amounts", "formats", "choices", "checks", "recipes", "catalogue", "written", "costs"),
    *("inputs", "roundings", "turning"),
    *("caches", "compiling", "extremes", "kernels", "scale_loops", "expressions", "scales"),
    *("quantize", "measure", "panels", "tiling", "streaming", "dumps", "writing", "tables"),
    *("sorting", "resources", "engines", "clusters", "plans", "stacks", "capture", "growing"),
    *("shards", "parts", "runs", "together", "tenure", "strips", "outcomes", "analysis"),
    *("workers", "series"),
    *("standings", "findings", "rules", "recipe_files", "scores", "advice", "comparison"),
    *("views", "tradeoffs", "palette", "spacing", "axes", "legend", "styles", "charts"),
    *("heatmaps", "recipe_charts", "report", "recipe_folders", "tensorboard", "gallery"),
    *("results", "claims", "merging", "progress", "console", "logs", "batches", "recipe_pages"),
    *("recipe_tables", "inventory", "__init__", "stopping", "streams", "options"),
    *("batch_options", "commands", "cli", "__main__"),
)

#: What looks downward all the same, inside a function: the names that a notebook wants are at the
#: top, beside the values that they give, and what they run is compiled when it is needed.
FACADES = {
    "recipes": {"written"},
    "quantize": {"panels", "tiling"},
    "measure": {"streaming"},
}

#: What knows a type from further down, by its name alone: nothing of it is imported when it runs.
TYPES = {"checks": {"recipes"}}

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
#: Of the modules in the list, and of the packages among them as a whole.
PLACES = {name: name.split(".")[0] for name in MODULES}


When = Literal["at once", "when called", "never"]


def _when(outer: ast.AST) -> When | None:
    """When what stands inside of that is run, `None` if that does not say."""
    if isinstance(outer, ast.FunctionDef):
        return "when called"
    if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING":
        return "never"
    return None


def _imported(name: str) -> Iterator[tuple[str, When]]:
    """The full names that a module imports anywhere, and when."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    inside: dict[int, When] = {}
    for outer in ast.walk(tree):
        when = _when(outer)
        if when:
            inside |= {id(inner): when for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        when = inside.get(id(node), "at once")
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", when


def _own(name: str) -> Iterator[tuple[str, When]]:
    """The modules of numscope that a module imports, as in `MODULES`."""
    for full, when in _imported(name):
        top, _, rest = full.partition(".")
        if top != "numscope":
            continue
        parts = rest.split(".")
        candidates = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        found = next(
            (each for path in candidates for each in (path, f"{path}.__init__") if each in MODULES),
            "__init__",
        )
        yield found, when


def _foreign(name: str) -> set[str]:
    """The packages that a module imports which are neither numscope nor Python's own."""
    tops = {full.partition(".")[0] for full, _ in _imported(name)}
    return tops - sys.stdlib_module_names - {"numscope"}


def _as_listed(name: str) -> str:
    """A module's name, but of the commands, which are alike in what they know, their package's."""
    return "commands" if PLACES[name] == "commands" else name


def test_every_module_has_its_place() -> None:
    assert {*PLACES.values()} == {*ORDER}


@pytest.mark.parametrize("name", [name for name in MODULES if PLACES[name] in {*ORDER} - {"dumps"}])
def test_imports_point_upward(name: str) -> None:
    allowed: dict[When, set[str]] = {
        "at once": set(),
        "when called": FACADES.get(name, set()),
        "never": TYPES.get(name, set()),
    }
    downward = {
        PLACES[other]
        for other, when in _own(name)
        if PLACES[other] not in ORDER[: ORDER.index(PLACES[name])]
        and PLACES[other] != PLACES[name]
        and PLACES[other] not in allowed[when]
    }
    assert downward == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("dumps.")])
def test_reading_dumps_knows_of_nothing_but_words_and_bytes(name: str) -> None:
    assert {PLACES[other] for other, _ in _own(name)} <= {"dumps", "errors", "amounts", "turning"}


@pytest.mark.parametrize("package", ["dumps", "capture", "findings"])
def test_a_package_has_no_circle(package: str) -> None:
    inside = [name for name in MODULES if PLACES[name] == package]
    graph = {name: {other for other, _ in _own(name) if other in inside} for name in inside}
    assert tuple(TopologicalSorter(graph).static_order())[-1] == f"{package}.__init__"


@pytest.mark.parametrize(
    ("package", "modules"),
    [
        ("click", {"batch_options", "cli", "commands", "options"}),
        (
            "rich",
            {
                *("commands", "console", "inventory", "logs", "progress"),
                *("recipe_pages", "recipe_tables"),
            },
        ),
        ("matplotlib", {"axes", "charts", "heatmaps", "legend", "recipe_charts", "styles"}),
        ("numba", {"compiling", "extremes", "kernels", "scale_loops"}),
        ("safetensors", set()),
        ("distributed", {"clusters"}),
        ("fsspec", {"dumps.remote"}),
        ("torch", {name for name in MODULES if PLACES[name] == "capture"}),
        ("plotly", {"report.__init__"}),
        ("tensorboard", {"tensorboard"}),
        ("pandas", set()),
    ],
)
def test_a_library_is_known_to_few(package: str, modules: set[str]) -> None:
    assert {_as_listed(name) for name in MODULES if package in _foreign(name)} <= modules


def test_what_is_imported_is_required() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["dask"], *extras["remote"]]
    lines += [*extras["capture"], *extras["report"], *extras["tensorboard"]]
    required = {re.split(r"[><=\[ ]", line)[0] for line in lines}
    assert set().union(*map(_foreign, MODULES)) <= required


def test_the_version_is_stated_once_in_effect() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["version"] == numscope.__version__
    assert project["scripts"] == {"numscope": "numscope.cli:main"}


def test_the_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name: str) -> None:
    text = ast.get_docstring(ast.parse(MODULES[name].read_text(encoding="utf-8")))
    assert text
    assert text.splitlines()[0].endswith(".")


@pytest.mark.parametrize("name", ["utils", "core", "common", "types", "config", "helpers"])
def test_no_module_is_called_after_nothing(name: str) -> None:
    assert not [each for each in MODULES if name in each.split(".")]


def _attributes(name: str) -> set[str]:
    """All `a.b` in a module."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize(
    ("what", "modules"),
    [
        # Where libraries look for a cache, what SLURM says of a task, how many threads BLAS has.
        ("os.environ", {"caches", "batch_options", "cli"}),
        ("sys.exit", {"cli"}),
        ("sys.argv", {"cli", "starting"}),
        ("sys.stdout", {"cli", "commands"}),
        ("click.echo", {"cli", "commands"}),
        # It writes NaN unless it is told not to.
        ("json.dumps", {"json_text"}),
    ],
)
def test_a_function_is_called_by_few(what: str, modules: set[str]) -> None:
    assert {_as_listed(name) for name in MODULES if what in _attributes(name)} <= modules


@pytest.mark.parametrize("name", MODULES)
def test_counts_are_put_into_words_in_one_place(name: str) -> None:
    text = MODULES[name].read_text(encoding="utf-8")
    assert not re.search(r"\} more [a-z]+s\b|\belse \"s\"|\"s\" if ", text)


def test_public_names_are_there_and_described() -> None:
    for name in numscope.__all__:
        assert getattr(numscope, name).__doc__, name


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'numscope' has no attribute 'quantise'"):
        numscope.quantise  # noqa: B018


# Where compiled loops are kept.

ONE_LOOP = """
import numpy as np
from numscope import extremes
bits = np.empty((1, 2), np.int32)
assert extremes.widen_bfloat16(np.array([[0x3F80, 0xC000]], np.uint16), bits) == 0x40000000
assert bits.view(np.float32).tolist() == [[1.0, -2.0]]
"""


#: For each function that draws, as the first one of a process.
ONE_CHART = {
    "chart_files": """
from numscope.gallery import chart_files
from tests.stories import noise_only, tables
assert chart_files(tables(noise_only(0))[:1])
""",
    "heatmap_files": """
from numscope.gallery import heatmap_files
from tests.stories import noise_only, tables
assert heatmap_files(tables(noise_only(0))[:1], "heatmap")
""",
    "tradeoff_files": """
from numscope.gallery import tradeoff_files
from numscope.standings import standings
from numscope.tradeoffs import tradeoffs
from tests.examples import layer_rows, row
assert tradeoff_files(tradeoffs(standings(layer_rows(row(), row("int8", "int8")))))
""",
    "comparison_files": """
from numscope.comparison import Run
from numscope.gallery import comparison_files
from tests.stories import noise_only, tables
assert comparison_files([Run(name, tuple(tables(noise_only(0))[:1])) for name in "ab"])
""",
}


@pytest.fixture
def read_only(tmp_path: Path) -> dict[str, str]:
    """An environment with a copy of the package that nobody can write to, and no home.

    Files stand where the cache's folders would have to be made: that stops root, too.
    """
    copy = tmp_path / "site" / "numscope"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(copy.parent),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
    }


def _run(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", ONE_LOOP],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _compiled(folder: Path) -> dict[str, int]:
    """Compiled loops below a folder, and when they were written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def test_loops_are_compiled_once_where_nothing_can_be_written(
    read_only: dict[str, str], tmp_path: Path
) -> None:
    first = _run(read_only, tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    kept = _compiled(tmp_path)
    assert [name.split("-")[0] for name in kept] == ["extremes.widen_bfloat16"]
    assert _compiled(tmp_path / "tmp" / f"numscope-{os.getuid()}") == kept
    second = _run(read_only, tmp_path)
    assert (second.returncode, second.stderr) == (0, "")
    assert _compiled(tmp_path) == kept


def test_loops_are_kept_in_the_users_cache_if_the_package_is_read_only(
    read_only: dict[str, str], tmp_path: Path
) -> None:
    done = _run({**read_only, "XDG_CACHE_HOME": str(tmp_path / "cache")}, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(_compiled(tmp_path / "cache" / "numba")) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def _chosen_cache() -> str:
    compiling._choose_cache()
    return str(compiling.config.CACHE_DIR)


@pytest.mark.parametrize(
    ("writable", "is_temporary"),
    [
        ({"__pycache__"}, False),
        ({"numba"}, False),
        ({"__pycache__", "numba"}, False),
        (set(), True),
    ],
    ids=["package", "user's cache", "both", "neither"],
)
def test_a_temporary_folder_is_the_last_resort(
    writable: set[str], is_temporary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "")
    monkeypatch.setattr(caches, "is_writable", lambda folder: folder.name in writable)
    temporary = str(tmp_path / f"numscope-{os.getuid()}")
    assert _chosen_cache() == (temporary if is_temporary else "")


def test_a_cache_folder_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "/chosen")
    monkeypatch.setattr(caches, "is_writable", lambda _: False)
    assert _chosen_cache() == "/chosen"


def test_a_user_without_a_home_has_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiling.config, "CACHE_DIR", "")
    monkeypatch.setattr(caches, "is_writable", lambda _: False)
    assert _chosen_cache() == str(tmp_path / f"numscope-{os.getuid()}")


@pytest.mark.parametrize(
    ("name", "unwritable", "is_temporary"),
    [
        *((name, "HOME", True) for name in ONE_CHART),
        ("chart_files", "XDG_CACHE_HOME", True),
        ("chart_files", "XDG_CONFIG_HOME", True),
        ("chart_files", "MPLCONFIGDIR", True),
        ("chart_files", None, False),
    ],
)
def test_drawing_complains_of_no_place_that_cannot_be_written(
    name: str, unwritable: str | None, is_temporary: bool, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")  # that stops root, too
    (tmp_path / "tmp").mkdir()
    environment = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    environment |= {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    if unwritable:
        environment[unwritable] = str(tmp_path / "file")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", ONE_CHART[name]],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    temporary = tmp_path / "tmp" / f"numscope-{os.getuid()}" / "matplotlib"
    assert any(temporary.glob("fontlist*")) is is_temporary
    assert (tmp_path / "home" / ".cache" / "matplotlib").exists() is not is_temporary


# Compiled code is executed: it is not taken from where others can put it.


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folder would be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"numscope-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    return (found.st_uid, found.st_mode & 0o777) == (os.getuid(), 0o700)


def test_the_private_folder_is_made_and_found_again(place: Path) -> None:
    assert caches.private_folder(place.parent) == place
    assert caches.private_folder(place.parent) == place
    assert _is_private(place)


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o740, 0o701, 0o777])
def test_a_folder_that_others_can_enter_is_refused(mode: int, place: Path) -> None:
    place.mkdir()
    place.chmod(mode)
    _assert_refused(place)


def test_a_folder_of_someone_else_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = place.with_name("numscope-12345")
    theirs.mkdir(mode=0o700)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        chosen = caches.private_folder(place.parent)
    assert chosen != theirs
    assert _is_private(chosen)


def test_a_link_is_refused(place: Path) -> None:
    (place.parent / "elsewhere").mkdir(mode=0o700)
    place.symlink_to("elsewhere")
    _assert_refused(place)


def test_a_file_is_refused(place: Path) -> None:
    place.write_text("")
    _assert_refused(place)


def _assert_refused(place: Path) -> None:
    chosen = [caches.private_folder(place.parent) for _ in range(2)]
    assert place not in chosen
    assert chosen[0] != chosen[1]
    assert all(_is_private(folder) and not any(folder.iterdir()) for folder in chosen)


def test_a_folder_is_writable_if_it_can_be_made(tmp_path: Path) -> None:
    assert caches.is_writable(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    assert not caches.is_writable(tmp_path / "file")
    assert not caches.is_writable(tmp_path / "file" / "a")
    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["b"]
