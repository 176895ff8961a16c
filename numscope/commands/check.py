"""`numscope check`: whether the results keep some rules, by the exit code too."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.errors import UsageError
from numscope.options import Command, LocalPath, verbosity

if TYPE_CHECKING:
    from numscope.rules import Outcome
    from numscope.series import XName
    from numscope.tables import LayerRow

FAILED = 1


@click.command(cls=Command)
@click.argument("results", type=LocalPath())
@click.argument("rules", nargs=-1)
@click.option(
    "--file",
    "files",
    type=LocalPath(),
    multiple=True,
    metavar="FILE.toml",
    help='A file with rules = ["underflow<0.01", ...]; can be repeated.',
)
@click.option("--json", "as_json", is_flag=True, help="Answer as a JSON list, an object per rule.")
@verbosity(
    quiet="Say nothing but which rules fail, and errors.",
    verbose="Say which rules are kept, too.",
)
@click.pass_context
def check(
    ctx: click.Context,
    /,
    results: Path,
    rules: Sequence[str],
    files: Sequence[Path],
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Check that RESULTS keep RULES: the exit code is 1 if any of them fails.

    A rule compares a column of layers.csv with a number, in all its rows or in those of the kind,
    tile, layers or recipe that stand in brackets. A rule that matches nothing is wrong usage.

    \b
    Examples:
      numscope check results 'underflow<0.01' 'distortion[gradient,128x1]>0.98'
      numscope check results 'saturated<=0' 'sqnr_db[activation,layers 0-4]>25' --json
      numscope check results --file rules.toml
    """
    from numscope import amounts, console, json_text
    from numscope import rules as checking
    from numscope.series import x_name_of

    rows = reading(results, quiet=quiet).layer_rows()
    x_name = x_name_of(rows)
    texts = [*rules, *(text for file in files for text in checking.read(file))]
    if not texts:
        raise UsageError("there is no rule to check; give some, or a --file of them")
    recipes = sorted({row.recipe for row in rows})
    outcomes = [checking.check(checking.parse(text, recipes), rows, x_name) for text in texts]
    if as_json:
        click.echo(json_text.text([_as_json(each) for each in outcomes], indent=2))
    else:
        shown = outcomes if verbose else [each for each in outcomes if not each.passed]
        lines = [_line(each, x_name) for each in shown]
        passed = sum(each.passed for each in outcomes)
        total = f"{passed} of {amounts.counted(len(outcomes), 'rule')} passed"
        with answering() as answer:
            console.print_lines(answer, lines if quiet else [*lines, total])
    ctx.exit(0 if all(each.passed for each in outcomes) else FAILED)


def _line(outcome: Outcome, x_name: XName) -> str:
    """Whether a rule is kept, or else where it is broken first, and how badly at the worst."""
    from numscope import amounts

    rule = outcome.rule
    if outcome.first is None or outcome.worst is None:
        rows = amounts.counted(outcome.rows, "row")
        return f"passed: {rule.text} in {'all ' if outcome.rows > 1 else ''}{rows}"
    return (
        f"failed: {rule.text} in {outcome.failures:,} of {outcome.rows:,} rows,"
        f" first {_place(outcome.first, rule.metric, x_name)},"
        f" worst {_place(outcome.worst, rule.metric, x_name)}"
    )


def _place(row: LayerRow, metric: str, x_name: XName) -> str:
    from numscope import amounts
    from numscope.findings.finding import at

    value = amounts.metric(metric, float(getattr(row, metric)))
    layer = "no layer" if row.layer is None else f"layer {row.layer}"
    where = at(x_name, getattr(row, x_name) or 0)
    return f"{value} at {where} ({row.kind}, {row.tile}, {layer}, {row.recipe})"


def _as_json(outcome: Outcome) -> dict[str, Any]:
    metric = outcome.rule.metric
    return {
        "rule": outcome.rule.text,
        "passed": outcome.passed,
        "rows": outcome.rows,
        "failures": outcome.failures,
        "first": _row(outcome.first, metric),
        "worst": _row(outcome.worst, metric),
    }


def _row(row: LayerRow | None, metric: str) -> dict[str, Any] | None:
    from numscope import json_text

    if row is None:
        return None
    names = ("tokens", "step", "layer", "kind", "tile", "recipe")
    return {
        **{name: getattr(row, name) for name in names},
        "value": json_text.number(getattr(row, metric)),
    }
