"""What a chart shows is what the series says, and nothing on it covers anything else."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from numscope.axes import YScale
from numscope.charts import Format, Mark, chart, overview, render
from numscope.palette import colours
from numscope.series import Series, XName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox
    from numpy.typing import NDArray

BILLION = 10**9


def table(
    values: NDArray[np.float64] | Sequence[Sequence[float]],
    *,
    metric: str = "underflow",
    subject: str = "activations",
    tile: str = "1x128",
    x: Sequence[int] | None = None,
    x_name: XName = "tokens",
    layers: Sequence[int] | None = None,
) -> Series:
    rows = [tuple(map(float, row)) for row in values]
    return Series(
        subject=subject,
        metric=metric,
        recipe="ling",
        tile=tile,
        x_name=x_name,
        x=tuple(range(0, len(rows) * BILLION, BILLION) if x is None else x),
        layers=tuple(range(len(rows[0])) if layers is None else layers),
        values=tuple(rows),
    )


def published(layers: int, points: int) -> tuple[Series, Series]:
    """Like the published figure: a peak of the first layer on the left, a dip of the last."""
    random = np.random.default_rng(layers * points)
    place = np.linspace(0, 1, points)[:, np.newaxis] if points > 1 else np.full((1, 1), 0.125)
    depth = np.linspace(0, 1, layers)[np.newaxis, :]
    peak = 0.0075 * np.exp(-(((place - 0.125) / 0.01) ** 2)) * (depth == 0)
    dip = 0.08 * np.exp(-(((place - 0.625) / 0.01) ** 2)) * (depth == depth.max())
    noise = random.exponential(size=(points, layers))
    underflow = 0.0004 * (1 + depth) + 0.00005 * noise + peak
    distortion = 0.999 - 0.02 * depth * place - 0.001 * noise - dip
    x = [int(at * 20_000 * BILLION) for at in place[:, 0]]
    return (
        table(underflow, x=x),
        table(distortion, metric="distortion", subject="gradient transpose", tile="128x1", x=x),
    )


def axes_of(figure: Figure) -> Axes:
    return figure.axes[0]


def legend_box(axes: Axes) -> Bbox:
    """The legend's box on the canvas, or that of the colour bar with its words."""
    legend = axes.get_legend()
    if legend is not None:
        return legend.get_window_extent()
    (bar,) = axes.child_axes
    box = bar.get_tightbbox()
    assert box is not None
    return box


def tick_texts(axes: Axes) -> tuple[list[str], list[str]]:
    x = [label.get_text() for label in axes.get_xticklabels()]
    return x, [label.get_text() for label in axes.get_yticklabels()]


