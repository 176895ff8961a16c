"""Which gradients are transposed: the same everywhere, whatever rows there are to tell it by."""

from __future__ import annotations

import csv
import json
import shutil
from base64 import b64encode
from pathlib import Path

import pytest

from numscope.cli import run
from numscope.findings import find
from numscope.gallery import tables_of, tradeoff_files
from numscope.measure import ErrorSums
from numscope.results import Results, recorded_tiles
from numscope.series import own_tiles
from numscope.standings import standings
from numscope.tradeoffs import tradeoffs
from tests.examples import SUMS, Call, gradient, layer_rows, row, save_dump

STEPS = 9
#: Columns are the recipes' own tile, and rows are turned.
GRADIENTS = ["gradients underflow (128,1)", "gradient transpose underflow (1,128)"]
FILES = {
    f"{subject}_{metric}_{tile}.csv"
    for subject, tile in (("gradients", "128x1"), ("gradient_transpose", "1x128"))
    for metric in ("underflow", "distortion")
} | {"recipes_gradients.csv", "recipes_gradient_transpose.csv"}
#: The kinds and tiles of tables.
OWN = {("gradient", "128x1"), ("gradient transpose", "1x128")}


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of a few steps."""
    folder = tmp_path_factory.mktemp("dump")
    for step in range(STEPS):
        tensors = {
            f"layers.{layer}.fc1.{kind}": gradient(256, 64, seed=layer + 2 * step)
            for layer in range(2)
            for kind in ("activation", "gradient")
        }
        save_dump(folder / f"step_{step}.safetensors", tensors)
    return folder


@pytest.fixture(scope="module", params=["activation,gradient", "gradient"])
def made(
    request: pytest.FixtureRequest, dump: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The results of recipes whose tile is higher than wide, with activations and without."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "own.toml").write_text('tall = "ling:128x1"\nhigh = "int8:128x1"\n')
    options = ["--recipe-file", str(folder / "own.toml"), "--kinds", request.param, "--quiet"]
    assert run(["analyze", str(dump), "--out", str(folder / "out"), *options]) == 0
    return folder / "out"


@pytest.fixture
def analysed(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them in the working folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "out"))


def _gradients(charts: Path) -> set[tuple[str, bytes]]:
    """The names and contents of charts' tables, in whatever folders."""
    return {(path.name, path.read_bytes()) for path in charts.rglob("*gradient*.csv")}


def _tiles(table: Path) -> set[tuple[str, str]]:
    with table.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {(line["kind"], line["tile"]) for line in lines if line["kind"] != "activation"}


def test_analyze_names_charts_scores_and_findings_alike(analysed: Path) -> None:
    assert {name for name, _ in _gradients(analysed / "charts")} == FILES
    assert _tiles(analysed / "recipes.csv") == OWN
    said = (analysed / "findings.md").read_text()
    assert "gradients underflow (1,128)" not in said
    assert "gradient transpose underflow (128,1)" not in said


@pytest.mark.parametrize("options", [("--kinds", "gradient"), ("--module", "fc1")])
def test_plot_names_them_as_analyze_does(
    options: tuple[str, ...], analysed: Path, call: Call
) -> None:
    before = _gradients(analysed / "charts")
    (analysed / "charts").rename(analysed / "before")
    assert call("plot", "out", *options, "--dpi", 20).code == 0
    assert _gradients(analysed / "charts") == before


@pytest.mark.parametrize("options", [(), ("--kinds", "gradient")])
def test_advise_answers_for_the_right_one(
    options: tuple[str, ...], analysed: Path, call: Call
) -> None:
    done = call("advise", "out", *options, "--json")
    assert done.code == 0
    assert _tiles(analysed / "advise.csv") == OWN


