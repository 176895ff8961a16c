"""Recipes side by side: what each loses per layer over the whole run, in one order everywhere."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from numscope import tables
from numscope.measure import ErrorSums
from numscope.results import Results
from numscope.standings import Standing, standings
from numscope.tables import LayerRow, Row
from numscope.tradeoffs import Losses, Tradeoff, to_csv, tradeoffs
from numscope.written import parse, weight_recipe
from tests.examples import Call, gradient, layer_rows, row, save_dump

NAN = math.nan


def _sums(flushed: int, cosines: float, *, rows: int = 8, zero_rows: int = 0) -> ErrorSums:
    """The record of a tensor of eight values and `rows` rows."""
    return ErrorSums(
        count=8,
        underflow_count=flushed,
        row_count=rows,
        zero_rows=zero_rows,
        sum_row_cosine=cosines,
        sum_xx=1.0,
        sum_yy=1.0,
        sum_xy=0.75,
    )


def _rows(recipe: str, kind: str = "activation") -> list[Row]:
    """Two steps of two layers, weights with the recipe's tile for them."""
    places: list[dict[str, Any]] = [{"layer": n, "step": m} for n in (0, 4) for m in (0, 2)]
    base = parse(recipe)
    used = str(weight_recipe(base)) if kind == "weight" else recipe
    return [
        row(used, recipe, _sums(sum(at.values()), 8 - sum(at.values())), kind=kind, **at)
        for at in places
    ]


def _stand(*rows: Row) -> list[Standing]:
    return standings(layer_rows(*rows))


def _one(*rows: Row) -> Tradeoff:
    (table,) = tradeoffs(_stand(*rows))
    return table


def test_a_layers_value_is_that_of_the_whole_run() -> None:
    table = _one(*_rows("ling"), *_rows("int8"))
    assert (table.subject, table.metric, table.layers) == ("activations", "distortion_loss", (0, 4))
    assert table.name == "recipes_activations"
    for entry in table.entries:
        assert entry.underflow.values == (2 / 16, 10 / 16)
        assert entry.loss.values == (2 / 16, 10 / 16)


def test_recipes_come_by_bits_in_the_first_kind_then_by_name_and_alike_in_all() -> None:
    recipes = ["ling", "int8", "te-tensor", "mx-e2m1", "te-nvfp4"]
    kinds = ["weight", "gradient", "activation"]
    rows = [each for recipe in recipes for kind in kinds for each in _rows(recipe, kind)]
    found = tradeoffs(_stand(*rows))
    assert [table.subject for table in found] == [
        "activations",
        "gradients",
        "weights",
    ]
    ordered = ["mx-e2m1", "te-nvfp4", "te-tensor", "int8", "ling"]
    assert [entry.recipe for entry in found[0].entries] == ordered
    assert [entry.bits for entry in found[0].entries] == [4.25, 4.5, 8.0, 8.25, 8.25]
    assert [entry.recipe for entry in found[1].entries] == ordered
    assert [entry.recipe for entry in found[2].entries] == ordered
    of_weights = [entry.bits for entry in found[2].entries]
    assert of_weights == [4.25, 4 + 8 / 256, 8.0, 8 + 32 / 128**2, 8 + 32 / 128**2]


def test_a_kind_of_one_recipe_has_no_table() -> None:
    assert tradeoffs(_stand(*_rows("ling"))) == []
    found = tradeoffs(_stand(*_rows("ling"), *_rows("int8"), *_rows("ling", "output")))
    assert [table.subject for table in found] == ["activations"]


def test_a_transpose_has_a_table_of_its_own() -> None:
    rows = [row(each, each[:4]) for each in ("ling", "ling:128x1", "int8", "int8:128x1")]
    first, second = tradeoffs(_stand(*rows))
    assert (first.name, second.name) == ("recipes_gradients", "recipes_gradient_transpose")
    assert [entry.tile for entry in (*first.entries, *second.entries)] == 2 * ["1x128"] + 2 * [
        "128x1"
    ]


def test_a_layer_that_a_recipe_lacks_has_no_value() -> None:
    table = _one(*_rows("ling"), row("int8", "int8", _sums(0, 8), kind="activation", layer=9))
    assert table.layers == (0, 4, 9)
    lacks = [[math.isnan(value) for value in entry.loss.values] for entry in table.entries]
    assert lacks == [[True, True, False], [False, False, True]]


def test_modules_without_a_layer_are_left_out() -> None:
    extra = [row(each, each, kind="activation", layer=None) for each in ("ling", "int8")]
    assert _one(*_rows("ling"), *_rows("int8"), *extra).layers == (0, 4)
    assert tradeoffs(_stand(*extra)) == []


