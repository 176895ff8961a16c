"""The commands as a shell script sees them: exit codes, stdout and stderr, files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from rich.console import Console

import numscope
from numscope import Recipe, claims, dumps, options, stopping, streams, tables
from numscope.catalogue import NAMED, family
from numscope.cli import cli, run
from numscope.commands import answering
from numscope.measure import ErrorSums
from numscope.recipe_pages import recipe_table
from numscope.results import Results
from numscope.tables import LayerRow, Row
from numscope.written import fields_text
from tests.examples import REPOSITORY, SMALL_RUN, Call, gradient, layer_rows, row, save_dump

X = gradient(4, 8)
GOOD = "layers.0.mlp.fc1.activation"

SUMMARY = """\
chart                                  layer      worst   tokens
activations underflow (1,128)             12  0.0001221        0
activations distortion (1,128)             0    0.99968  307.2 K
gradients underflow (1,128)                0  0.0001526  368.6 K
gradients distortion (1,128)               4    0.99968        0
gradient transpose underflow (128,1)      16     0.2867  337.9 K
gradient transpose distortion (128,1)     16     0.6365  368.6 K
"""

FINDINGS = """
1. At 184.3 K tokens layers 0,4,12,16 stray in gradient transpose distortion (128,1); layer 16 \
has 0.7957, where 0.9951 is usual.
2. At 368.6 K tokens layers 0,4,8,12 stray in gradient transpose underflow (128,1) and gradient \
transpose distortion (128,1); layer 0 has 0.2635 in gradient transpose underflow, where 0.1025 \
is usual.
3. gradient transpose distortion (128,1): layer 16 dips at 184.3 K tokens to 0.7957, where \
0.9951 is usual (39 times the noise); so do layers 0,4,12.
4. gradient transpose underflow (128,1): layer 0 peaks at 368.6 K tokens to 0.2635, where 0.1025 \
is usual (8 times the noise); so do layers 4,8,12.
5. At 337.9 K tokens layers 0,12 stray in gradient transpose distortion (128,1); layer 12 has \
0.9277, where 0.9577 is usual.
6. gradient transpose distortion (128,1): layer 8 dips at 368.6 K tokens to 0.9279, where 0.9656 \
is usual (13 times the noise); so does layer 4.
7. gradient transpose distortion (128,1): layer 12 dips at 337.9 K tokens to 0.9277, where \
0.9577 is usual (18 times the noise); so does layer 0.
8. gradient transpose distortion (128,1): layer 16 is apart from all other layers, 0.9594 on the \
median, 0.99948 over all layers.
9. gradient transpose underflow (128,1): the size of the spikes falls with depth, from 0.1609 in \
layer 0 to 0 in layer 16 (rank correlation -1.00).
10. Nothing strays from the usual in activations underflow (1,128) (0 to 0.0001221), activations \
distortion (1,128) (0.99989 to 0.99968), gradients underflow (1,128) (0 to 0.0001526) and \
gradients distortion (1,128) (0.99976 to 0.99968).

