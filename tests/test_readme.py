"""The README is true: its commands run, its Python runs, and it names all that there is."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import shutil
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pytest

from numscope import dumps
from numscope.choices import SCALES
from numscope.cli import cli, run
from numscope.dumps.files import FILE_FORMATS, FileFormat
from numscope.formats import FORMATS
from numscope.tables import Measured
from tests.examples import REPOSITORY, SAMPLE_DUMPS, Outcome, save_dump

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    """A fenced block: what stands behind the fence, and the lines."""

    language: str
    text: str


BLOCKS = [
    Block(*match)
    for match in re.findall(r"^```([a-z]*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
]
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
COMMANDS = [
    line.removeprefix("$ ")
    for block in BLOCKS
    if block.language in ("console", "sh", "bash", "shell") and not block.text.startswith("#!")
    for line in block.text.replace("\\\n", " ").splitlines()
    if line.startswith(("$ numscope", "numscope"))
]
#: Where commands are described that have no heading of their own.
HEADINGS = {"merge": "In a batch job", "recipes": "Recipes", "scan": "Dumps"}
#: Options that all commands have.
OF_ALL = {"--quiet", "--verbose"}
OPTIONS_OF_MEGATRON = {"--save", "--save-activations-interval", "--save-dgrads-interval"}
#: Commands that need a library of an extra.
EXTRAS = {"report": "plotly", "export": "tensorboard"}
PYTHON = [
    block.text
    for block in BLOCKS
    if block.language in ("python", "pycon") and "dask_jobqueue" not in block.text
]


def _options(command: str) -> set[str]:
    """The long options of a command."""
    return {
        name
        for option in cli.commands[command].params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def _table(header: str) -> list[list[str]]:
    """The cells below a table's header, row by row."""
    _, _, rest = README.partition(f"| {header} |\n")
    assert rest, f"no table | {header} |"
    rows = rest.split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


