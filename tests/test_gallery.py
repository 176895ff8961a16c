"""All the files of the charts folder, by recipe, and what is drawn in each."""

from __future__ import annotations

from typing import Any

import pytest

from numscope import charts, gallery, series
from numscope.findings import find
from numscope.gallery import chart_files, folders_of, of_module, tables_of, tradeoff_files
from numscope.recipe_folders import folder_name
from numscope.standings import standings
from numscope.tradeoffs import to_csv, tradeoffs
from numscope.views import loss
from tests import stories
from tests.examples import layer_rows, row
from tests.stories import noise_only

ROWS = layer_rows(
    *(
        row(recipe, kind=kind, tokens=tokens, layer=layer)
        for recipe, kind in (
            ("ling", "activation"),
            ("ling", "gradient"),
            ("ling:128x1", "gradient"),
        )
        for tokens in (0, 900)
        for layer in (0, 4)
    )
)
E5M2 = "float8_e5m2:1x*:float32"

CHARTS = [
    "activations_underflow_1x128",
    "activations_distortion_1x128",
    "gradients_underflow_1x128",
    "gradients_distortion_1x128",
    "gradient_transpose_underflow_128x1",
    "gradient_transpose_distortion_128x1",
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any, dict[str, Any]]]:
    """What would be drawn, instead of drawing it."""
    calls: list[tuple[str, Any, dict[str, Any]]] = []

    def chart(table: series.Series, **options: Any) -> str:
        calls.append(("chart", table.title, options))
        return table.title

    def overview(tables: list[series.Series], **options: Any) -> str:
        calls.append(("overview", [table.title for table in tables], options))
        return "overview"

    monkeypatch.setattr(charts, "chart", chart)
    monkeypatch.setattr(charts, "overview", overview)
    monkeypatch.setattr(charts, "render", lambda figure, suffix: f"{suffix} of {figure}".encode())
    return calls


def test_recipes_side_by_side_have_a_table_and_a_picture_per_kind() -> None:
    rows = layer_rows(
        *(
            row(each, each, kind=kind)
            for each in ("ling", "int8")
            for kind in ("activation", "weight")
        )
    )
    files = tradeoff_files(tradeoffs(standings(rows)), suffix="svg", dpi=30)
    assert list(files) == [
        f"recipes_{name}.{suffix}"
        for name in ("activations", "weights")
        for suffix in ("csv", "svg")
    ]
    assert files["recipes_activations.csv"].decode() == to_csv(tradeoffs(standings(rows))[0])
    assert files["recipes_activations.svg"].startswith(b"<?xml")
    assert tradeoff_files([]) == {}


Drawn = list[tuple[str, Any, dict[str, Any]]]


def test_the_default_plan_has_six_charts_and_their_overview(drawn: Drawn) -> None:
    files = chart_files(tables_of(ROWS))
    assert list(files) == [
        *(f"{name}.{suffix}" for name in CHARTS for suffix in ("csv", "png")),
        "overview.png",
    ]
    assert len(drawn) == 7


@pytest.mark.usefixtures("drawn")
def test_every_picture_is_of_its_table() -> None:
    files = chart_files(tables_of(ROWS))
    for table in tables_of(ROWS):
        assert files[f"{table.name}.csv"].decode() == series.to_csv(table)
        assert files[f"{table.name}.png"].decode() == f"png of {table.title}"
    assert files["overview.png"] == b"png of overview"


def test_the_overview_has_underflow_above_distortion(drawn: Drawn) -> None:
    chart_files(tables_of(ROWS))
    assert drawn[-1][:2] == (
        "overview",
        [
            "activations underflow (1,128)",
            "gradients underflow (1,128)",
            "gradient transpose underflow (128,1)",
            "activations distortion (1,128)",
            "gradients distortion (1,128)",
            "gradient transpose distortion (128,1)",
        ],
    )


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_options_reach_every_picture_and_layers_every_table(suffix: Any, drawn: Drawn) -> None:
    layers = frozenset({4})
    files = chart_files(tables_of(ROWS), layers=layers, suffix=suffix, yscale="log")
    assert all(options == {"layers": layers, "yscale": "log"} for *_, options in drawn)
    assert {name.rpartition(".")[2] for name in files} == {"csv", suffix}
    assert files["activations_underflow_1x128.csv"].startswith(b"tokens,4\n")


@pytest.mark.usefixtures("drawn")
def test_several_recipes_have_a_folder_each() -> None:
    e5m2 = layer_rows(row("e5m2:1x*", label=E5M2, kind="activation"))
    files = chart_files(tables_of([*ROWS, *e5m2]))
    assert [name for name in files if name.startswith("float8")] == [
        "float8_e5m2_1xall_float32/activations_underflow_1xall.csv",
        "float8_e5m2_1xall_float32/activations_underflow_1xall.png",
        "float8_e5m2_1xall_float32/activations_distortion_1xall.csv",
        "float8_e5m2_1xall_float32/activations_distortion_1xall.png",
        "float8_e5m2_1xall_float32/overview.png",
    ]
    others = [name for name in files if not name.startswith("float8")]
    assert len(others) == 13
    assert all(name.startswith("ling/") for name in others)