"""

#: The commands that read the results of a run, and them alone.
READERS = ["advise", "export", "findings", "merge", "plot", "report"]

TABLES = ["tensors.csv", "layers.csv", "recipes.csv", "findings.md", "findings.csv", "run.json"]

CHARTS = [
    "activations_underflow_1x128",
    "activations_distortion_1x128",
    "gradients_underflow_1x128",
    "gradients_distortion_1x128",
    "gradient_transpose_underflow_128x1",
    "gradient_transpose_distortion_128x1",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with a dump of one good tensor in `dump`."""
    monkeypatch.chdir(tmp_path)
    save_dump(tmp_path / "dump" / "step_000001.safetensors", {GOOD: X}, tokens="512")
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile all loops first: the commands say so if that takes long."""
    numscope.measure(X, numscope.recipe("ling"))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of `numscope analyze` on the small run, not to be changed."""
    out = tmp_path_factory.mktemp("analysed") / "results"
    assert run(["analyze", str(SMALL_RUN), "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture
def results(analysed: Path, folder: Path) -> Path:
    """A copy of them."""
    return Path(shutil.copytree(analysed, folder / "results"))


def _shell(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "numscope", *map(str, arguments)],
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        **{**pipes, **options},
    )


def _lines_of_errors(text: str) -> list[str]:
    """The lines that say that something is wrong, without the usage before them."""
    return [line for line in text.splitlines() if re.match("error:|numscope:|Error:", line)]


# The main job.


def test_analyze_writes_every_file(analysed: Path) -> None:
    found = sorted(str(path.relative_to(analysed)) for path in analysed.rglob("*.*"))
    charts = [f"charts/{name}.{suffix}" for name in CHARTS for suffix in ("csv", "png")]
    named = [name for name in found if not name.startswith(("parts/", "plans/"))]
    assert named == sorted([*TABLES, "charts/overview.png", *charts])
    assert len(found) - len(named) == 13 + 2  # a part of each file, and who was to do what


def test_analyze_measures_each_gradient_twice(analysed: Path) -> None:
    rows = tables.read_csv(analysed / "tensors.csv", Row)
    layers = tables.read_csv(analysed / "layers.csv", LayerRow)
    tiles = [(each.kind, each.tile) for each in rows]
    assert {pair: tiles.count(pair) for pair in tiles} == {
        ("activation", "1x128"): 65,
        ("gradient", "1x128"): 65,
        ("gradient", "128x1"): 65,
    }
    assert len(layers) == 195


def test_parts_together_are_the_table(analysed: Path) -> None:
    parts = [
        each
        for path in (analysed / "parts").iterdir()
        for each in tables.from_csv(path.read_text().splitlines(keepends=True)[1:], Row, path)
    ]
    text = tables.to_csv(tables.sort_rows(parts), Row)
    assert text == (analysed / "tensors.csv").read_text()


def test_a_charts_table_is_layers_csv_turned(analysed: Path) -> None:
    layers = tables.read_csv(analysed / "layers.csv", LayerRow)
    first, *lines = (
        (analysed / "charts" / "gradient_transpose_underflow_128x1.csv").read_text().splitlines()
    )
    assert first == "tokens,0,4,8,12,16"
    assert [line.split(",")[0] for line in lines[:3]] == ["0", "30720", "61440"]
    turned = [
        repr(each.underflow) for each in layers if (each.kind, each.tile) == ("gradient", "128x1")
    ]
    assert [value for line in lines for value in line.split(",")[1:]] == turned


def test_run_json_says_what_was_done(call: Call, folder: Path) -> None:
    (folder / "dump" / "bad.safetensors").write_bytes(b"")
    save_dump(folder / "dump" / "other.safetensors", {"rope": X})
    call("analyze", "dump", "-o", "out", "--no-charts", "--recipe", "ling", "--recipe", "e5m2")
    assert json.loads((folder / "out" / "run.json").read_text()) == {
        "numscope": numscope.__version__,
        "command": [
            *("analyze", "dump", "-o", "out", "--no-charts"),
            *("--recipe", "ling", "--recipe", "e5m2"),
        ],
        "dump": str(folder / "dump"),
        "recipes": {
            "ling": asdict(Recipe()) | {"tile": "1x128"},
            "float8_e5m2:1x128:float32": asdict(Recipe("float8_e5m2")) | {"tile": "1x128"},
        },
        "files": 1,
        "finished": True,
        "tensors": 1,
        "charts": [],
        "skipped": [{"where": "bad.safetensors", "message": "is empty"}],
        "warnings": [
            {
                "where": "other.safetensors:rope",
                "message": "left out: no kind (activation, gradient, …) is recognised in its name",
            }
        ],
    }


@pytest.mark.parametrize("options", [[], ["--recipe", "ling", "--recipe", "int8"]])
def test_tables_are_identical_for_any_number_of_jobs(
    options: list[str], call: Call, folder: Path
) -> None:
    written = set()
    for jobs in (1, 2, 3):
        out = folder / f"jobs{jobs}"
        arguments = ["--out", out, "--jobs", jobs, "--no-charts", *options]
        assert call("analyze", SMALL_RUN, *arguments).code == 0
        written.add(tuple((out / name).read_bytes() for name in ("tensors.csv", "layers.csv")))
    assert len(written) == 1


def test_options_narrow_what_is_measured(call: Call, folder: Path) -> None:
    options = ["--layers", "0-4,16", "--steps", "0,720", "--kinds", "gradient", "--module", "fc1"]
    call("analyze", SMALL_RUN, "-o", "out", "--no-charts", *options)
    rows = tables.read_csv(folder / "out" / "layers.csv", LayerRow)
    assert {(each.step, each.layer, each.kind, each.tile) for each in rows} == {
        (step, layer, "gradient", tile)
        for step in (0, 720)
        for layer in (0, 4, 16)
        for tile in ("1x128", "128x1")
    }


def test_tokens_follow_from_the_options(call: Call, folder: Path) -> None:
    def tokens(*options: object) -> int | None:
        assert call("analyze", "dump", "-o", "out", "--no-charts", *options).code == 0
        return tables.read_csv(folder / "out" / "layers.csv", LayerRow)[0].tokens

    (folder / "map.csv").write_text("step,tokens\n1,77\n2,88\n")
    assert tokens() == 512
    assert tokens("--tokens-per-step", 1000) == 1000
    assert tokens("--tokens-per-step", 1000, "--step-offset", 2) == 3000
    assert tokens("--tokens-map", "map.csv") == 77
    assert tokens("--tokens-map", "map.csv", "--step-offset", 1) == 88


def test_several_recipes_end_side_by_side(call: Call, folder: Path) -> None:
    arguments = ("-o", "out", "--no-charts", "--recipe", "ling", "--recipe", "mx-e2m1")
    done = call("analyze", SMALL_RUN, *arguments)
    assert done.code == 0
    tables_ = done.out.split("out/run.json\n")[1].split("\n\n")
    assert [[line.split()[0] for line in table.strip().splitlines()] for table in tables_] == [
        ["underflow", "activation", "mx-e2m1", "ling"],
        ["underflow", "gradient", "mx-e2m1", "ling"],
        ["gradient", "transpose", "mx-e2m1", "ling"],
    ]
    kept = (folder / "out" / "recipes.csv").read_bytes()
    assert kept.count(b"\n") == 7
    merged = call("merge", "out", "--no-charts")
    assert merged.out == done.out
    assert (folder / "out" / "recipes.csv").read_bytes() == kept


def test_a_step_may_be_in_the_tokens_map_twice_if_both_agree(call: Call, folder: Path) -> None:
    (folder / "map.csv").write_text("step,tokens\n1,77\n1,77\n")
    assert call("analyze", "dump", "--no-charts", "--tokens-map", "map.csv").code == 0
    assert tables.read_csv(folder / "numscope-out/layers.csv", LayerRow)[0].tokens == 77


@pytest.mark.parametrize("offset", [0, 10**20])
def test_more_tokens_than_can_be_counted_are_refused_before_anything_is_measured(
    offset: int, call: Call, folder: Path
) -> None:
    per_step = 4 if offset else 10**27
    options = ("--tokens-per-step", per_step, "--step-offset", offset)
    code, out, err = call("analyze", "dump", *options)
    assert (code, out) == (2, "")
    assert err.startswith("numscope: step 1 would be at ")
    assert err.endswith("numscope counts to 9.223e+18\n")
    assert not (folder / "numscope-out").exists()


@pytest.mark.parametrize("offset", [-2, -(10**20)])
def test_a_step_before_the_first_has_no_tokens_and_a_remark(
    offset: int, call: Call, folder: Path
) -> None:
    options = ("--no-charts", "--tokens-per-step", 4, "--step-offset", offset)
    code, _, err = call("analyze", "dump", *options)
    assert code == 0
    what = f"with a step offset of {offset} the tokens are below 0 at 1 of the steps found: 1"
    assert f"warning: step_000001.safetensors: {what}\n" in err
    assert tables.read_csv(folder / "numscope-out/layers.csv", LayerRow)[0].tokens is None


def test_a_single_file_can_be_analysed(call: Call, folder: Path) -> None:
    done = call("analyze", "dump/step_000001.safetensors", "-o", "out", "--no-charts")
    assert done.code == 0
    (row,) = tables.read_csv(folder / "out" / "tensors.csv", Row)
    assert (row.path, row.step) == ("step_000001.safetensors", 1)


# Where the words go.


@pytest.mark.usefixtures("folder")
def test_answers_go_to_stdout_and_progress_to_stderr(call: Call) -> None:
    code, out, err = call("analyze", SMALL_RUN, "--no-charts", "-o", "out")
    assert code == 0
    assert out == SUMMARY + FINDINGS + "".join(
        f"out/{name}\n"
        for name in ("tensors.csv", "layers.csv", "recipes.csv", "findings.{md,csv}", "run.json")
    )
    assert re.fullmatch(r"13/13 files, 6.39 MB of 6.39 MB, .+/s\n", err)


def test_quiet_is_silent(call: Call, folder: Path) -> None:
    assert call("analyze", "dump", "--quiet", "--no-charts") == (0, "", "")
    save_dump(folder / "dump" / "other.safetensors", {"rope": X})
    assert call("analyze", "dump", "-q", "--no-charts") == (0, "", "")
    assert call("plot", "-q") == (0, "", "")


def test_quiet_still_says_what_could_not_be_read(call: Call, folder: Path) -> None:
    (folder / "dump" / "bad.npy").write_bytes(b"")
    assert call("analyze", "dump", "-q", "--no-charts") == (3, "", "error: bad.npy: is empty\n")


def test_no_list_is_named_that_is_not_written(call: Call, folder: Path) -> None:
    (folder / "bad").mkdir()
    for i in range(30):
        (folder / "bad" / f"bad{i}.npy").write_bytes(b"")
    assert "error: 10 more like this; --verbose shows all\n" in call("analyze", "bad").err


def test_verbose_says_every_remark(call: Call, folder: Path) -> None:
    for i in range(30):
        (folder / "dump" / f"bad{i}.npy").write_bytes(b"")
    short = call("scan", "dump")
    assert len(short.err.splitlines()) == 21
    assert short.err.endswith("error: 10 more like this; --verbose shows all\n")
    done = call("analyze", "dump", "--no-charts")
    assert "error: 10 more like this, all listed in run.json\n" in done.err
    skipped = json.loads((folder / "numscope-out" / "run.json").read_text())["skipped"]
    assert len(skipped) == 30
    assert len(call("scan", "dump", "--verbose").err.splitlines()) == 30


def test_nothing_is_coloured_in_a_pipe_and_lines_are_not_cut(folder: Path) -> None:
    out = "a-folder-whose-name-is-far-longer-than-any-terminal-is-wide-unless-it-is-a-wide-one"
    (folder / "dump" / "bad.npy").write_bytes(b"")
    done = _shell("analyze", "dump", "--out", out, "--no-charts", cwd=folder)
    assert done.returncode == 3
    assert "\x1b" not in done.stdout + done.stderr
    assert f"{out}/tensors.csv" in done.stdout.splitlines()


@pytest.mark.parametrize("arguments", [["--help"], ["recipes"], ["scan", str(SMALL_RUN)]])
def test_a_reader_that_has_enough_is_no_error(arguments: list[str]) -> None:
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    done = _shell(*arguments, stdout=writing_end)
    os.close(writing_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_exit_code_is_the_same_for_a_reader_that_has_enough(folder: Path) -> None:
    (folder / "dump" / "bad.npy").write_bytes(b"")
    reading_end, writing_end = os.pipe()
    os.close(reading_end)
    done = _shell("scan", "dump", stdout=writing_end, cwd=folder)
    os.close(writing_end)
    assert (done.returncode, done.stderr) == (3, "error: bad.npy: is empty\n")


# Options from the environment.


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, option)
        for command in cli.commands.values()
        for option in command.params
        if isinstance(option, click.Option) and option.name != "help"
    ],
    ids=lambda each: str(each.name),
)
def test_every_option_has_the_environment_variable_of_its_name(
    command: click.Command, option: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = max(option.opts, key=len).removeprefix("--").replace("-", "_")
    monkeypatch.setenv(f"NUMSCOPE_{command.name}_{word}".upper(), "its value")
    assert option.resolve_envvar_value(click.Context(command)) == "its value"


@pytest.mark.usefixtures("folder")
def test_options_come_from_the_environment(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMSCOPE_ANALYZE_OUT", "elsewhere")
    monkeypatch.setenv("NUMSCOPE_ANALYZE_NO_CHARTS", "1")
    monkeypatch.setenv("NUMSCOPE_ANALYZE_QUIET", "1")
    monkeypatch.setenv("NUMSCOPE_ANALYZE_RECIPE", "ling e5m2")
    assert call("analyze", "dump") == (0, "", "")
    rows = tables.read_csv(Path("elsewhere", "tensors.csv"), Row)
    assert [each.recipe for each in rows] == ["float8_e5m2:1x128:float32", "ling"]
    assert not Path("elsewhere", "charts").exists()


def test_the_command_line_wins_over_the_environment(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMSCOPE_ANALYZE_OUT", "elsewhere")
    call("analyze", "dump", "--out", "here", "--no-charts")
    assert (folder / "here" / "tensors.csv").exists()
    assert not (folder / "elsewhere").exists()


# Bad input: one line about each, and everything else is analysed.


def _header(fields: Any, data: bytes = bytes(16)) -> bytes:
    header = json.dumps({"layers.1.mlp.fc1.activation": fields}).encode()
    return struct.pack("<Q", len(header)) + header + data


BAD_FILES = {
    "a truncated file": (
        "bad.safetensors",
        _header({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]})[:-1],
        "is cut short: 16 bytes of tensors were announced, 15 are there",
    ),
    "a header that lies about its sizes": (
        "bad.safetensors",
        _header({"dtype": "F32", "shape": [400, 800], "data_offsets": [0, 16]}),
        "tensor 'layers.1.mlp.fc1.activation' of shape [400, 800] and dtype F32 does not fit",
    ),
    "a header longer than the file": (
        "bad.safetensors",
        struct.pack("<Q", 1000) + b"{}",
        "is cut short: a header of 1000 bytes in a file of 10 bytes",
    ),
    "garbage": (
        "bad.safetensors",
        bytes(range(100)),
        "says that its header has",
    ),
    "garbage that is called an array": (
        "bad.npy",
        bytes(range(100)),
        "is no .npy file",
    ),
    "a Git LFS pointer": (
        "bad.safetensors",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n",
        "is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
    ),
    "an unknown dtype": (
        "bad.safetensors",
        _header({"dtype": "F3", "shape": [4], "data_offsets": [0, 16]}),
        "tensor 'layers.1.mlp.fc1.activation' has the unknown dtype 'F3'; known are",
    ),
    "an empty file": ("bad.safetensors", b"", "is empty"),
}

ERRORS_OF_AN_EMPTY_FILE = """\
error: step_000001.safetensors: is empty
numscope: nothing to analyse in dump: it holds no dump file that numscope reads
"""


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_has_a_line_and_the_others_are_analysed(
    name: str, content: bytes, words: str, call: Call, folder: Path
) -> None:
    (folder / "dump" / name).write_bytes(content)
    code, out, err = call("analyze", "dump", "-o", "out", "--no-charts")
    assert code == 3
    (line,) = _lines_of_errors(err)
    assert line.startswith(f"error: {name}: ")
    assert words in line
    assert "Traceback" not in err
    assert "out/tensors.csv" in out.splitlines()
    assert [row.key for row in tables.read_csv(folder / "out" / "tensors.csv", Row)] == [GOOD]
    (skipped,) = json.loads((folder / "out" / "run.json").read_text())["skipped"]
    assert line == f"error: {skipped['where']}: {skipped['message']}"


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_scan_tells_of_a_bad_file_too(
    name: str, content: bytes, words: str, call: Call, folder: Path
) -> None:
    (folder / "dump" / name).write_bytes(content)
    code, out, err = call("scan", "dump")
    assert code == 3
    assert words in err
    assert out.startswith("1 file, ")


def test_a_dump_of_nothing_but_bad_files_is_nothing_done(call: Call, folder: Path) -> None:
    (folder / "dump" / "step_000001.safetensors").write_bytes(b"")
    assert call("analyze", "dump") == (
        1,
        "",
        ERRORS_OF_AN_EMPTY_FILE,
    )
    assert not (folder / "numscope-out").exists()


def test_files_that_all_vanish_after_the_scan_are_nothing_done(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = claims.claim

    def lose_the_dump(*arguments: Any, **options: Any) -> Results:
        shutil.rmtree(folder / "dump")
        return claim(*arguments, **options)

    monkeypatch.setattr(claims, "claim", lose_the_dump)
    code, out, err = call("analyze", "dump", "--no-charts")
    assert (code, out) == (1, "")
    assert err.splitlines()[-2:] == [
        "error: step_000001.safetensors: cannot be opened: No such file or directory",
        "numscope: nothing could be read of 1 dump file",
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\x1b[31mred.npy", r"\x1b[31mred.npy"),
        (b"\xff.npy", r"\udcff.npy"),
        (b"[bold]x.npy", "[bold]x.npy"),
    ],
)
def test_a_name_can_do_nothing_to_the_terminal(
    name: bytes, shown: str, call: Call, folder: Path
) -> None:
    (folder / "dump" / os.fsdecode(name)).write_bytes(b"")
    code, out, err = call("analyze", "dump", "--no-charts")
    assert code == 3
    assert f"error: {shown}: is empty" in err.splitlines()
    assert "\x1b" not in out + err
    run_json = json.loads((folder / "numscope-out" / "run.json").read_text())
    assert run_json["skipped"] == [{"where": os.fsdecode(name), "message": "is empty"}]


def test_a_dump_under_a_name_that_is_no_text_is_analysed(call: Call, folder: Path) -> None:
    path = folder / "dump" / "step_000001.safetensors"
    path.rename(folder / "dump" / os.fsdecode(b"step_000001_\xff.safetensors"))
    assert call("analyze", "dump", "--no-charts").code == 0
    (row,) = tables.read_csv(folder / "numscope-out" / "tensors.csv", Row)
    assert (row.path, row.step, row.layer) == (r"step_000001_\udcff.safetensors", 1, 0)


def test_two_tensors_with_the_same_identity(call: Call, folder: Path) -> None:
    save_dump(folder / "dump" / "again" / "step_000001.safetensors", {GOOD: X + 1})
    code, _, err = call("analyze", "dump", "-o", "out", "--no-charts")
    assert code == 3
    (line,) = _lines_of_errors(err)
    assert line.startswith(
        f"error: step_000001.safetensors:{GOOD}: is the same tensor as"
        f" again/step_000001.safetensors:{GOOD}"
    )
    (row,) = tables.read_csv(folder / "out" / "tensors.csv", Row)
    assert row.path == "again/step_000001.safetensors"


def test_of_tensors_that_are_not_finite_the_worst_is_named(call: Call, folder: Path) -> None:
    for step, count in ((1, 1), (2, 3), (3, 2)):
        x = np.ones((2, 8), np.float32)
        x[0, :count] = np.nan
        save_dump(folder / "nan" / f"step_{step}.safetensors", {GOOD: x}, step=str(step))
    err = call("analyze", "nan", "--no-charts").err
    (line,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert line == (
        f"warning: step_2.safetensors:{GOOD}: holds 3 NaN and 0 infinite values, which are counted"
        " and left out of every sum (and 2 more tensors like it)"
    )


@pytest.mark.parametrize(
    ("tensor", "warning"),
    [
        (
            np.ones((2, 3), np.int32),
            "dump/odd: tensors of no float type passed over: 1",
        ),
        (np.ones((0, 3), np.float32), "left out: it is empty, there is nothing to measure"),
        (
            np.array([[1, np.nan, np.inf], [-np.inf, 0, 2]], np.float32),
            "holds 1 NaN and 2 infinite values, which are counted and left out of every sum",
        ),
    ],
    ids=["integers", "no rows", "not finite"],
)
def test_a_tensor_without_numbers_is_a_warning(
    tensor: np.ndarray[Any, Any], warning: str, call: Call, folder: Path
) -> None:
    key = "layers.1.mlp.fc1.activation"
    save_dump(folder / "dump" / "odd.safetensors", {key: tensor}, step="1")
    code, _, err = call("analyze", "dump", "-o", "out", "--no-charts")
    assert code == 0
    (line,) = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert line.startswith("warning: odd.safetensors")
    assert line.endswith(warning.removeprefix("dump/odd: "))


def test_values_that_are_not_finite_are_counted_and_left_out(call: Call, folder: Path) -> None:
    x = np.array([[1, np.nan, np.inf], [-np.inf, 0, 2]], np.float32)
    save_dump(folder / "dump" / "step_000001.safetensors", {GOOD: x})
    call("analyze", "dump", "-o", "out", "--no-charts")
    (row,) = tables.read_csv(folder / "out" / "tensors.csv", Row)
    assert (row.count, row.nan_count, row.inf_count, row.zeros) == (6, 1, 2, 1)
    assert (row.amax, row.sum_xx, row.sum_yy, row.underflow) == (2.0, 5.0, 5.0, 0.0)
    assert row.distortion == 1.0


@pytest.mark.parametrize(
    ("shape", "rows", "cols"), [((), 1, 1), ((5,), 1, 5), ((2, 1, 3, 1, 5), 6, 5)]
)
def test_tensors_of_any_number_of_dimensions_are_rows(
    shape: tuple[int, ...], rows: int, cols: int, call: Call, folder: Path
) -> None:
    save_dump(
        folder / "dump" / "step_000001.safetensors",
        {GOOD: np.asarray(gradient(rows, cols).reshape(shape))},
    )
    assert call("analyze", "dump", "-o", "out", "--no-charts").code == 0
    (row,) = tables.read_csv(folder / "out" / "tensors.csv", Row)
    assert (row.rows, row.cols, row.count) == (rows, cols, rows * cols)


# Nothing can be done.


def _no_folder(folder: Path) -> None:
    (folder / "dump").rename(folder / "elsewhere")


def _empty_folder(folder: Path) -> None:
    shutil.rmtree(folder / "dump")
    (folder / "dump").mkdir()


def _nothing_recognisable(folder: Path) -> None:
    _empty_folder(folder)
    (folder / "dump" / "notes.txt").write_text("to do")
    (folder / "dump" / "core.1234").write_bytes(bytes(100))


def _nothing_named(folder: Path) -> None:
    save_dump(folder / "dump" / "step_000001.safetensors", {"rope.cos": X})


def _out_is_a_file(folder: Path) -> None:
    (folder / "numscope-out").write_text("")


def _out_of_another_run(folder: Path) -> None:
    out = str(folder / "numscope-out")
    assert run(["analyze", str(SMALL_RUN), "-o", out, "--layers=0", "--no-charts", "-q"]) == 0


@pytest.mark.parametrize(
    ("prepare", "options", "line"),
    [
        (
            _no_folder,
            [],
            "dump does not exist; a dump folder or a dump file was expected",
        ),
        (
            _empty_folder,
            [],
            "nothing to analyse in dump: it holds no dump file that numscope reads",
        ),
        (
            _nothing_recognisable,
            [],
            "nothing to analyse in dump: it holds no dump file that numscope reads",
        ),
        (
            _nothing_named,
            [],
            "nothing to analyse for kinds activation,gradient; {has} kinds none recognised; {step}",
        ),
        (
            None,
            ["--layers", "99"],
            "nothing to analyse for kinds activation,gradient; layers 99; {has} {there}",
        ),
        (
            None,
            ["--kinds", "weight"],
            "nothing to analyse for kinds weight; {has} {there}",
        ),
        (
            _out_is_a_file,
            [],
            "cannot write results to numscope-out: File exists; choose another folder with --out",
        ),
        (
            _out_of_another_run,
            [],
            "numscope-out holds the results of {small_run}, not of {folder}/dump; {advice}",
        ),
    ],
)
def test_nothing_done_has_one_line_that_says_why(
    prepare: Callable[[Path], None] | None,
    options: list[str],
    line: str,
    call: Call,
    folder: Path,
) -> None:
    if prepare:
        prepare(folder)
    why = line.format(
        folder=folder,
        small_run=SMALL_RUN,
        has="dump has",
        step="steps 1",
        there="kinds activation; layers 0; steps 1",
        advice="choose another folder with --out, or replace them with --fresh",
    )
    assert call("analyze", "dump", *options) == (1, "", f"numscope: {why}\n")


def test_fresh_replaces_the_results_of_another_run(call: Call, folder: Path) -> None:
    _out_of_another_run(folder)
    assert call("analyze", "dump", "--fresh", "--no-charts").code == 0
    (row,) = tables.read_csv(folder / "numscope-out" / "tensors.csv", Row)
    assert row.path == "step_000001.safetensors"
    assert len(list((folder / "numscope-out" / "parts").iterdir())) == 1


def test_the_same_run_again_replaces_its_results(call: Call, folder: Path) -> None:
    call("analyze", "dump")
    assert call("analyze", "dump", "--recipe", "e5m2", "--no-charts").code == 0
    (row,) = tables.read_csv(folder / "numscope-out" / "tensors.csv", Row)
    assert row.element == "float8_e5m2"
    assert list((folder / "numscope-out" / "charts").iterdir()) == []


# Wrong usage.


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--tile", "0x128"],
            "'--tile': tile 0x128 is not possible: rows and columns are integers of 1 or more",
        ),
        (
            ["--tile", "128"],
            "'--tile': tile '128' is not written as rows x columns, such as 1x128, 128x1 or",
        ),
        (["--layers", "a"], "'--layers': 'a' is not a list such as 0,4,8 or 0-16"),
        (["--layers", "0,,4"], "'--layers': '0,,4' is not a list such as 0,4,8 or 0-16"),
        (["--layers", "-1"], "'--layers': '-1' is not a list such as 0,4,8 or 0-16"),
        (["--layers", "9" * 5000], f"'--layers': '{'9' * 40}'… has numbers of more than 18"),
        (
            ["--tile", f"1x{'9' * 5000}"],
            "'--tile': a tile's rows and columns have at most 18 digits",
        ),
        (["--steps", "5-2"], "'--steps': '5-2' is not a range from small to large"),
        (
            ["--kinds", "activations"],
            "'--kinds': 'activations' is no kind; known are activation, gradient, weight, output",
        ),
        (["--memory", "0"], "'--memory': '0' is no memory at all; give a size such as 500M or 4G"),
        (["--memory", "0.0001K"], "'--memory': '0.0001K' is no memory at all"),
        (["--memory", "9" * 400], f"'--memory': '{'9' * 40}' is not a size such as 500M or 4G"),
        (["--jobs", "0"], "'--jobs': 0 is not in the range x>=1."),
        (["--tokens-per-step", "0"], "'--tokens-per-step': 0 is not in the range x>=1."),
        (
            ["--tokens-map", "nowhere.csv"],
            "'--tokens-map': nowhere.csv cannot be read: No such file or directory",
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_wrong_usage(
    options: list[str], line: str, call: Call, folder: Path
) -> None:
    code, out, err = call("analyze", "dump", *options)
    assert (code, out) == (2, "")
    assert _lines_of_errors(err) == [err.splitlines()[-1]]
    assert err.splitlines()[-1].startswith(f"Error: Invalid value for {line}")
    assert not (folder / "numscope-out").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("step,token\n1,2\n", "has no column 'tokens'; it needs step and tokens"),
        ("step,tokens\n1,many\n", "cannot be read as step,tokens: invalid literal"),
        ("step,tokens\n1\n", "cannot be read as step,tokens: "),
        ("", "holds no step; it needs the columns step and tokens, and a line per step"),
        ("step,tokens\n", "holds no step; it needs the columns step and tokens"),
        ("step,tokens\n1,5\n2,6\n1,7\n", "says that step 1 is at 5 tokens, and at 7"),
        ("step,tokens\n1,-5\n", "says that step 1 is at -5 tokens; they are 0 or more"),
    ],
)
def test_a_bad_tokens_map_is_wrong_usage(content: str, why: str, call: Call, folder: Path) -> None:
    (folder / "map.csv").write_text(content)
    code, _, err = call("analyze", "dump", "--tokens-map", "map.csv")
    assert code == 2
    assert f"'--tokens-map': map.csv {why}" in err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["analyze", ""], "'DUMP': it is empty, give a folder, a file or an address"),
        (["scan", ""], "'DUMP': it is empty, give a folder, a file or an address"),
        *(
            (arguments, f"{name}: it is empty, give the name of a file or folder")
            for arguments, name in (
                (["analyze", "dump", "-o", ""], "'-o' / '--out'"),
                (["analyze", "dump", "--recipe-file", ""], "'--recipe-file'"),
                (["analyze", "dump", "--scheduler-file", ""], "'--scheduler-file'"),
                (["compare", "results", "results", "-o", ""], "'-o' / '--out'"),
                (["compare", "results", ""], "'RESULTS...'"),
                (["report", "results", "-o", ""], "'-o' / '--out'"),
                (["advise", "results", "-o", ""], "'-o' / '--out'"),
                (["export", "results", "--tensorboard", ""], "'--tensorboard'"),
                (["check", "results", "--file", ""], "'--file'"),
                (["check", ""], "'RESULTS'"),
                *(([name, ""], "'[RESULTS]'") for name in READERS),
            )
        ),
        *(
            (arguments, "'s3://b/c' is an address: only dumps are read from there, give a path")
            for arguments in (
                ["analyze", "dump", "-o", "s3://b/c"],
                ["compare", "results", "results", "-o", "s3://b/c"],
                ["compare", "results", "s3://b/c"],
                ["report", "results", "-o", "s3://b/c"],
                ["advise", "results", "-o", "s3://b/c"],
                ["export", "results", "--tensorboard", "s3://b/c"],
                ["check", "s3://b/c", "underflow<1"],
                *([name, "s3://b/c"] for name in READERS),
            )
        ),
    ],
)
def test_a_place_that_is_none_is_wrong_usage(
    arguments: list[str], what: str, call: Call, results: Path
) -> None:
    before = sorted(results.parent.rglob("*"))
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert what in err.splitlines()[-1]
    assert sorted(results.parent.rglob("*")) == before