def test_some_layers_can_be_chosen() -> None:
    (table,) = tradeoffs(_stand(*_rows("ling"), *_rows("int8")), layers={4, 7})
    assert table.layers == (4,)


@pytest.mark.parametrize(
    ("options", "metric", "loss"),
    [
        ({}, "distortion_loss", 1 - 4 / 6),
        ({"zero_rows": "zero"}, "distortion_loss", 1 - 4 / 8),
        ({"zero_rows": "one"}, "distortion_loss", 1 - 6 / 8),
        ({"distortion": "cosine"}, "cosine_loss", 1 - 0.75),
    ],
)
def test_what_is_lost_is_what_is_asked_for(
    options: dict[str, str], metric: str, loss: float
) -> None:
    sums = _sums(0, 4.0, zero_rows=2)
    found = _stand(*(row(each, each, sums, kind="activation") for each in ("ling", "int8")))
    (table,) = tradeoffs(found, **options)  # type: ignore[arg-type]
    assert table.metric == metric
    assert [entry.loss.values for entry in table.entries] == [pytest.approx((loss,))] * 2


@pytest.mark.parametrize(
    ("values", "median", "worst"),
    [
        ((0.3,), 0.3, 0.3),
        ((0.3, 0.1), 0.3, 0.3),
        ((0.3, NAN, 0.1, 0.2), 0.2, 0.3),
        ((0.4, 0.3, 0.1, 0.2), 0.3, 0.4),
        ((0.0, 0.0), 0.0, 0.0),
    ],
)
def test_the_median_is_a_layers_own_value(
    values: tuple[float, ...], median: float, worst: float
) -> None:
    assert (Losses(values).median, Losses(values).worst) == (median, worst)


def test_without_values_nothing_is_known() -> None:
    for losses in (Losses(()), Losses((NAN, NAN))):
        assert math.isnan(losses.median)
        assert math.isnan(losses.worst)


def test_the_csv_has_all_that_is_drawn() -> None:
    table = _one(*_rows("ling"), row("int8", "int8", _sums(2, 7), kind="activation", layer=9))
    lines = list(csv.reader(io.StringIO(to_csv(table))))
    assert lines == [
        ["metric", "recipe", "tile", "bits", "median", "worst", "0", "4", "9"],
        ["distortion_loss", "int8", "1x128", "8.25", "0.125", "0.125", "", "", "0.125"],
        ["distortion_loss", "ling", "1x128", "8.25", "0.625", "0.625", "0.125", "0.625", ""],
        ["underflow", "int8", "1x128", "8.25", "0.25", "0.25", "", "", "0.25"],
        ["underflow", "ling", "1x128", "8.25", "0.625", "0.625", "0.125", "0.625", ""],
    ]


# On the command line.

