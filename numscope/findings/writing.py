"""Findings in writing: findings.md, findings.csv, and objects for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numscope import json_text
from numscope.findings.finding import COLUMNS, SILENT, Finding
from numscope.findings.worst import sentence
from numscope.tables import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numscope.series import Series

#: Sentences of these kinds begin with no name.
_ABOUT_ALL = {"common moment", *SILENT}
_NOTHING = "There is nothing to chart."


def text(findings: Sequence[Finding], tables: Sequence[Series]) -> str:
    """findings.md: what stands out, ranked, then each chart's worst point; by recipe if several."""
    recipes = list(dict.fromkeys(table.recipe for table in tables))
    lines = ["# Findings", ""]
    numbered = enumerate(findings, start=1)
    lines += [f"{i}. {named(each, has_recipe=len(recipes) > 1)}" for i, each in numbered]
    if not tables:
        return "\n".join([*lines, _NOTHING, ""])
    for recipe in recipes:
        heading = f"## Worst points{f', {recipe}' if len(recipes) > 1 else ''}"
        own = [f"- {sentence(table)}" for table in tables if table.recipe == recipe]
        lines += ["", heading, "", *own]
    return "\n".join(lines) + "\n"


def to_csv(findings: Sequence[Finding]) -> str:
    """findings.csv: a line per finding, empty where there is no number; lists joined by `;`."""
    lines = (
        [
            ";".join(map(str, cell)) if isinstance(cell, list) else cell
            for cell in to_json(each).values()
        ]
        for each in findings
    )
    return csv_text([COLUMNS, *lines])


def to_json(finding: Finding) -> dict[str, Any]:
    """The finding as an object for JSON; `null` where there is no number."""
    return {name: _plain(getattr(finding, name)) for name in COLUMNS}


def named(finding: Finding, *, has_recipe: bool) -> str:
    """The sentence as one that stands alone, with the recipe before it if there are several."""
    words = finding.sentence
    if has_recipe:
        return f"{finding.recipe}: {words}"
    return words[:1].upper() + words[1:] if finding.kind in _ABOUT_ALL else words


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return json_text.number(value) if isinstance(value, float) else value
