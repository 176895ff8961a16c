"""All the charts of a run as files' names and contents: what goes into the charts folder.

From the rows of layers.csv by way of `series` and `charts`. Nothing here writes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from numscope import caches, series, tradeoffs, views
from numscope.recipe_folders import folder_name, folder_names
from numscope.series import Distortion, Series, ZeroRows

if TYPE_CHECKING:
    from numscope.axes import YScale
    from numscope.charts import Mark
    from numscope.comparison import Run
    from numscope.findings import Finding
    from numscope.styles import Format
    from numscope.tables import LayerRow
    from numscope.tradeoffs import Tradeoff

T = TypeVar("T")

#: The columns of layers.csv that charts show, a row of the overview each.
METRICS = ("underflow", "distortion")


def tables_of(
    rows: Iterable[LayerRow],
    *,
    distortion: Distortion = "distortion",
    zero_rows: ZeroRows = "skip",
    tiles: Mapping[str, str] | None = None,
) -> list[Series]:
    """The wide tables behind all charts.

    Parameters
    ----------
    rows
        Of layers.csv.
    distortion
        Which cosine the second row of charts shows: the mean over tokens, or that of whole tensors.
    zero_rows
        How rows of zeros enter that mean, see `series`.
    tiles
        The recipes' own tiles, see `series.turned_tiles`.
    """
    return series.series(rows, (METRICS[0], distortion), zero_rows=zero_rows, tiles=tiles)


def folders_of(recipes: Iterable[str]) -> dict[str, str]:
    """Where in the charts folder each recipe's charts are: of several, each has a folder."""
    names = folder_names(recipes)
    return {label: f"{name}/" if len(names) > 1 else "" for label, name in names.items()}


