"""Recipes side by side in a picture: whose line is whose, and no label covers another."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.lines import Line2D

from numscope.catalogue import NAMED
from numscope.costs import bits_per_value
from numscope.recipe_charts import recipe_chart
from numscope.spacing import apart, groups_of
from numscope.styles import render
from numscope.tradeoffs import Entry, Losses, Tradeoff

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    1: ["ling", "mx-e4m3"],
    2: ["ling", "te-tensor", "deepgemm", "deepgemm-ue8m0", "mx-e2m1", "mx-e3m2", "int8"],
    3: list(NAMED),
}
LAYERS = {1: (3,), 5: (0, 4, 8, 12, 16), 61: tuple(range(61))}


def story(names: list[str], layers: tuple[int, ...], *, zeros: bool = False) -> Tradeoff:
    """A table where fewer bits lose more."""
    random = np.random.default_rng(len(names) + len(layers))
    entries = []
    for name in names:
        recipe = NAMED[name].recipe
        scale = 10.0**-recipe.element_format.bits
        loss, underflow = scale * np.exp(random.standard_normal((2, len(layers))))
        if zeros:
            underflow[::2] = 0
        values = Losses(tuple(loss.tolist())), Losses(tuple(underflow.tolist()))
        entries.append(Entry(name, recipe.tile_text, bits_per_value(recipe), *values))
    entries.sort(key=lambda entry: (entry.bits, entry.recipe))
    return Tradeoff("gradients", "distortion_loss", layers, tuple(entries))


def panels(figure: Figure) -> tuple[Axes, Axes, Axes]:
    one, two, three = figure.axes
    return one, two, three


def lines(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if len(np.atleast_1d(line.get_xdata()))]


def data(line: Line2D) -> tuple[list[float], list[float]]:
    return np.atleast_1d(line.get_xdata()).tolist(), np.atleast_1d(line.get_ydata()).tolist()


def look(line: Line2D) -> tuple[Any, ...]:
    return line.get_color(), line.get_marker(), str(line._unscaled_dash_pattern)  # type: ignore[attr-defined]


def beside(figure: Figure) -> list[Line2D]:
    """The lines outside of the panels: samples, which have a marker, and threads to the points."""
    return [each for each in figure.artists if isinstance(each, Line2D)]


def names_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
def test_each_recipe_has_a_line_over_the_layers_in_both_panels(layers: tuple[int, ...]) -> None:
    table = story(NAMES[2], layers)
    loss, underflow, _ = panels(recipe_chart(table))
    for axes, wanted in (
        (loss, [entry.loss for entry in table.entries]),
        (underflow, [entry.underflow for entry in table.entries]),
    ):
        found = [data(line) for line in lines(axes)]
        assert [tuple(y) for _, y in found] == [each.values for each in wanted]
        for x, _ in found:
            assert x == pytest.approx(list(layers), abs=0.5 if len(layers) == 1 else 0)
        assert axes.get_yscale() == "log"


def test_the_titles_say_what_is_where() -> None:
    axes = panels(recipe_chart(story(NAMES[1], LAYERS[5])))
    assert [each.get_title() for each in axes] == [
        "gradients distortion loss",
        "gradients underflow",
        "gradients distortion loss by bits",
    ]
    assert [each.get_xlabel() for each in axes] == ["layer", "layer", "bits per value"]


def test_points_are_medians_and_bars_end_at_the_worst() -> None:
    table = story(NAMES[2], LAYERS[5])
    found = [data(line)[1] for line in lines(panels(recipe_chart(table))[2])]
    assert found == [
        values
        for entry in table.entries
        for values in (
            [entry.loss.median, entry.loss.worst],
            [entry.loss.worst],
            [entry.loss.median],
        )
    ]


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_more_bits_are_further_right_and_named_below(names: list[str]) -> None:
    table = story(names, LAYERS[5])
    axes = panels(recipe_chart(table))[2]
    places = [data(line)[0][0] for line in lines(axes)[2::3]]
    assert places == sorted(places)
    assert len({*places}) == len(places)
    ticks = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert ticks == pytest.approx(sorted({entry.bits for entry in table.entries}), abs=0.005)
    for entry, place in zip(table.entries, places, strict=True):
        nearest = min(axes.get_xticks(), key=lambda tick: abs(tick - place))
        same = [each for each in table.entries if each.bits == entry.bits]
        if len(same) == 1:
            assert place == pytest.approx(nearest)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_recipe_looks_alike_in_all_panels_and_unlike_all_others(names: list[str]) -> None:
    figure = recipe_chart(story(names, LAYERS[5]))
    loss, underflow, _ = panels(figure)
    looks = [look(line) for line in lines(loss)]
    assert [look(line) for line in lines(underflow)] == looks
    assert len({*looks}) == len({each[1:] for each in looks}) == len(names)
    samples = {look(line) for line in beside(figure) if line.get_marker() != "None"}
    assert samples == {*looks}


@pytest.mark.parametrize("layers", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("zeros", [False, True])
def test_no_label_covers_another_or_leaves_the_picture(
    names: list[str], layers: tuple[int, ...], zeros: bool
) -> None:
    figure = recipe_chart(story(names, layers, zeros=zeros))
    figure.canvas.draw()
    assert sorted(names_of(figure)) == sorted(names)
    words = list(figure.texts)
    for axes in figure.axes:
        words += [axes.title, axes.xaxis.label, axes.yaxis.label]
        words += [*axes.get_xticklabels(), *axes.get_yticklabels()]
    boxes = [(word.get_text(), word.get_window_extent()) for word in words if word.get_text()]
    for _, box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    for (one, box), (other, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), (one, other)


def test_a_name_stands_as_near_to_its_point_as_others_let_it() -> None:
    table = story(["mx-e2m1", "ling"], LAYERS[5])
    figure = recipe_chart(table)
    axes = panels(figure)[2]
    for entry in table.entries:
        (text,) = [text for text in figure.texts if text.get_text() == entry.recipe]
        _, wanted = axes.transData.transform((1.0, entry.loss.median))
        at = text.get_position()[1] * figure.bbox.height
        assert at == pytest.approx(wanted, abs=1e-6 * figure.bbox.height)


def test_zeros_are_at_the_foot_of_the_axis_and_named() -> None:
    axes = panels(recipe_chart(story(NAMES[2], LAYERS[5], zeros=True)))[1]
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylim()[0] == 0
    assert "0" in [label.get_text() for label in axes.get_yticklabels()]


def test_nothing_lost_at_all_is_drawn_too() -> None:
    nothing = Losses((0.0, 0.0))
    entries = tuple(Entry(name, "1x128", 8.25, nothing, nothing) for name in ("a", "b"))
    figure = recipe_chart(Tradeoff("outputs", "cosine_loss", (0, 1), entries))
    assert all(axes.get_ylim()[0] == 0 for axes in figure.axes)
    assert names_of(figure) == ["a", "b"] or names_of(figure) == ["b", "a"]


def test_what_has_no_value_has_a_gap_and_still_a_name() -> None:
    table = story(NAMES[1], LAYERS[5])
    missing = Losses((math.nan,) * 5)
    entries = (Entry("none", "1x128", 8.25, missing, missing), *table.entries)
    figure = recipe_chart(Tradeoff("outputs", "distortion_loss", LAYERS[5], entries))
    figure.canvas.draw()
    assert sorted(names_of(figure)) == sorted(["none", *NAMES[1]])
    threads = [line for line in beside(figure) if line.get_marker() == "None"]
    assert len(threads) == 2


def test_layers_that_are_few_have_their_own_ticks() -> None:
    axes = panels(recipe_chart(story(NAMES[1], LAYERS[5])))[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "4", "8", "12", "16"]
    axes = panels(recipe_chart(story(NAMES[1], (0, 1, 60))))[0]
    assert "1" not in [label.get_text() for label in axes.get_xticklabels()]


def test_a_long_name_is_cut_in_the_middle_and_has_no_mathematics() -> None:
    long = "float8_e4m3fn:1x128:float32:rounding=stochastic:seed=18446744073709551615"
    losses = Losses((0.5,))
    entries = tuple(Entry(name, "1x128", 8.25, losses, losses) for name in (long, "a$b$c"))
    found = names_of(recipe_chart(Tradeoff("outputs", "distortion_loss", (0,), entries)))
    assert r"a\$b\$c" in found
    (cut,) = [name for name in found if "…" in name]
    assert (cut[:20], cut[-20:], len(cut)) == (long[:20], long[-20:], 48)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_table_gives_the_same_file(suffix: Any) -> None:
    one, other = (
        render(recipe_chart(story(NAMES[2], LAYERS[5]), style="paper", dpi=50), suffix)
        for _ in range(2)
    )
    assert one == other


# Where things stand.


@given(
    st.lists(st.tuples(st.floats(-5, 15), st.floats(0.01, 0.3)), min_size=1, max_size=30),
)
def test_nothing_covers_its_neighbour(things: list[tuple[float, float]]) -> None:
    wanted, sizes = sorted(at for at, _ in things), [size for _, size in things]
    found = apart(wanted, sizes, 0.0, 10.0)
    ends = [(at - size / 2, at + size / 2) for at, size in zip(found, sizes, strict=True)]
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(ends))
    assert ends[0][0] >= -1e-9
    assert ends[-1][1] <= 10 + 1e-9


def test_what_has_room_stays_where_it_belongs_and_others_share() -> None:
    assert apart([1.0, 5.0], [0.5, 0.5], 0, 10) == [1.0, 5.0]
    assert apart([5.0, 5.0], [1.0, 1.0], 0, 10) == [4.5, 5.5]
    assert apart([0.0, 9.0, 10.0], [1.0, 1.0, 1.0], 0, 10) == pytest.approx([0.5, 8.5, 9.5])


@given(st.lists(st.sampled_from([4.0, 4.25, 4.5, 6.25, 8, 8.0625, 8.25, 8.5]), min_size=2))
def test_points_keep_to_their_group(bits: list[float]) -> None:
    places, groups = groups_of(bits, 3.7)
    known = sorted(set(bits))
    for value, place in zip(bits, places, strict=True):
        low, high = groups[known.index(value)].span
        assert low <= place <= high
    spans = [group.span for group in groups]
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(spans))
    assert spans[0][0] >= -1e-9
    assert spans[-1][1] <= 3.7 + 1e-9
    assert len({*places}) == len(bits)


def test_numbers_of_bits_that_are_nearly_the_same_are_told_apart() -> None:
    _, groups = groups_of([8.0, 8.001953125, 8.25], 3.7)
    assert [group.label for group in groups] == ["8", "8.002", "8.25"]