def lightness(colour: str) -> float:
    """CIE L* of an sRGB colour."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


def test_title_and_axes_are_named_as_published() -> None:
    underflow, distortion = (axes_of(chart(each)) for each in published(5, 13))
    assert underflow.get_title() == "activations underflow (1,128)"
    assert underflow.get_xlabel() == "tokens (B)"
    assert underflow.get_ylabel() == "Underflow"
    assert distortion.get_title() == "gradient transpose distortion (128,1)"
    assert distortion.get_ylabel() == "Distortion"


def test_lines_are_the_columns_in_order_with_gaps_where_there_is_no_value() -> None:
    values = [[0.1, 0.2], [math.nan, 0.3], [0.5, math.inf]]
    drawn = axes_of(chart(table(values, layers=[4, 16]))).get_lines()
    assert [line.get_label() for line in drawn] == ["4", "16"]
    for line, expected in zip(drawn, ([0.1, math.nan, 0.5], [0.2, 0.3, math.nan]), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
        np.testing.assert_array_equal(line.get_ydata(), expected)
    assert drawn[1].get_zorder() >= drawn[0].get_zorder()


@pytest.mark.parametrize(
    ("last", "label", "drawn"),
    [
        (20_000 * BILLION, "tokens (B)", 20_000),
        (BILLION, "tokens (B)", 1),
        (BILLION - 1, "tokens (M)", 999.999999),
        (368_640, "tokens (K)", 368.64),
        (999, "tokens", 999),
        (0, "tokens", 0),
    ],
)
def test_tokens_are_counted_in_a_unit_that_suits_their_range(
    last: int, label: str, drawn: float
) -> None:
    axes = axes_of(
        chart(table([[0.1], [0.2]][: 2 if last else 1], x=[0, last][: 2 if last else 1]))
    )
    assert axes.get_xlabel() == label
    assert float(np.asarray(axes.get_lines()[0].get_xdata())[-1]) == drawn


def test_steps_are_called_steps_and_are_whole() -> None:
    tables = [table([[0.1], [0.2], [0.3]], x=[0, 1, 2], x_name="step")]
    for figure in (chart(tables[0]), overview(tables)):
        assert axes_of(figure).get_xlabel() == "step"
        assert tick_texts(axes_of(figure))[0] == ["0", "1", "2"]


def test_colours_go_from_yellow_to_dark_blue_and_darken_evenly() -> None:
    for count in (2, 5, 17, 61):
        levels = [lightness(colour) for colour in colours(count)]
        steps = -np.diff(levels)
        assert steps.min() > 0.5 * steps.mean()
    assert levels[0] < 85  # visible on white
    assert levels[-1] < 20
    first, *_, last = (
        tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in colours(5)
    )
    assert first[0] > 200
    assert first[1] > 200
    assert first[2] < 80
    assert last[2] > last[1] > last[0]


def test_a_layer_has_its_colour_in_the_lines_and_in_the_legend() -> None:
    axes = axes_of(chart(published(5, 13)[0]))
    legend = axes.get_legend()
    assert legend is not None
    assert [line.get_color() for line in axes.get_lines()] == colours(5)
    assert [line.get_color() for line in legend.get_lines()] == colours(5)


def test_the_legend_is_titled_layer_and_names_every_layer() -> None:
    values = published(5, 13)[0].values
    legend = axes_of(chart(table(values, layers=[0, 4, 8, 12, 16]))).get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "layer"
    assert [text.get_text() for text in legend.get_texts()] == ["0", "4", "8", "12", "16"]


def test_seventeen_layers_are_named_row_by_row() -> None:
    figure = chart(published(17, 13)[0])
    figure.draw_without_rendering()
    legend = axes_of(figure).get_legend()
    assert legend is not None
    boxes = {int(text.get_text()): text.get_window_extent() for text in legend.get_texts()}
    assert sorted(boxes) == list(range(17))
    reading_order = sorted(boxes, key=lambda layer: (-round(boxes[layer].y0 / 9), boxes[layer].x0))
    assert reading_order == list(range(17))


def test_many_layers_get_a_colour_bar_titled_layer() -> None:
    axes = axes_of(chart(published(61, 13)[0]))
    assert axes.get_legend() is None
    (bar,) = axes.child_axes
    assert isinstance(bar, Axes)
    assert bar.get_title(loc="left") == "layer"
    assert tick_texts(bar)[0] == ["0", "10", "20", "30", "40", "50", "60"]
    (image,) = [each for each in bar.get_children() if isinstance(each, AxesImage)]
    shown = [mpl.colors.to_hex(colour) for colour in image.cmap(np.arange(61))]
    assert shown == colours(61) == [line.get_color() for line in axes.get_lines()]


@pytest.mark.parametrize(
    ("layers", "points"),
    [(1, 1), (1, 13), (5, 1), (5, 2), (5, 13), (5, 2000), (17, 13), (20, 2), (61, 1), (61, 2000)],
)
def test_nothing_covers_anything_else(layers: int, points: int) -> None:
    tables = published(layers, points)
    for figure in (chart(tables[0]), chart(tables[1]), overview(tables)):
        figure.draw_without_rendering()
        panels = [axes for axes in figure.axes if axes.get_title()]
        assert len(panels) in {1, 2}
        for axes in panels:
            assert_nothing_overlaps(figure, axes)


def assert_nothing_overlaps(figure: Figure, axes: Axes) -> None:
    box, panel = legend_box(axes), axes.get_window_extent()
    assert box.x0 - panel.x0 < 0.05 * panel.width
    assert panel.y1 - box.y1 < 0.05 * panel.height
    assert box.x0 >= panel.x0
    assert box.x1 <= panel.x1
    assert box.y1 <= panel.y1
    for line in axes.get_lines():
        path = line.get_path().transformed(line.get_transform())
        assert not path.intersects_bbox(box, filled=False)
        assert panel.padded(1).contains(*path.get_extents().min)
        assert panel.padded(1).contains(*path.get_extents().max)
    words = [
        *axes.get_xticklabels(),
        *axes.get_yticklabels(),
        axes.xaxis.label,
        axes.yaxis.label,
        axes.title,
    ]
    boxes = [word.get_window_extent() for word in words]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for word in boxes:
        assert not word.overlaps(box)
        assert figure.bbox.x0 <= word.x0
        assert word.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= word.y0
        assert word.y1 <= figure.bbox.y1


def test_underflow_starts_at_zero() -> None:
    low, high = axes_of(chart(published(5, 13)[0])).get_ylim()
    assert low == 0
    assert high > 0.00085


@pytest.mark.parametrize(
    "values", [np.ones((13, 5)), 1 - 1e-12 * np.arange(65.0).reshape(13, 5), np.ones((1, 1))]
)
def test_distortion_of_one_is_called_one_and_nothing_is_above_it(
    values: NDArray[np.float64],
) -> None:
    axes = axes_of(chart(table(values, metric="distortion")))
    assert axes.yaxis.get_offset_text().get_text() == ""
    labels = tick_texts(axes)[1]
    assert labels[-1] == "1.0000"
    assert float(labels[0]) >= 0.999
    assert 1 < axes.get_ylim()[1] < 1.001


def test_a_distortion_far_from_one_is_shown_where_it_is() -> None:
    low, high = axes_of(chart(table([[0.31], [0.32]], metric="distortion"))).get_ylim()
    assert 0.3 < low < 0.31
    assert 0.32 < high < 0.34


def test_no_loss_at_all_is_a_line_at_zero_on_a_plain_axis() -> None:
    axes = axes_of(chart(table(np.zeros((13, 5)))))
    assert tick_texts(axes)[1] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


@pytest.mark.parametrize("largest", [0.9, 3e-3, 4e-6, 5e-9])
def test_ticks_are_written_out_and_read_back_to_where_they_are(largest: float) -> None:
    axes = axes_of(chart(table([[0.0], [largest]])))
    assert axes.yaxis.get_offset_text().get_text() == ""
    labels = tick_texts(axes)[1]
    assert len(labels) >= 3
    np.testing.assert_allclose([float(label) for label in labels], axes.get_yticks(), rtol=1e-6)


def test_a_logarithmic_axis_has_a_place_for_zeros() -> None:
    axes = axes_of(chart(table([[0.0, 1e-6], [1e-3, 1e-4]]), yscale="log"))
    assert axes.get_ylim()[0] == 0
    assert tick_texts(axes)[1] == ["0", "1e-6", "1e-5", "0.0001", "0.001"]
    scale = axes.yaxis.get_transform()
    places = scale.transform(np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3]))
    assert np.diff(places).min() > 0.4 * np.diff(places).max()


def test_a_logarithmic_axis_without_zeros_is_purely_logarithmic() -> None:
    axes = axes_of(chart(table([[0.002], [0.008]]), yscale="log"))
    assert axes.get_yscale() == "log"
    assert len(tick_texts(axes)[1]) >= 3


def test_the_axis_of_a_cosine_stays_linear() -> None:
    scales: tuple[YScale, ...] = ("linear", "log")
    linear, log = (
        axes_of(chart(table([[0.9], [0.99]], metric="distortion"), yscale=yscale)).get_ylim()
        for yscale in scales
    )
    assert linear == log


def test_a_point_without_neighbours_is_marked_in_a_long_run() -> None:
    values = np.full((100, 1), 0.1)
    values[[49, 51]] = math.nan
    (line,) = axes_of(chart(table(values))).get_lines()
    assert line.get_marker() == "o"
    assert line.get_markevery() == [50]
    (unbroken,) = axes_of(chart(table(np.full((100, 1), 0.1)))).get_lines()
    assert unbroken.get_marker() == ""


def test_a_table_without_values_says_so() -> None:
    for empty in (table([[math.nan]]), table([[0.1]], layers=[3])):
        figure = chart(empty, layers=None if math.isnan(empty.values[0][0]) else [99])
        assert [text.get_text() for text in axes_of(figure).texts] == ["no data"]


def test_only_the_layers_that_were_asked_for_are_drawn() -> None:
    axes = axes_of(chart(table([[0.1, 0.2, 0.3]], layers=[0, 4, 8]), layers=[8, 0, 99]))
    drawn = {line.get_label(): float(np.asarray(line.get_ydata())[0]) for line in axes.get_lines()}
    assert drawn == {"0": 0.1, "8": 0.3}


def test_the_overview_has_underflow_above_distortion_and_a_column_per_subject() -> None:
    subjects = [("activations", "1x128"), ("gradients", "1x128"), ("gradient transpose", "128x1")]
    tables = [
        table([[0.1], [0.2]], metric=metric, subject=subject, tile=tile)
        for subject, tile in subjects
        for metric in ("underflow", "distortion")
    ]
    figure = overview(tables)
    np.testing.assert_allclose(figure.get_size_inches(), (16, 9))
    places = {axes.get_title(): axes.get_position() for axes in figure.axes}
    assert list(places) == [each.title for each in tables]
    for above, below in zip(tables[::2], tables[1::2], strict=True):
        assert places[above.title].y0 > places[below.title].y1
        assert places[above.title].x0 == places[below.title].x0
    lefts = [places[each.title].x0 for each in tables[::2]]
    assert lefts == sorted(set(lefts))


def test_the_overview_has_marks_in_the_charts_that_they_are_of() -> None:
    tables = [table([[0.1], [0.2]], subject=each) for each in ("activations", "gradients")]
    marked = overview(tables, marks=[[], [Mark(7, tables[1].x[1], 0.2)]])
    assert [[text.get_text() for text in axes.texts] for axes in marked.axes] == [[], ["7"]]


def test_the_overview_leaves_the_place_of_a_missing_chart_empty() -> None:
    tables = [
        table([[0.1]]),
        table([[0.1]], subject="gradients"),
        table([[0.9]], subject="gradients", metric="distortion"),
    ]
    figure = overview(tables)
    first, second, third = (axes.get_position() for axes in figure.axes)
    assert first.y0 == second.y0 > third.y0
    assert third.x0 == second.x0 > first.x0


def test_a_layer_has_the_same_colour_and_x_the_same_unit_all_over_the_overview() -> None:
    tables = [
        table([[0.1, 0.2]], layers=[0, 4], x=[5 * BILLION]),
        table([[0.3]], layers=[4], x=[5_000], subject="gradients"),
    ]
    one, other = overview(tables).axes
    assert one.get_lines()[1].get_color() == other.get_lines()[0].get_color() == colours(2)[1]
    assert one.get_xlabel() == other.get_xlabel() == "tokens (B)"


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_equal_figures_are_equal_files(suffix: Format, magic: bytes) -> None:
    one, other = (render(overview(published(5, 13)), suffix) for _ in range(2))
    assert one == other
    assert one.startswith(magic)
    assert b"Date" not in one


def test_all_single_charts_have_one_size() -> None:
    for layers, points in ((1, 1), (61, 13)):
        for each in published(layers, points):
            header = render(chart(each))[16:24]
            assert (int.from_bytes(header[:4]), int.from_bytes(header[4:])) == (960, 630)


def test_the_settings_of_others_are_neither_used_nor_changed() -> None:
    expected = render(chart(published(5, 13)[0]))
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.spines.top": True}):
        before = dict(mpl.rcParams)
        assert render(chart(published(5, 13)[0])) == expected
        assert dict(mpl.rcParams) == before


def test_pyplot_is_not_needed() -> None:
    code = "import sys, numscope.charts; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


shares = st.integers(0, 2**40).map(lambda count: count / 2**40)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.one_of(shares, st.sampled_from([0.0, 1.0, -0.5, math.nan]))] * 3),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["underflow", "distortion", "sqnr_db"]),
    st.sampled_from(["linear", "log"]),
)
def test_every_value_is_inside_the_axes(
    values: list[tuple[float, ...]], metric: str, yscale: str
) -> None:
    axes = axes_of(
        chart(table(values, metric=metric), yscale="log" if yscale == "log" else "linear")
    )
    low, high = axes.get_ylim()
    known = [value for row in values for value in row if not math.isnan(value)]
    assert all(low <= value <= high for value in known)
    assert len(tick_texts(axes)[1]) >= 2