def of_module(module: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of these modules' charts, in a folder beside the run's own."""
    return {f"module-{folder_name(module)}/{name}": content for name, content in files.items()}


def chart_files(
    tables: Sequence[Series],
    *,
    folders: Mapping[str, str] | None = None,
    layers: Collection[int] | None = None,
    suffix: Format = "png",
    yscale: YScale = "linear",
    smooth: int = 1,
    is_loss: bool = False,
    findings: Sequence[Finding] = (),
    **look: Any,
) -> dict[str, bytes]:
    """Each chart's table and picture, and each recipe's overview, by name in the charts folder.

    A table has what its picture shows: the layers that are drawn, and of smoothed lines the values.

    Parameters
    ----------
    tables
        As from `tables_of`.
    folders
        By recipe, what the names of its files begin with; as `folders_of` has it unless given.
    layers, suffix, yscale
        Which layers are drawn, all if `None`; the pictures' format; the scale of their y axes.
    smooth
        Lines are medians of so many points, with the values faintly behind them.
    is_loss
        Whether to draw 1 − distortion, on a logarithmic axis.
    findings
        What to mark, by its place in this list, from 1.
    look
        `xscale`, `style` and `dpi`, as for `charts.chart`.
    """
    caches.prepare_matplotlib()
    from numscope import charts  # noqa: PLC0415 (matplotlib: only when something is drawn)

    files: dict[str, bytes] = {}
    options: dict[str, Any] = {"layers": layers, "yscale": yscale, **look}
    folders = folders or folders_of(table.recipe for table in tables)
    for label in dict.fromkeys(table.recipe for table in tables):
        folder = folders[label]
        own = [table for table in tables if table.recipe == label]
        whole = [views.loss(table) if is_loss else table for table in own]
        drawn = [views.smoothed(table, smooth) for table in whole] if smooth > 1 else whole
        extras: dict[str, Sequence[Any]] = {}
        if smooth > 1:
            extras["raw"] = whole
        if findings:
            pairs = zip(own, whole, strict=True)
            extras["marks"] = [marks_of(findings, *pair, layers) for pair in pairs]
        for i, table in enumerate(drawn):
            shown = views.selected(whole[i], layers)
            files[f"{folder}{table.name}.csv"] = series.to_csv(shown).encode()
            extra: dict[str, Any] = {key: each[i] for key, each in extras.items()}
            figure = charts.chart(table, **options, **extra)
            files[f"{folder}{table.name}.{suffix}"] = charts.render(figure, suffix)
        extra = {key: _by_metric(own, each) for key, each in extras.items()}
        figure = charts.overview(_by_metric(own, drawn), **options, **extra)
        files[f"{folder}overview.{suffix}"] = charts.render(figure, suffix)
    return files


def heatmap_files(
    tables: Sequence[Series],
    sort: Literal["heatmap", "layers"],
    *,
    folders: Mapping[str, str] | None = None,
    layers: Collection[int] | None = None,
    suffix: Format = "png",
    is_loss: bool = False,
    **look: Any,
) -> dict[str, bytes]:
    """Each chart as a heatmap, or as small charts of a layer each, by name in the charts folder.

    `folders` is as for `chart_files`, and `look` as for `heatmaps.heatmap`.
    """
    caches.prepare_matplotlib()
    from numscope import heatmaps  # noqa: PLC0415 (matplotlib: only when something is drawn)
    from numscope.styles import render  # noqa: PLC0415

    draw = heatmaps.heatmap if sort == "heatmap" else heatmaps.multiples
    folders = folders or folders_of(table.recipe for table in tables)
    files = {}
    for table in tables:
        chosen = views.selected(views.loss(table) if is_loss else table, layers)
        files[f"{folders[table.recipe]}{chosen.name}_{sort}.{suffix}"] = render(
            draw(chosen, **look), suffix
        )
    return files


def tradeoff_files(
    tables: Sequence[Tradeoff], *, suffix: Format = "png", **look: Any
) -> dict[str, bytes]:
    """Each kind's table and picture of recipes side by side, by name in the charts folder.

    A table has what its picture shows: the layers that it was made of, and their median.

    `look` is `style` and `dpi`, as for `recipe_charts.recipe_chart`.
    """
    if not tables:
        return {}
    caches.prepare_matplotlib()
    from numscope.recipe_charts import recipe_chart  # noqa: PLC0415 (matplotlib, as above)
    from numscope.styles import render  # noqa: PLC0415

    files = {}
    for table in tables:
        files[f"{table.name}.csv"] = tradeoffs.to_csv(table).encode()
        files[f"{table.name}.{suffix}"] = render(recipe_chart(table, **look), suffix)
    return files


def comparison_files(runs: Sequence[Run], *, suffix: Format = "png") -> dict[str, bytes]:
    """Each chart of the first run with the same charts of the others beside it, by name.

    What no other run has stands beside nothing, and is left out.
    """
    caches.prepare_matplotlib()
    from numscope import charts  # noqa: PLC0415

    files = {}
    for table in runs[0].tables:
        alike = {
            run.name: other
            for run in runs
            for other in run.tables
            if (other.subject, other.metric) == (table.subject, table.metric)
        }
        if len(alike) < 2:
            continue
        name = f"{table.subject} {table.metric}".replace(" ", "_")
        figure = charts.side_by_side(list(alike.values()), list(alike))
        files[f"{name}.{suffix}"] = charts.render(figure, suffix)
    return files


def marks_of(
    findings: Sequence[Finding],
    table: Series,
    drawn: Series,
    layers: Collection[int] | None = None,
) -> list[Mark]:
    """Where in a chart the findings about it are: by their place in the list, from 1.

    Parameters
    ----------
    findings
        Those without a place of their own, such as a depth trend, are not marked.
    table
        What the findings are about.
    drawn
        What is shown of it: the same layers and x.
    layers
        Which layers are shown, all if `None`.
    """
    from numscope.charts import Mark  # noqa: PLC0415

    marks = []
    for number, each in enumerate(findings, start=1):
        x = each.tokens if table.x_name == "tokens" else each.step
        is_here = (each.recipe, each.chart) == (table.recipe, table.title)
        if not is_here or x not in table.x or each.layer not in table.layers:
            continue
        y = drawn.values[table.x.index(x)][table.layers.index(each.layer)]
        if math.isfinite(y) and (layers is None or each.layer in layers):
            marks.append(Mark(number, x, y))
    return marks


def _by_metric(tables: Sequence[Series], theirs: Sequence[T]) -> list[T]:
    """What belongs to each of the tables, those of the first metric before all others."""
    order = sorted(range(len(tables)), key=lambda i: tables[i].metric != METRICS[0])
    return [theirs[i] for i in order]
