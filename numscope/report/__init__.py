"""The report: charts, findings, heatmaps and tables of a run as one page that needs nothing else.

Text from dumps is data: it goes into the page as JSON and is shown as text, never as markup. The
page's behaviour is in `page.js`, its looks in `page.css`. Nothing here reads results or writes.
"""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from statistics import median
from typing import TYPE_CHECKING, Any

from numscope import amounts, json_text
from numscope.authorship import MAKER
from numscope.errors import MissingExtra
from numscope.findings import to_json, worst
from numscope.findings.finding import worse
from numscope.palette import colours
from numscope.views import selected

if TYPE_CHECKING:
    from numscope.findings import Finding
    from numscope.series import Series

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="{maker}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<script type="application/json" id="data">{data}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""

#: What the charts show and the words of the recipes, for a reader who has only the page.
DEFINITIONS = {
    "underflow": "count(x ≠ 0 and y = 0) / count: the share that the quantizer turned into zero",
    "distortion": "mean over the rows (tokens) of the cosine between x and y: 1 is perfect; a"
    " flushed row counts 0, a row that was zero before is left out",
    "x, y": "a tensor's value, and what it is after quantization: element × scale",
    "element": "the low-precision code that is stored per value",
    "tile": "the values that share one scale, rows × columns; * is the whole axis",
    "scale": "the factor that turns an element into a value",
    "gradient transpose": "the gradient quantized with the recipe's tile turned: what the weight"
    " gradient's product consumes",
    "noise": "1.4826 times the median absolute deviation from the usual value, by which findings"
    " are judged",
}


def page(
    tables: Sequence[Series],
    findings: Sequence[Finding],
    run: Mapping[str, Any],
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """The page, as HTML.

    Parameters
    ----------
    tables
        The charts' tables, of one or several recipes.
    findings
        What stands out in them, ranked.
    run
        What run.json says; shown as it is.
    pictures
        PNG files of recipes side by side, by what they show.

    Raises
    ------
    MissingExtra
        Without the package plotly, whose plotly.js draws the charts.
    """
    title = f"numscope: {run.get('dump', 'report')}"
    parts = resources.files("numscope.report")
    content = {
        "title": title,
        "charts": [_chart(table) for table in tables],
        "colours": _colours(tables),
        "findings": [to_json(each) for each in findings],
        "layers": _layer_table(tables),
        "definitions": DEFINITIONS,
        "run": run,
        "pictures": [
            {"of": name, "src": f"data:image/png;base64,{base64.b64encode(content).decode()}"}
            for name, content in (pictures or {}).items()
        ],
    }
    return _PAGE.format(
        title=html.escape(title),
        maker=MAKER,
        style=(parts / "page.css").read_text(encoding="utf-8"),
        data=_json(content),
        library=_plotly(),
        script=(parts / "page.js").read_text(encoding="utf-8"),
    )


def _plotly() -> str:
    """plotly.js, whole."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 (an extra)
    except ImportError:
        raise MissingExtra("a report needs plotly: pip install 'numscope[report]'") from None
    return str(get_plotlyjs()).replace("</script", r"<\/script")


def _chart(table: Series) -> dict[str, Any]:
    """A chart's numbers and words, columns first, `null` where there is no value."""
    return {
        "recipe": table.recipe,
        "title": table.title,
        "metric": table.metric,
        "label": table.metric.replace("_", " "),
        "worse": worse(table.metric),
        "x_name": table.x_name,
        "x": table.x,
        "layers": table.layers,
        "values": [
            [json_text.number(value) for value in table.column(layer)] for layer in table.layers
        ],
    }


def _colours(tables: Sequence[Series]) -> dict[str, str]:
    layers = sorted({layer for table in tables for layer in table.layers})
    return {str(layer): shade for layer, shade in zip(layers, colours(len(layers)), strict=True)}


def _layer_table(tables: Sequence[Series]) -> list[dict[str, Any]]:
    """Per chart and layer its median, its worst value, and where that is."""
    rows = []
    for table in tables:
        for layer in table.layers:
            known = [value for value in table.column(layer) if not math.isnan(value)]
            point = worst(selected(table, {layer}))
            if not known or point is None:
                continue
            rows.append(
                {
                    "recipe": table.recipe,
                    "chart": table.title,
                    "layer": layer,
                    "points": len(known),
                    "median": json_text.number(median(known)),
                    "worst": json_text.number(point.value),
                    "at": point.x,
                    "at_text": amounts.tokens(point.x)
                    if table.x_name == "tokens"
                    else f"step {point.x:,}",
                }
            )
    return rows


def _json(content: Any) -> str:
    """JSON that cannot end the script it stands in."""
    plain = json_text.text(content)
    return plain.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
