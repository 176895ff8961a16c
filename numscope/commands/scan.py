"""`numscope scan`: what a dump holds and how it was understood."""
# ruff: noqa: D301, PLC0415 (click reads `\b` as a character: what follows is not wrapped)

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from numscope.commands.answering import answering
from numscope.commands.ending import exit_code_of
from numscope.commands.working import scanned, working
from numscope.errors import NothingToDo
from numscope.options import Command, DumpPlace, reading, verbosity


@click.command(cls=Command)
@click.argument("dump", type=DumpPlace())
@reading
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Answer as JSON, for scripts.",
)
@click.option(
    "--list",
    "has_tensors",
    is_flag=True,
    help="Every tensor, a line or object each.",
)
@verbosity(
    quiet="Say nothing but the answer and errors.",
    verbose="Say every remark and error, however many are alike.",
)
def scan(
    dump: str,
    *,
    as_json: bool,
    has_tensors: bool,
    quiet: bool,
    verbose: bool,
    **scan_options: Any,
) -> None:
    """Show what a folder of dumps holds and how it was understood; nothing is computed.

    \b
    Examples:
      numscope scan dumps/
      numscope scan dumps/step_000120.safetensors --list
      numscope scan dumps/ --layers-per-stage 9 --layer-offset transformer_engine=-1
      numscope scan dumps/ --pattern 'run/{step}/L{layer}_{kind}.npy' --json
    """
    from numscope import console, inventory, json_text
    from numscope.growing import Growing

    with working(quiet=quiet, verbose=verbose) as (log, _):
        found = scanned(log, dump, **scan_options)
        found = replace(found, problems=tuple(Growing(found).settled()))
        log.problems(found.problems)
        with answering() as answer:
            if as_json:
                facts = inventory.scan_json(found, has_tensors=has_tensors)
                click.echo(json_text.text(facts, indent=2))
            elif has_tensors:
                for line in inventory.tensor_lines(found):
                    click.echo(line)
            elif found.refs:
                console.print_table(answer, inventory.scan_table(found))
        if not found.refs:
            raise NothingToDo(f"no tensor was found in {dump}")
        raise click.exceptions.Exit(exit_code_of(found.problems))