NAMES = ("recipes_activations", "recipes_gradient_transpose", "recipes_gradients")
TWO = ("--recipe", "ling", "--recipe", "mx-e2m1")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump of two steps and layers."""
    for step in range(2):
        tensors = {
            f"layers.{layer}.mlp.fc1.{kind}": gradient(8, 64, seed=2 * step + layer)
            for layer in range(2)
            for kind in ("activation", "gradient")
        }
        save_dump(tmp_path / "dump" / f"step_{step}.safetensors", tensors)
    return tmp_path / "dump"


def _pictures(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "charts").glob("recipes_*"))}


def test_analyze_and_merge_draw_them_for_several_recipes(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    out, merged = tmp_path / "out", tmp_path / "merged"
    done = call("analyze", dump, "-o", out, *TWO)
    assert done.code == 0
    assert re.findall(r"recipes_\w+\.\{csv,png\}", done.out) == [
        f"recipes_{name}.{{csv,png}}" for name in ("activations", "gradients", "gradient_transpose")
    ]
    assert list(_pictures(out)) == [
        f"{name}.{suffix}" for name in NAMES for suffix in ("csv", "png")
    ]
    for index in (1, 2):
        call("analyze", dump, "-o", merged, *TWO, "--shard", f"{index}/2")
    assert call("merge", merged).code == 0
    assert _pictures(merged) == _pictures(out)


def test_the_numbers_are_those_of_the_tables(dump: Path, tmp_path: Path, call: Call) -> None:
    call("analyze", dump, "-o", tmp_path / "out", *TWO)
    rows = tables.read_csv(tmp_path / "out" / "layers.csv", LayerRow)
    own = [row for row in rows if (row.recipe, row.kind, row.layer) == ("ling", "activation", 1)]
    assert len(own) == 2
    sums = own[0].sums + own[1].sums
    lines = list(
        csv.DictReader(io.StringIO(_pictures(tmp_path / "out")[f"{NAMES[0]}.csv"].decode()))
    )
    found = {line["metric"]: line["1"] for line in lines if line["recipe"] == "ling"}
    assert found == {
        "distortion_loss": str(1 - sums.distortion),
        "underflow": str(sums.underflow),
    }


def test_of_one_recipe_there_are_none_and_earlier_ones_go(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    call("analyze", dump, "-o", tmp_path / "out", *TWO)
    assert _pictures(tmp_path / "out")
    done = call("analyze", dump, "-o", tmp_path / "out")
    assert (done.code, "recipes_" in done.out) == (0, False)
    assert _pictures(tmp_path / "out") == {}


def _files(folder: Path) -> dict[str, bytes]:
    names = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in names}


def test_files_of_others_stay_whatever_a_run_removes(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    out = tmp_path / "out"
    call("analyze", dump, "-o", out, *TWO)
    own = _files(out / "charts")
    call("plot", out, "--format", "svg", "--dpi", 40, "--module", "fc")
    mine = ["charts/mine.png", "charts/ling/mine.csv", "plans/old.json", "parts/a.csv", ".x.part"]
    for name in mine:
        (out / name).write_text(name)
        os.utime(out / name, (1e9, 1e9))
    drawn = {name: text for name, text in _files(out / "charts").items() if name not in own}
    assert any(name.startswith("module-fc/ling/") for name in drawn)
    assert call("analyze", dump, "-o", out, *TWO, "--fresh").code == 0
    assert _files(out / "charts") == own | drawn
    assert call("analyze", dump, "-o", out, *TWO, "--no-charts").code == 0
    assert _files(out / "charts") == drawn
    assert call("analyze", dump, "-o", out).code == 0
    left = _files(out / "charts")
    assert {name: left.pop(name) for name in drawn} == drawn
    assert not any("/" in name or name.startswith("recipes_") for name in left)
    assert all((out / name).read_text() == name for name in mine)


def test_charts_of_a_run_that_was_killed_while_it_wrote_them_are_known_to_the_next(
    dump: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Results.keep_charts

    def keep_and_die(results: Results, files: dict[str, bytes]) -> list[Path]:
        keep(results, files)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Results, "keep_charts", keep_and_die)
        assert call("analyze", dump, "-o", tmp_path, *TWO).code == 130
    assert (tmp_path / "charts" / "ling").is_dir()
    assert call("analyze", dump, "-o", tmp_path).code == 0
    assert all("/" not in name for name in _files(tmp_path / "charts"))


def test_charts_of_some_rows_leave_those_of_the_run_as_they_are(
    dump: Path, tmp_path: Path, call: Call
) -> None:
    out = tmp_path / "out"
    call("analyze", dump, "-o", out, *TWO)
    own = _files(out / "charts")
    assert call("plot", out, "--recipe", "ling").code == 0
    assert _files(out / "charts") == own
    done = call("plot", out, "--module", "*fc*", "--recipe", "ling", "--heatmap")
    assert done.code == 0
    made = _files(out / "charts")
    assert {name: made.pop(name) for name in own} == own
    assert "module-allfcall/ling/overview.png" in made
    assert all(name.startswith("module-allfcall/ling/") for name in made)


def test_plot_draws_them_otherwise(dump: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    call("analyze", dump, "-o", out, *TWO, "--no-charts")
    options = ("--layers", "1", "--distortion", "cosine", "--format", "svg", "--yscale", "log")
    done = call("plot", out, *options, "--kinds", "activation")
    assert done.code == 0
    assert done.err.startswith("numscope: the y axes of cosine stay linear: ")
    found = _pictures(out)
    assert list(found) == ["recipes_activations.csv", "recipes_activations.svg"]
    head, first, *_ = found["recipes_activations.csv"].decode().splitlines()
    assert head == "metric,recipe,tile,bits,median,worst,1"
    assert first.startswith("cosine_loss,mx-e2m1,1x32,4.25,")


def test_the_report_shows_them(dump: Path, tmp_path: Path, call: Call) -> None:
    pytest.importorskip("plotly", reason="the extra report is not installed")
    call("analyze", dump, "-o", tmp_path / "out", *TWO, "--no-charts")
    assert call("report", tmp_path / "out").code == 0
    text = (tmp_path / "out" / "report.html").read_text()
    assert re.findall(r'"of": "([^"]*)", "src": "data:image/png;base64,iVBOR', text) == [
        "activations",
        "gradients",
        "gradient transpose",
    ]
