"""Heatmaps and small multiples show every layer, and no label covers another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.collections import QuadMesh

from numscope.heatmaps import heatmap, multiples
from numscope.views import loss
from tests.stories import noise_only, tables
from tests.test_charts import axes_of, published, table, tick_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SHAPES = [(1, 1), (1, 13), (5, 1), (5, 13), (17, 2), (61, 2)]


def mesh_of(figure: Figure) -> QuadMesh:
    (mesh,) = [each for each in axes_of(figure).collections if isinstance(each, QuadMesh)]
    return mesh


def shades(mesh: QuadMesh, values: list[float]) -> list[float]:
    """Where values are on the scale of colours, from 0 to 1."""
    return [float(at) for at in np.asarray(mesh.norm(np.array(values)))]


def shown(axis: Axis) -> list[Any]:
    """The labels of the ticks that are in view."""
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label for at, label in ticks if low <= at <= high]


def words_of(axes: Axes) -> list[Any]:
    titles = [axes.title, axes._left_title]  # type: ignore[attr-defined]
    return [*titles, axes.xaxis.label, axes.yaxis.label, *shown(axes.xaxis), *shown(axes.yaxis)]


def test_a_cell_per_value_layers_upwards() -> None:
    values = [[0.1, 0.2, 0.3], [0.4, math.nan, 0.6]]
    drawn = mesh_of(heatmap(table(values, layers=[0, 4, 16]))).get_array()
    np.testing.assert_array_equal(np.ma.filled(np.ma.asarray(drawn), np.nan), np.array(values).T)


@pytest.mark.parametrize(("metric", "dark"), [("underflow", 0.9), ("distortion", 0.1)])
def test_more_loss_is_darker(metric: str, dark: float) -> None:
    mesh = mesh_of(heatmap(table([[0.1], [0.9]], metric=metric)))
    brightness = [sum(mesh.cmap(at)[:3]) for at in shades(mesh, [0.1, 0.9])]
    assert [0.1, 0.9][int(np.argmin(brightness))] == dark


def test_the_loss_has_a_logarithmic_scale() -> None:
    mesh = mesh_of(heatmap(loss(table([[0.9], [0.99], [1.0]], metric="distortion"))))
    np.testing.assert_allclose(shades(mesh, [0.01, 0.1]), [0, 1], atol=1e-12)


@pytest.mark.parametrize("layers", [1, 5, 61])
def test_some_layers_are_named(layers: int) -> None:
    names = tick_texts(axes_of(heatmap(tables(noise_only(0, layers=layers))[0])))[1]
    assert names[0] == "0"
    assert 1 <= len(names) <= 13


def test_small_multiples_have_a_chart_per_layer_of_one_scale() -> None:
    figure = multiples(published(61, 13)[1])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"layer {layer}" for layer in range(61)]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


@pytest.mark.parametrize("draw", [heatmap, multiples])
@pytest.mark.parametrize(("layers", "points"), SHAPES)
def test_no_label_covers_another(draw: Callable[..., Figure], layers: int, points: int) -> None:
    for each in published(layers, points)[layers > 20 :]:
        figure = draw(each)
        figure.draw_without_rendering()
        around = (figure._suptitle, figure._supxlabel, figure._supylabel)  # type: ignore[attr-defined]
        words = [*around, *(word for axes in figure.axes for word in words_of(axes))]
        boxes = [word.get_window_extent() for word in words if word and word.get_text()]
        for box in boxes:
            assert figure.bbox.x0 <= box.x0
            assert box.x1 <= figure.bbox.x1 + 1
            assert figure.bbox.y0 <= box.y0
            assert box.y1 <= figure.bbox.y1
        for one, other in itertools.combinations(boxes, 2):
            assert not one.overlaps(other)


@pytest.mark.parametrize("draw", [heatmap, multiples])
def test_nothing_to_draw_is_no_error(draw: Callable[..., Figure]) -> None:
    draw(table([[math.nan, math.nan]]))