@pytest.mark.parametrize("place", [".", "/", "results"])
def test_a_folder_is_no_place_for_a_page(place: str, call: Call, results: Path) -> None:
    code, out, err = call("report", results.name, "-o", place)
    assert (code, out) == (1, "")
    assert err.startswith(f"numscope: cannot write {place}: ")


def test_an_unknown_recipe_points_to_the_list(call: Call) -> None:
    code, _, err = call("analyze", "dump", "--recipe", "lign")
    assert code == 2
    assert "unknown recipe 'lign'" in err
    assert err.endswith("`numscope recipes` lists them\n")


@pytest.mark.parametrize("arguments", [["analyse"], ["analyze"], ["scan", "--what"]])
def test_wrong_usage_shows_how_it_is_meant(arguments: list[str], call: Call) -> None:
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: numscope")


def test_no_command_shows_which_there_are(call: Call) -> None:
    _, out, err = call()
    assert re.search(r"^Usage: numscope .*^  analyze +Measure", out + err, re.DOTALL | re.MULTILINE)


@pytest.mark.usefixtures("folder")
def test_an_unknown_dtype_lists_the_known_ones(call: Call) -> None:
    code, _, err = call("analyze", "dump", "--npy-dtype", "bf16")
    assert code == 2
    assert err.startswith("numscope: unknown dtype 'bf16'; known are float64, float32, ")


