"""`numscope advise`: for each layer and kind the cheapest recipe that would have been fine."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numscope.commands.answering import answering
from numscope.commands.reading import reading
from numscope.commands.rows import chosen_rows
from numscope.options import Command, LocalPath, choosing, results_argument, verbosity

if TYPE_CHECKING:
    from numscope.advice import Per, Trial
    from numscope.ranges import Ranges
    from numscope.results import Results


@click.command(cls=Command)
@results_argument
@click.option(
    "--tolerance",
    default="distortion>=0.999,underflow<=0.001",
    show_default=True,
    metavar="RULES",
    help="What a recipe must keep: rules as of `check`, with commas between them.",
)
@click.option(
    "--per",
    type=click.Choice(["step", "run"]),
    default="step",
    show_default=True,
    help="What must keep it: every step, or the whole run, that is all its steps merged.",
)
@choosing
@click.option(
    "-o",
    "--out",
    type=LocalPath(),
    metavar="FILE.csv",
    help="The table, advise.csv in RESULTS by default.",
)
@click.option("--json", "as_json", is_flag=True, help="Answer as a JSON list, for scripts.")
@verbosity(
    quiet="Say nothing but errors, and what --json asks for.",
    verbose="Show each layer apart.",
)
def advise(
    results: Path,
    tolerance: str,
    per: Per,
    layers: Ranges | None,
    kinds: tuple[str, ...] | None,
    module: str | None,
    out: Path | None,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Find, for each layer and kind, the cheapest recipe in RESULTS that keeps a tolerance.

    Cheapest is by bits per value with its share of the scales. Of equally cheap recipes it is the
    one that is best by the first rule, then by the next. Where none keeps the tolerance, the
    nearest one is named, and by how much it misses. A recipe that turns finite values into
    infinities or NaN keeps none, unless a rule is about overflow. With --verbose every layer has a
    line of its own.

    \b
    Examples:
      numscope advise
      numscope advise results --tolerance 'distortion>=0.999,underflow<=0.001'
      numscope advise results --tolerance 'sqnr_db[gradient transpose]>=20' --per run --layers 0-16
    """
    from numscope import advice, console, json_text, recipe_tables, writing
    from numscope.results import ADVICE
    from numscope.rules import parse_all
    from numscope.standings import standings

    folder = reading(results, quiet=quiet)
    written = folder.beside_tables(out, ADVICE)
    rows, tiles = chosen_rows(folder, module=module, kinds=kinds, layers=layers)
    chosen = [row for row in rows if layers is None or row.layer in layers]
    rules = parse_all(tolerance, sorted({row.recipe for row in chosen}))
    tried = advice.trials(standings(chosen, tiles), rules, per)
    found = advice.by_layer(tried)
    writing.write_text(written, advice.to_csv(found))
    if as_json:
        click.echo(json_text.text([advice.to_json(each) for each in found], indent=2))
    elif not quiet:
        with answering() as answer:
            held = "at every step" if per == "step" else "over the whole run"
            console.print_plain(answer, f"{held}: {', '.join(rule.text for rule in rules)}")
            metrics = [rule.metric for rule in rules]
            recipe_tables.print_advice(answer, found, metrics, is_long=verbose)
            recipe_tables.print_uniform(answer, advice.by_kind(tried))
            console.print_written(answer, [written])
    if not quiet:
        _suggest_more(folder, tried)


def _suggest_more(folder: Results, tried: list[Trial]) -> None:
    """Say how to have a choice where there was none."""
    recipes = {trial.recipe for trial in tried}
    if len(recipes) == 1:
        command = shlex.join(["numscope", *_made_by(folder), "--recipes", "all"])
        click.echo(f"only {recipes.pop()} was measured; for a choice: {command}", err=True)


def _made_by(folder: Results) -> list[str]:
    """The words of the command that made the results, as one run where it was a shard of one."""
    facts = folder.run_facts()
    command = facts.get("command")
    if not isinstance(command, list) or command[:1] != ["analyze"]:
        dump = str(facts.get("dump", "DUMP_DIR"))
        return ["analyze", dump, "--out", str(folder.folder)]
    words = iter(map(str, command))
    kept = []
    for word in words:
        if word == "--shard":
            next(words, None)
        elif not word.startswith("--shard="):
            kept.append(word)
    return kept