# What it says runs.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample dumps in it, as a reader's who has just cloned."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(SAMPLE_DUMPS, folder / "sample_dumps")
    (recipes,) = [block.text for block in BLOCKS if block.language == "toml"]
    (folder / "recipes.toml").write_text(recipes, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def ran(folder: Path) -> dict[str, Outcome]:
    """What each command leaves behind, all run one after the other in that folder."""
    found = {}
    with contextlib.chdir(folder):
        for command in COMMANDS:
            program, *arguments = shlex.split(command, comments=True)
            assert program == "numscope"
            if find_spec(EXTRAS.get(arguments[0], "numscope")) is None:
                continue
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(arguments)
            found[command] = Outcome(code, out.getvalue(), err.getvalue())
    return found


def _stripped(text: str) -> str:
    """The text without blanks at the ends of its lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_run_one_after_the_other(command: str, ran: dict[str, Outcome]) -> None:
    if command not in ran:
        pytest.skip("its extra is not installed")
    code, out, err = ran[command]
    assert code == 0, err
    assert out
    if command == "numscope analyze sample_dumps":
        shown = [block.text for block in BLOCKS if block.text.startswith("chart ")]
        assert len(shown) == 1
        assert out.startswith(shown[0])
    if "--steps 0-400" in command:
        (shown_last,) = [block.text for block in BLOCKS if "bits   worst" in block.text]
        assert _stripped(out).endswith(shown_last)
    if command.startswith("numscope advise results "):
        (shown_whole,) = [block.text for block in BLOCKS if block.text.startswith("at every step")]
        assert _stripped(out) == shown_whole


@pytest.mark.usefixtures("ran")
def test_the_results_folder_holds_what_is_drawn(folder: Path) -> None:
    (tree,) = [block.text for block in BLOCKS if block.text.startswith("numscope-out/\n")]
    names = [line.split()[0] for line in tree.splitlines()[1:]]
    assert names
    present = {path.name + "/" * path.is_dir() for path in (folder / "numscope-out").iterdir()}
    assert set(names) == present


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_runs(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    if ">>>" in code:
        test = doctest.DocTestParser().get_doctest(code, names, "README", "README.md", 0)
        assert doctest.DocTestRunner().run(test).failed == 0
    else:
        exec(compile(code, "README.md", "exec"), names)  # noqa: S102 (our own words)


def test_there_is_something_to_run() -> None:
    assert {shlex.split(command)[1] for command in COMMANDS} >= {"scan", "analyze", "plot"}
    assert PYTHON


def test_make_has_the_targets() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z]+)\b", re.sub(r"`make` and", "", README)))
    assert targets == {"demo", "test", "bench"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


# It names all that there is.


def test_every_command_is_described() -> None:
    described = {re.split(r"[ `]", cells[0])[2] for cells in _table("command | what it does")}
    assert {f"numscope {name}" for name in described} == {
        f"numscope {name}" for name in cli.commands
    }


def _section(heading: str) -> str:
    """The prose below a heading, with all that stands below its own headings."""
    (found,) = re.findall(rf"^(#+) {heading}\n", PROSE, re.MULTILINE)
    text = PROSE.partition(f"\n{found} {heading}\n")[2]
    return re.split(rf"^#{{1,{len(found)}}} ", text, maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize(
    ("command", "option"),
    [(command, option) for command in sorted(cli.commands) for option in sorted(_options(command))],
)
def test_every_option_is_described_where_its_command_is(command: str, option: str) -> None:
    heading = "Commands" if option in OF_ALL else HEADINGS.get(command, command)
    assert re.search(rf"[`/]{option}[`/ ]", _section(heading))


@pytest.mark.parametrize(
    "column", [field.name for field in fields(Measured) if field.name not in ("recipe", "element")]
)
def test_every_measured_column_is_mentioned(column: str) -> None:
    assert f"`{column}`" in PROSE or f"| {column} |" in PROSE


@pytest.mark.parametrize("name", [*FORMATS, *SCALES])
def test_every_number_format_and_scale_is_mentioned(name: str) -> None:
    assert f"`{name}`" in PROSE


@pytest.mark.parametrize("entry", FILE_FORMATS, ids=lambda entry: entry.name)
def test_every_file_format_is_mentioned(entry: FileFormat) -> None:
    assert entry.name in PROSE


def test_every_public_name_is_used() -> None:
    python = "".join(PYTHON)
    for name in ("recipe", "recipes", "quantize", "measure", "scan", "load", "analyze"):
        assert f"numscope.{name}(" in python, name


# And nothing that there is not.


def test_every_column_that_it_describes_is_there() -> None:
    measured = {field.name for field in fields(Measured)}
    cells = [cells[0] for cells in _table("column | definition")]
    described = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert described
    assert described <= measured


def test_every_option_that_it_names_is_there() -> None:
    # Job scripts have options of other programs too.
    own = re.sub(r"^```(bash|crontab)\n.*?^```$", "", README, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", own)) - OPTIONS_OF_MEGATRON
    known = {option for command in cli.commands for option in _options(command)} | {"--help"}
    assert named
    assert named <= known


def test_every_command_that_it_names_is_there() -> None:
    code = [*re.findall(r"`numscope ([a-z]+)", PROSE), *(line.split()[1] for line in COMMANDS)]
    assert set(code) <= set(cli.commands)


def test_every_variable_that_it_names_is_an_option() -> None:
    variables = set(re.findall(r"NUMSCOPE_[A-Z_]+", README))
    known = {
        f"numscope_{command}_{option.removeprefix('--').replace('-', '_')}".upper()
        for command in cli.commands
        for option in _options(command)
    }
    assert variables
    assert variables <= known


def test_every_link_leads_to_a_heading_or_a_file() -> None:
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-")
        for line in PROSE.splitlines()
        if line.startswith("#")
    }
    links = re.findall(r"\]\(([^)]+)\)", PROSE)
    for link in links:
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif "://" not in link:
            assert (REPOSITORY / link).exists(), link


def test_names_of_tensors_are_understood_as_shown(tmp_path: Path) -> None:
    rows = [
        [cell.strip("`") for cell in cells] for cells in _table("example | kind | layer | module")
    ]
    assert rows
    x = np.ones((1, 1), np.float32)
    save_dump(tmp_path / "a.safetensors", {key: x for key, *_ in rows})
    found = {ref.key_text: ref for ref in dumps.scan(tmp_path)}
    for key, kind, layer, module in rows:
        assert (found[key].kind, str(found[key].layer), found[key].module) == (kind, layer, module)


def test_exit_codes_are_listed() -> None:
    assert [cells[0] for cells in _table("exit code | meaning")] == ["0", "1", "2", "3"]