def test_steps_may_be_as_many_as_a_run_has(call: Call, folder: Path) -> None:
    for step in (2_000_000, 2_000_001):
        save_dump(folder / "dump" / f"step_{step}.safetensors", {GOOD: X})
    code, _, err = call("analyze", "dump", "--no-charts", "--steps", "2-2000000", "--layers", "0-9")
    assert code == 0, err
    measured = tables.read_csv(folder / "numscope-out" / "tensors.csv", Row)
    assert {each.step for each in measured} == {2_000_000}


# Interrupts.


@pytest.mark.usefixtures("folder")
def test_an_interrupt_has_its_own_code(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(dumps, "scan", interrupted)
    code, out, err = call("scan", "dump")
    assert (code, out) == (130, "")
    assert err.endswith("numscope: interrupted\n")


def test_an_interrupt_that_somebody_calls_a_failure_is_one_all_the_same(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except stopping.Stopped:
            raise ImportError("failed to import") from None

    monkeypatch.setattr(dumps, "scan", interrupted)
    code, out, err = call("scan", "dump")
    assert (code, out) == (130, "")
    assert err.endswith("numscope: interrupted\n")


@pytest.mark.parametrize("module", ["difflib", "click"])  # early and late in what is imported
@pytest.mark.parametrize("name", ["-m", "numscope"])
def test_an_interrupt_while_it_starts_is_quiet(name: str, module: str, tmp_path: Path) -> None:
    interrupting = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    (tmp_path / f"{module}.py").write_text(interrupting)
    script = tmp_path / "numscope"
    script.write_text("from numscope.cli import main\nmain()\n")
    program = ["-m", "numscope"] if name == "-m" else [str(script)]
    ended = subprocess.run(  # noqa: S603
        [sys.executable, *program, "--help"],
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_an_interrupt_of_others_that_import_the_package_is_theirs() -> None:
    theirs = "import signal, numscope; assert signal.getsignal(2) is signal.default_int_handler"
    done = subprocess.run([sys.executable, "-c", theirs], check=False, cwd=REPOSITORY)  # noqa: S603
    assert done.returncode == 0


def test_a_run_that_was_killed_can_be_repeated(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(tables.LayerSums, "rows", interrupted)
        assert call("analyze", "dump", "--no-charts").code == 130
    left = json.loads((folder / "numscope-out" / "run.json").read_text())
    assert (left["dump"], left["finished"]) == (str(folder / "dump"), False)
    assert call("analyze", "dump", "--no-charts").code == 0
    done = json.loads((folder / "numscope-out" / "run.json").read_text())
    assert done["finished"] is True


@pytest.mark.parametrize("command", ["advise", "report"])
@pytest.mark.parametrize("name", ["tensors.csv", "layers.csv", "run.json", "linked.csv"])
def test_what_is_made_of_the_tables_does_not_take_their_place(
    name: str, command: str, call: Call, results: Path
) -> None:
    if command == "report":
        pytest.importorskip("plotly", reason="the extra report is not installed")
    (results / "linked.csv").symlink_to("layers.csv")
    before = {path.name: path.read_bytes() for path in results.glob("*.*")}
    done = call(command, results, "-o", results / name)
    line = f"numscope: {results / name} is a file of the results themselves; choose another name\n"
    assert done == (2, "", line)
    assert {path.name: path.read_bytes() for path in results.glob("*.*")} == before


# Standard streams that are no good.


@pytest.mark.parametrize(
    "way", ["2>/dev/full", "--log-json 2>/dev/full", "2</dev/null", "2> >(exit)", ">&- 2>&-"]
)
def test_a_stderr_that_cannot_be_written_costs_nothing_but_words(
    way: str, call: Call, folder: Path
) -> None:
    (folder / "dump" / "bad.npy").write_bytes(b"")  # there is something to say
    command = [sys.executable, "-m", "numscope", "analyze", "dump", "-o", "out"]
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", f'"$@" --no-charts {way}', "bash", *command],
        cwd=folder,
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 3
    call("analyze", "dump", "-o", "other", "--no-charts")
    assert [(folder / "out" / name).read_bytes() for name in TABLES[:2]] == [
        (folder / "other" / name).read_bytes() for name in TABLES[:2]
    ]
    assert json.loads((folder / "out" / "run.json").read_text())["finished"] is True


def test_a_stderr_that_is_full_and_does_not_wait_loses_what_it_cannot_hold() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb"), io.BufferedWriter(streams.Unfailing(writing, "w")) as stderr:
        assert stderr.write(b"x" * 2**20) == 2**20
        stderr.flush()


# findings, plot, scan, recipes.


def test_findings_says_what_stands_out(call: Call, results: Path) -> None:
    assert call("findings", results.name) == (0, FINDINGS.strip() + "\n", "")


def test_findings_as_json_is_a_list_of_objects(call: Call, results: Path) -> None:
    code, out, err = call("findings", results.name, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    keys = {"kind", "chart", "layer", "tokens", "value", "baseline", "sentence"}
    assert all(each.keys() >= keys for each in found)
    assert [each["sentence"][1:] for each in found] == [
        line.partition(". ")[2][1:] for line in FINDINGS.splitlines() if line
    ]
    assert (found[2]["kind"], found[2]["layer"], found[2]["tokens"]) == ("dip", 16, 184320)
    assert found[-1]["kind"] == "flat"


def test_a_finding_says_whose_it_is_where_another_recipe_has_none(call: Call, folder: Path) -> None:
    rows = layer_rows(
        *(
            row(
                *(recipe, recipe),
                sums=ErrorSums(count=10**6, saturated_count=int(recipe == "mx-e4m3")),
                tokens=tokens,
                layer=0,
            )
            for recipe in ("ling", "mx-e4m3")
            for tokens in range(9)
        )
    )
    (folder / "two").mkdir()
    tables.write_csv(folder / "two" / "layers.csv", rows, LayerRow)
    first = call("findings", "two").out.splitlines()[0]
    assert first.startswith("1. mx-e4m3: gradient (1,32): 9 values are clipped")
    alone = call("plot", "two", "--mark-findings", "--recipe", "mx-e4m3").out.splitlines()[0]
    assert alone.startswith("1. gradient (1,32): 9 values are clipped")


def test_ten_findings_are_shown_unless_all_are_asked_for(call: Call, folder: Path) -> None:
    rows = layer_rows(
        *(
            row(
                *(recipe, recipe),
                sums=ErrorSums(count=10**6, underflow_count=count),
                tokens=tokens,
                layer=layer,
            )
            for recipe in ("ling", "ling:1x64")
            for layer in (0, 4)
            for tokens in range(60)
            for count in [10**5 * (tokens in range(4, 60, 7) and tokens // 7 % 2 == layer // 4)]
        )
    )
    (folder / "many").mkdir()
    tables.write_csv(folder / "many" / "layers.csv", rows, LayerRow)
    shown = call("findings", "many").out.splitlines()
    every = call("findings", "many", "--verbose").out.splitlines()
    assert len(every) > 11
    assert shown == [*every[:10], f"{len(every) - 10} more; --verbose shows all"]
    marked = call("plot", "many", "--mark-findings").out.splitlines()
    assert marked[: len(every)] == every


def test_plot_draws_chosen_layers_from_the_tables_alone(call: Call, results: Path) -> None:
    before = (results / "charts" / "gradients_underflow_1x128.png").read_bytes()
    code, out, err = call("plot", "results", "--layers", "0,16")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        *(f"results/charts/{name}.{{csv,png}}" for name in CHARTS),
        "results/charts/overview.png",
    ]
    assert (results / "charts" / "gradients_underflow_1x128.png").read_bytes() != before


def test_a_table_has_the_layers_of_its_picture(call: Call, results: Path) -> None:
    call("plot", "results", "--layers", "0,16", "--quiet")
    heads = {path.read_text().splitlines()[0] for path in (results / "charts").glob("*.csv")}
    assert heads == {"tokens,0,16"}


def test_an_axis_that_stays_linear_is_said(call: Call, results: Path) -> None:
    said = "numscope: the y axes of cosine stay linear: near 1 a logarithm shows the same; --loss"
    words = ("plot", results.name, "--distortion", "cosine", "--yscale", "log")
    assert call(*words).err.startswith(said)
    assert call(*words, "--loss").err == ""
    assert call(*words, "--quiet") == (0, "", "")


def test_plot_gives_the_pictures_of_analyze(call: Call, results: Path) -> None:
    before = {path.name: path.read_bytes() for path in (results / "charts").iterdir()}
    shutil.rmtree(results / "charts")
    assert call("plot", "results").code == 0
    assert {path.name: path.read_bytes() for path in (results / "charts").iterdir()} == before


def test_plot_of_a_module_merges_that_module_only(call: Call, folder: Path) -> None:
    x = np.array([[1, 1e-6, 0, 0]], np.float32)
    tensors = {"layers.0.mlp.fc1.activation": x, "layers.0.attn.qkv.activation": 0 * x}
    save_dump(folder / "dump" / "step_000001.safetensors", tensors, tokens="512")
    call("analyze", "dump", "--no-charts")
    chart = folder / "numscope-out" / "charts" / "activations_underflow_1x128.csv"
    call("plot", "--format", "svg")
    assert chart.read_text() == "tokens,0\n512,0.125\n"
    done = call("plot", "--format", "svg", "--module", "mlp")
    of_module = chart.parent / "module-mlp" / chart.name
    assert str(of_module.relative_to(folder)).removesuffix(".csv") in done.out
    assert of_module.read_text() == "tokens,0\n512,0.25\n"
    assert chart.read_text() == "tokens,0\n512,0.125\n"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--layers", "7,99"], "none of these layers in results; it has 0, 4, 8, 12, 16"),
        (["--recipe", "mxfp8"], "no recipe 'mxfp8' in results; it has ling"),
        (["--module", "moe"], "no module contains or matches 'moe' in results"),
    ],
)
def test_plot_says_what_there_is_instead(
    options: list[str], line: str, call: Call, results: Path
) -> None:
    assert call("plot", results.name, *options) == (1, "", f"numscope: {line}\n")


@pytest.mark.parametrize("command", [("plot",), ("compare", "results")], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("recipe", "code", "line"),
    [
        ("nosuch", 2, "'nosuch' is no recipe, and none is called so in results; it has ling"),
        ("mxfp8", 1, "no recipe 'mxfp8' in results; it has ling"),
        ("fp8 :1x128", 0, None),
        ("e4m3:1x128:float32", 0, None),
    ],
)
def test_a_recipe_of_results_is_known_in_any_spelling(
    recipe: str, code: int, line: str | None, command: Sequence[str], call: Call, results: Path
) -> None:
    """And one that is none is wrong usage, as it is to `analyze`."""
    done = call(*command, results.name, "--recipe", recipe)
    assert (done.code, done.err) == (code, f"numscope: {line}\n" if line else "")


def test_plot_of_no_results_says_how_to_make_them(call: Call, folder: Path) -> None:
    advice = "make it with `numscope analyze DUMP_DIR --out nowhere`"
    expected = f"numscope: nowhere holds no layers.csv; {advice}\n"
    assert call("plot", "nowhere") == (1, "", expected)
    assert not (folder / "nowhere").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("findings", "empty"),
        ("plot", "empty"),
        ("report", "empty"),
        ("export", "empty", "--tensorboard", "runs"),
        ("compare", "empty", "results"),
        ("check", "empty", "underflow<1"),
    ],
    ids=lambda words: words[0],
)
def test_a_table_without_rows_is_no_result(
    words: Sequence[str], call: Call, folder: Path, results: Path
) -> None:
    header = (results / "layers.csv").read_text().splitlines()[0]
    (folder / "empty").mkdir()
    (folder / "empty" / "layers.csv").write_text(header + "\n")
    code, out, err = call(*words)
    assert (code, out) == (1, "")
    assert err.startswith("numscope: empty/layers.csv has no rows; make it with ")


def test_findings_of_no_layer_say_so(call: Call, folder: Path) -> None:
    (folder / "odd").mkdir()
    tables.write_csv(folder / "odd" / "layers.csv", layer_rows(row(layer=None)), LayerRow)
    line = "numscope: odd has no tensor with a layer number: nothing to judge\n"
    assert call("findings", "odd") == (1, "", line)


def test_scan_shows_how_the_dump_was_understood(call: Call) -> None:
    code, out, err = call("scan", SMALL_RUN)
    assert (code, err) == (0, "")
    assert out.startswith("13 files, 6.4 MB, 130 tensors\n")
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in out.splitlines()[2:])
    assert {name: value.strip() for name, value in facts.items()} == {
        "layout": "generic",
        "written by": "hand-written hooks",
        "files": "13",
        "tensors": "130, 6.39 MB",
        "layers": "0,4,8,12,16",
        "steps": "0 to 720 (13)",
        "tokens": "0 to 368.6 K",
        "ranks": "0",
        "micro-batches": "not named",
        "activation": "65 tensors 1x128x128 bfloat16; analysed",
        "gradient": "65 tensors 1x128x256 bfloat16; analysed",
    }


def test_scan_lists_every_tensor(call: Call) -> None:
    code, out, err = call("scan", SMALL_RUN, "--list")
    header, first, *others = [line.split("\t") for line in out.splitlines()]
    assert (code, err, len(others)) == (0, "", 129)
    assert dict(zip(header, first, strict=True)) == {
        "step": "0",
        "layer": "0",
        "kind": "activation",
        "module": "layers.0.mlp.fc1",
        "shape": "1x128x128",
        "dtype": "bfloat16",
        "layout": "generic",
        "tensor": "step_000000.safetensors:layers.0.mlp.fc1.activation",
    }


def test_scan_answers_scripts_in_json(call: Call, folder: Path) -> None:
    (folder / "dump" / "bad.npy").write_bytes(b"")
    code, out, err = call("scan", "dump", "--json", "--list")
    answer = json.loads(out)
    assert (code, err) == (3, "error: bad.npy: is empty\n")
    assert (answer["root"], answer["files"]) == ("dump", 1)
    assert [layout["layout"] for layout in answer["layouts"]] == ["generic"]


def test_scan_computes_and_writes_nothing(call: Call, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    call("scan", "dump")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("prepare", [_empty_folder, _nothing_recognisable])
def test_scan_of_nothing_is_nothing_done(
    prepare: Callable[[Path], None], call: Call, folder: Path
) -> None:
    prepare(folder)
    assert call("scan", "dump") == (1, "", "numscope: no tensor was found in dump\n")


def test_recipes_lists_every_named_recipe(call: Call) -> None:
    code, out, err = call("recipes")
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(" ")]
    assert names == list(numscope.recipes())


@pytest.mark.parametrize("arguments", [[], ["--verbose"], ["te-nvfp4"], ["torchao-block"]])
def test_recipes_fit_80_columns(
    arguments: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_UNBOUNDED", 80)
    _, out, _ = call("recipes", *arguments)
    assert max(map(len, out.splitlines())) <= 80


def test_recipes_have_a_line_each_where_that_fits_and_in_a_pipe(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = max((entry.source for entry in NAMED.values()), key=len)
    _, out, _ = call("recipes", "--verbose")
    assert len(out.splitlines()) == 1 + len(NAMED)
    assert long in out
    monkeypatch.setattr(answering, "_UNBOUNDED", 80)
    *lines, last = call("recipes").out.splitlines()
    assert len(lines) == 1 + len(NAMED)
    assert last.strip() == "no room for: source"
    assert "te-tensor        e4m3     *x*" in "\n".join(lines)


@pytest.mark.parametrize(
    "words", ["scan dump", "recipes", "recipes ling", "advise results", "plot results -v"]
)
@pytest.mark.usefixtures("results")
def test_no_line_ends_with_blanks(words: str, call: Call) -> None:
    lines = call(*words.split()).out.splitlines()
    assert len(lines) > 3
    assert lines == [line.rstrip() for line in lines]


def test_a_pipe_is_as_wide_as_it_takes(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a variable says how wide a terminal is."""
    monkeypatch.setenv("COLUMNS", "40")
    long = "float8_e5m2:1x128:power_of_two:rounding=stochastic:seed=1"
    words = ["analyze", "dump", "--no-charts", "--recipe", long, "--recipe", "ling"]
    out = _shell(*words, cwd=folder).stdout
    assert len([line for line in out.splitlines() if line.startswith(f"{long}  8.25")]) == 1
    done = call("advise", "numscope-out", "--tolerance", f"sqnr_db[{long}]>1")
    assert f"  {long}  " in done.out


@pytest.mark.parametrize("width", range(20, 100))
def test_recipes_cut_nothing_however_narrow_the_terminal_is(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), record=True)
    own = {"a-name-that-is-longer-than-all-others": Recipe(tile=(1, 1024))}
    console.print(recipe_table(own, width=width))
    lines = console.export_text().splitlines()
    assert "…" not in "".join(lines)
    header = lines[0].split()
    fixed = {"element": "e4m3", "tile": "1x1024", "bits": "8.0312", "range": "18.8"}
    said = [line.split() for line in lines if line.startswith("a-name")]
    assert [word for word in said[0] if word in fixed.values()] == [
        fixed[column] for column in header if column in fixed
    ]
    left_out = [column for column in ("name", *fixed, "scale", "source") if column not in header]
    foot = " ".join(lines).partition("no room for:")[2].replace(",", " ").split()
    assert sorted(foot) == sorted(left_out)


def test_recipes_says_what_each_costs_and_reaches(call: Call) -> None:
    _, out, _ = call("recipes")
    (line,) = [line for line in out.splitlines() if line.startswith("ling ")]
    facts = ["ling", "e4m3", "1x128", "float32", "max/amax", "8.25", "18.8"]
    assert line.split()[:7] == facts


@pytest.mark.parametrize("name", numscope.recipes())
def test_recipes_explains_each_in_full(name: str, call: Call) -> None:
    code, out, err = call("recipes", name)
    assert (code, err) == (0, "")
    said = "".join(out.split())
    entry = NAMED[name]
    for text in (entry.formula, entry.source, entry.differs, fields_text(entry.recipe)):
        assert "".join(text.split()) in said.replace("\n", "")


def test_recipes_names_the_neighbours_and_what_they_have_instead(call: Call) -> None:
    _, out, _ = call("recipes", "te-block")
    neighbours = out.partition("neighbours")[2]
    assert re.search(r"^ling +nonfinite=ignore\s*$", neighbours, re.MULTILINE)
    assert re.search(r"^te-tensor +tile=\*x\*\s*$", neighbours, re.MULTILINE)


def test_recipes_explains_a_written_form_too(call: Call) -> None:
    code, out, _ = call("recipes", "e5m2:32x1:rounding=stochastic")
    assert code == 0
    assert re.search(r"^rounding +stochastic\s*$", out, re.MULTILINE)


def test_recipes_of_an_unknown_name_lists_near_ones(call: Call) -> None:
    code, out, err = call("recipes", "deepgem")
    assert (code, out) == (2, "")
    assert "did you mean deepgemm" in err


def test_a_family_is_analysed_together(call: Call, folder: Path) -> None:
    code, _, _ = call("analyze", "dump", "-o", "out", "--no-charts", "--recipes", "nvfp4")
    assert code == 0
    run = json.loads((folder / "out" / "run.json").read_text())
    assert list(run["recipes"]) == [str(recipe) for recipe in family("nvfp4")]
    assert run["recipes"]["te-nvfp4"]["outer"] == "tensor"


def test_families_add_to_recipes(call: Call, folder: Path) -> None:
    arguments = ("--recipe", "ling", "--recipes", "int8", "--recipes", "int8")
    call("analyze", "dump", "-o", "out", "--no-charts", *arguments)
    run = json.loads((folder / "out" / "run.json").read_text())
    assert list(run["recipes"]) == ["ling", "int8"]


def test_the_kinds_of_the_options_are_those_of_the_dumps() -> None:
    assert options.KINDS == dumps.KINDS


# Help.


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_the_help_of_every_command_has_examples(name: str, call: Call) -> None:
    code, out, err = call(name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: numscope {name} ")
    examples = out.partition("\n  Examples:\n")[2]
    assert examples.startswith(f"    numscope {name}")
    assert out.isascii(), "it prints in any locale"
    assert "\\b" not in out


def test_the_help_names_every_command(call: Call) -> None:
    code, out, _ = call("--help")
    assert code == 0
    listed = out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line[2] != " "] == sorted(
        cli.commands
    )
    assert "\\b" not in out


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert call("--version").out == f"numscope, version {numscope.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"numpy", "numba", "matplotlib", "rich", "ml_dtypes", "safetensors"}),
        (["analyze", "dump", "--no-charts"], {"matplotlib", "asyncio", "distributed", "fsspec"}),
    ],
    ids=["help", "analyze"],
)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(
    arguments: list[str], heavy: set[str], folder: Path
) -> None:
    script = (
        f"import sys; from numscope.cli import run; code = run({arguments});"
        f"sys.exit(code or ', '.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# As a process.


def test_python_m_numscope_is_the_command(folder: Path) -> None:
    done = _shell("analyze", "dump", "--no-charts", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("chart ")
    assert (folder / "numscope-out" / "layers.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["scan", "nowhere"], 1), (["scan"], 2), (["scan", "dump"], 3)],
)
def test_the_exit_code_reaches_the_shell(arguments: list[str], code: int, folder: Path) -> None:
    (folder / "dump" / "bad.npy").write_bytes(b"")
    done = _shell(*arguments, cwd=folder)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
