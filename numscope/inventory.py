"""What `numscope scan` answers with: a screen per layout, a line per tensor, or JSON for scripts.

Everything shown comes from a `Scan` and its summary. Nothing here reads a dump.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from numscope import amounts
from numscope.console import grid, literal
from numscope.dumps.summaries import KindSummary, LayoutSummary, summarize
from numscope.plans import DEFAULT_KINDS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from numscope.dumps.refs import Problem, Scan, TensorRef

_MOST_SHAPES = 3


def scan_table(scan: Scan, analysed: Collection[str] = DEFAULT_KINDS) -> RenderableType:
    """What a dump folder holds, per layout: how much, of what, and what `analyze` will take.

    Parameters
    ----------
    scan
        Its problems are not shown; see `console.print_problems`.
    analysed
        The kinds that are analysed unless others are asked for.
    """
    files, tensors = amounts.counted(scan.files, "file"), amounts.counted(len(scan), "tensor")
    head = Text(f"{files}, {amounts.size(scan.bytes)}, {tensors}")
    blocks: list[RenderableType] = [head]
    for layout in summarize(scan):
        blocks += [Text(), _layout(layout, analysed)]
    return Group(*blocks)


def tensor_lines(scan: Scan) -> Iterator[str]:
    """A line per tensor, its parts separated by tabs: what it is, its form, and where it is."""
    yield "step\tlayer\tkind\tmodule\tshape\tdtype\tlayout\ttensor"
    for ref in scan:
        yield "\t".join(
            (
                _or_dash(ref.step),
                _or_dash(ref.layer),
                ref.kind or "-",
                literal(ref.module) or "-",
                _shape(ref.shape),
                ref.dtype,
                ref.layout,
                literal(ref.name),
            )
        )


def scan_json(
    scan: Scan, *, has_tensors: bool = False, analysed: Collection[str] = DEFAULT_KINDS
) -> dict[str, Any]:
    """The same as `scan_table` as plain values, with every tensor if asked for.

    Keys: root, files, bytes, tensors (a count), analysed (kinds), layouts, problems, and
    tensor_list.
    """
    answer: dict[str, Any] = {
        "root": scan.root,
        "files": scan.files,
        "bytes": scan.bytes,
        "tensors": len(scan),
        "analysed": list(analysed),
        "layouts": [asdict(layout) for layout in summarize(scan)],
        "problems": [_problem(problem) for problem in scan.problems],
    }
    if has_tensors:
        answer["tensor_list"] = [_tensor(ref) for ref in scan]
    return answer


def _layout(layout: LayoutSummary, analysed: Collection[str]) -> Table:
    facts = {
        "layout": layout.layout,
        "written by": layout.description.partition(":")[0],
        "files": f"{layout.files:,}",
        "tensors": f"{layout.tensors:,}, {amounts.size(layout.bytes)}",
        "layers": _named(layout.layers, layout.unnamed["layer"]),
        "steps": _named(layout.steps, layout.unnamed["step"]),
        "tokens": _token_range(layout.tokens),
        "ranks": _named(layout.ranks, layout.unnamed["rank"]),
        "micro-batches": _named(layout.microbatches, layout.unnamed["microbatch"]),
    }
    for kind in layout.kinds:
        facts[kind.kind or "of no known kind"] = f"{_what(kind)}; {_plan(kind.kind, analysed)}"
    table = grid(has_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for fact, value in facts.items():
        if value:
            table.add_row(fact, Text(value))
    return table


def _plan(kind: str | None, analysed: Collection[str]) -> str:
    if kind is None:
        return "not analysed"
    return "analysed" if kind in analysed else f"not analysed, ask with --kinds {kind}"


def _what(kind: KindSummary) -> str:
    dtypes = ", ".join(sorted({dtype for _, dtype, _ in kind.forms}))
    return f"{amounts.counted(kind.tensors, 'tensor')} {_shapes(kind)} {dtypes}"


def _shapes(kind: KindSummary) -> str:
    shapes = list(dict.fromkeys(shape for shape, _, _ in kind.forms))
    text = ", ".join(_shape(shape) for shape in shapes[:_MOST_SHAPES])
    more = len(shapes) - _MOST_SHAPES
    return f"{text} and {more} more" if more > 0 else text


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _named(numbers: Sequence[int], missing: int) -> str:
    if not numbers:
        return "not named"
    without = f"; {amounts.counted(missing, 'tensor')} without" if missing else ""
    return amounts.span(numbers) + without


def _token_range(counts: Sequence[int]) -> str:
    if not counts:
        return "not named"
    first, last = counts[0], counts[-1]
    return amounts.tokens(first) + (f" to {amounts.tokens(last)}" if last > first else "")


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _tensor(ref: TensorRef) -> dict[str, Any]:
    facts = asdict(ref)
    del facts["root"]
    return facts


def _problem(problem: Problem) -> dict[str, Any]:
    return asdict(problem)