@pytest.mark.usefixtures("drawn")
def test_a_single_recipe_has_no_folder_whatever_it_is() -> None:
    files = chart_files(tables_of(layer_rows(row("e5m2:1x*", label=E5M2, kind="activation"))))
    assert not any("/" in name for name in files)


@pytest.mark.usefixtures("drawn")
def test_a_dump_without_gradients_has_the_charts_of_activations() -> None:
    files = chart_files(tables_of(layer_rows(row(kind="activation"))))
    assert [name for name in files if name.endswith(".png")] == [
        "activations_underflow_1x128.png",
        "activations_distortion_1x128.png",
        "overview.png",
    ]


def test_no_tables_are_no_files(drawn: Drawn) -> None:
    assert chart_files([]) == {}
    assert drawn == []


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("ling", "ling"),
        ("ling:128x1", "ling_128x1"),
        ("ling:1x*", "ling_1xall"),
        (E5M2, "float8_e5m2_1xall_float32"),
    ],
)
def test_the_name_of_a_folder_holds_no_odd_characters(label: str, name: str) -> None:
    assert folder_name(label) == name
    assert of_module(label, {"overview.png": b""}) == {f"module-{name}/overview.png": b""}


def test_no_two_recipes_share_a_folder_whatever_the_case() -> None:
    labels = ["ling_1x64_2", "Ling_1X64", "ling:1x64", "ling_1x64", "ling"]
    folders = folders_of(labels)
    assert folders == folders_of(labels[::-1])
    assert folders == {
        "Ling_1X64": "Ling_1X64/",
        "ling": "ling/",
        "ling:1x64": "ling_1x64_2/",
        "ling_1x64": "ling_1x64_3/",
        "ling_1x64_2": "ling_1x64_2_2/",
    }


def test_a_recipe_of_ones_own_keeps_its_charts_beside_one_of_much_the_same_name(
    drawn: Drawn,
) -> None:
    both = [row("ling:1x64", label, kind="activation") for label in ("ling:1x64", "ling_1x64")]
    files = chart_files(tables_of(layer_rows(*both)))
    assert len(drawn) == 6
    assert len([name for name in files if name.endswith(".png")]) == 6


@pytest.mark.parametrize(
    ("suffix", "head"), [("png", b"\x89PNG\r\n"), ("svg", b"<?xml"), ("pdf", b"%PDF-")]
)
def test_pictures_are_of_the_format_that_their_name_says(suffix: Any, head: bytes) -> None:
    files = chart_files(tables_of(layer_rows(row(kind="activation"))), suffix=suffix)
    pictures = [content for name, content in files.items() if name.endswith(suffix)]
    assert len(pictures) == 3
    assert all(content.startswith(head) for content in pictures)


def test_findings_are_marked_where_they_are() -> None:
    charts = noise_only(1, size=1e-5)
    charts[0][10, 0] += 0.5
    charts[1][30, 4] -= 0.5
    underflow, distortion, *_ = made = stories.tables(charts)
    found = find(made)
    (mark,) = gallery.marks_of(found, underflow, underflow)
    assert (mark.x, mark.y) == (underflow.x[10], underflow.values[10][0])
    assert found[mark.number - 1].chart == underflow.title
    (mark,) = gallery.marks_of(found, distortion, loss(distortion))
    assert (mark.x, mark.y) == (distortion.x[30], 1 - distortion.values[30][4])
    assert gallery.marks_of(found, distortion, distortion, layers=[0, 4]) == []
    assert gallery.marks_of(found, made[2], made[2]) == []


def test_the_overview_has_the_marks_of_its_charts(drawn: Drawn) -> None:
    made = noise_only(1, size=1e-5)
    made[1][30, 4] -= 0.5
    tables = stories.tables(made)
    found = find(tables)
    chart_files(tables, findings=found)
    *single, (_, titles, options) = drawn
    of_chart = {title: each["marks"] for _, title, each in single}
    assert options["marks"] == [of_chart[title] for title in titles]
    assert {title for title in titles if of_chart[title]} == {tables[1].title}
    drawn.clear()
    chart_files(tables)
    assert all("marks" not in each for *_, each in drawn)


@pytest.mark.usefixtures("drawn")
def test_the_table_of_a_loss_is_one_of_losses_and_that_of_smoothed_lines_has_the_values() -> None:
    files = chart_files(tables_of(ROWS), is_loss=True, smooth=3)
    table = next(each for each in tables_of(ROWS) if each.metric == "distortion")
    assert files[f"{loss(table).name}.csv"].decode() == series.to_csv(loss(table))
    assert f"{table.name}.csv" not in files