@pytest.mark.usefixtures("analysed")
def test_findings_are_about_the_same_charts(call: Call) -> None:
    found = json.loads(call("findings", "out", "--json").out)
    charts = {chart for each in found for chart in each["charts"]}
    assert any(chart.startswith("gradient transpose") for chart in charts)
    assert {chart for chart in charts if "distortion" in chart and "grad" in chart} <= {
        title.replace("underflow", "distortion") for title in GRADIENTS
    }


def test_reports_comparisons_and_exports_do_too(analysed: Path, dump: Path, call: Call) -> None:
    pytest.importorskip("plotly", reason="the extra report is not installed")
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    assert call("report", "out").code == 0
    page = (analysed / "report.html").read_text()
    assert all(f'"title": "{title}"' in page for title in GRADIENTS)
    tables = tradeoffs(
        standings(Results(analysed).layer_rows(), {"tall": "128x1", "high": "128x1"})
    )
    picture = tradeoff_files(tables, dpi=110)["recipes_gradients.png"]
    assert f'"gradients", "src": "data:image/png;base64,{b64encode(picture).decode()}"' in page
    assert call("export", "out", "--tensorboard", "events").code == 0
    (events, *_) = Path("events").rglob("*.numscope")
    assert b"underflow/gradient_transpose_1x128" in events.read_bytes()
    Path("other.toml").write_text('tall = "ling"')
    assert call("analyze", dump, "--recipe-file", "other.toml", "-o", "other").code == 0
    assert call("compare", "other", "out", "--recipe", "tall").code == 0
    with Path("numscope-compare/differences.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    changes = {
        name: sum(float(line["difference"]) for line in lines if line["chart"] == name)
        for name in ("gradients underflow", "gradient transpose underflow")
    }
    assert changes["gradients underflow"] > 0 > changes["gradient transpose underflow"]


@pytest.mark.parametrize("text", ['{"recipes": {"tall": {"tile": "odd"}, "ling": 3}}', None])
def test_without_a_record_all_rows_tell_it_and_not_the_chosen_ones_alone(
    text: str | None, analysed: Path, call: Call
) -> None:
    has_activations = "activation" in (analysed / "layers.csv").read_text()
    (analysed / "run.json").unlink()
    if text:
        (analysed / "run.json").write_text(text)
    assert call("advise", "out", "--kinds", "gradient").code == 0
    turned = {("gradient", "1x128"), ("gradient transpose", "128x1")}
    assert _tiles(analysed / "advise.csv") == (OWN if has_activations else turned)


def test_a_point_without_a_value_is_not_missing_under_either_name() -> None:
    """As of a tensor that is NaN throughout, of which nothing is counted."""
    rows = layer_rows(
        *(
            row(tile, "tall", ErrorSums() if (step, layer) == (4, 1) else SUMS, **at)
            for tile in ("ling:128x1", "ling")
            for step in range(STEPS)
            for layer in range(2)
            for at in [{"step": step, "tokens": step, "layer": layer}]
        )
    )
    tiles = {"tall": "128x1"}
    kinds = {each.kind for each in find(tables_of(rows, tiles=tiles), rows, tiles)}
    assert "missing points" not in kinds


def test_what_is_recorded_comes_before_what_the_rows_say() -> None:
    rows = layer_rows(row("ling", "mine", kind="activation"), row("ling:64x1", "other"), row())
    assert own_tiles(rows) == {"mine": "1x128", "ling": "1x128"}
    recorded = {"mine": "128x1", "other": "64x1"}
    assert own_tiles(rows, recorded) == {**recorded, "ling": "1x128"}


@pytest.mark.parametrize(
    "recipes", [None, 3, [], {"a": 3}, {"a": {}}, {"a": {"tile": 7}}, {"a": {"tile": "0x1"}}]
)
def test_what_is_no_tile_is_not_recorded(recipes: object, tmp_path: Path) -> None:
    assert recorded_tiles({"recipes": recipes}) == {}
    for text in (json.dumps({"recipes": recipes}), "{"):
        (tmp_path / "run.json").write_text(text)
        assert Results(tmp_path).own_tiles(layer_rows(row())) == {"ling": "1x128"}
