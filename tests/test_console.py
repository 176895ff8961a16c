"""What a terminal, a narrow one and a pipe are shown."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from numscope.console import print_findings, print_problems, print_written, summary
from numscope.dumps.refs import Kind, Problem, Scan, TensorRef
from numscope.findings import Finding
from numscope.inventory import scan_table, tensor_lines
from numscope.series import Series, XName


def terminal(width: int = 80, encoding: str = "utf-8", *, is_piped: bool = True) -> Console:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    return Console(
        file=file,
        width=width,
        force_terminal=not is_piped,
        color_system=None if is_piped else "standard",
        _environ={},
    )


def shown(console: Console) -> list[str]:
    """The lines that were printed, without blanks at their ends."""
    console.file.seek(0)
    return [line.rstrip() for line in console.file.read().splitlines()]


def table(
    metric: str, *values: tuple[float, ...], x_name: XName = "tokens", recipe: str = "ling"
) -> Series:
    return Series(
        subject="gradient transpose",
        metric=metric,
        recipe=recipe,
        tile="128x1",
        x_name=x_name,
        x=tuple(30_720 * i for i in range(len(values))),
        layers=(0, 16),
        values=values,
    )


def ref(step: int, kind: Kind | None, *, layer: int | None = 4, layout: str = "hooks") -> TensorRef:
    return TensorRef(
        root="dumps",
        path=f"step_{step:06}.safetensors",
        key=(f"layers.{layer}.{kind}",),
        shape=(1, 128, 256),
        dtype="bfloat16",
        kind=kind,
        layer=layer,
        step=step,
        tokens=512 * step,
        layout=layout,
    )


def test_the_summary_names_the_worst_layer_its_value_and_where() -> None:
    console = terminal()
    console.print(
        summary(
            [
                table("underflow", (0.0, 0.000152587890625), (0.00001, 0.0)),
                table("distortion", (1.0, 0.9996), (0.9, 0.63652847)),
            ]
        )
    )
    assert [line.split() for line in shown(console)] == [
        ["chart", "layer", "worst", "tokens"],
        ["gradient", "transpose", "underflow", "(128,1)", "16", "0.0001526", "0"],
        ["gradient", "transpose", "distortion", "(128,1)", "16", "0.6365", "30.72", "K"],
    ]


def test_the_summary_says_when_nothing_is_lost_and_when_there_are_no_data() -> None:
    console = terminal()
    console.print(
        summary([table("distortion", (1.0, 1.0)), table("underflow", (math.nan, math.nan))])
    )
    assert [" ".join(line.split()[-2:]) for line in shown(console)[1:]] == ["no loss", "no data"]


def test_the_summary_counts_steps_where_tokens_are_not_known() -> None:
    console = terminal()
    console.print(summary([table("underflow", (0.1, 0.2), (0.3, 0.1), x_name="step")]))
    header, row = shown(console)
    assert header.split()[-1] == "step"
    assert row.split()[-3:] == ["0", "0.3", "30,720"]


def test_the_summary_groups_several_recipes() -> None:
    console = terminal()
    console.print(summary([table("underflow", (0.1, 0.2), recipe=name) for name in ("ling", "mx")]))
    assert [line.split()[0] for line in shown(console)] == [
        *("chart", "ling", "gradient", "mx", "gradient"),
    ]


@pytest.mark.parametrize("width", [80, 40])
def test_nothing_is_cut_off_or_fancy_in_a_plain_pipe(width: int) -> None:
    console = terminal(width, "ascii")
    console.print(summary([table("underflow", (0.0, 0.000152587890625))]))
    console.print(scan_table(Scan("dumps", (ref(0, "weight"),), files=1, bytes=70_000)))
    lines = shown(console)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert text.isascii()
    assert "\x1b" not in text
    assert "0.0001526" in text
    assert "ask with --kinds weight" in text


def test_written_paths_are_relative_where_that_is_shorter_and_suffixes_are_joined() -> None:
    console = terminal(40)
    base = Path("/home/someone/run")
    out = base / "numscope-out"
    long = "gradient_transpose_distortion_128x1"
    print_written(
        console,
        [out / "tensors.csv", *(out / "charts" / f"{long}{end}" for end in (".csv", ".png"))],
        base,
    )
    print_written(console, [Path("/data/run.json"), Path("/data/plain")], base)
    assert shown(console) == [
        "numscope-out/tensors.csv",
        f"numscope-out/charts/{long}.{{csv,png}}",
        "/data/run.json",
        "/data/plain",
    ]


def test_of_many_written_files_those_of_full_folders_are_counted() -> None:
    console = terminal(80)
    base = Path("/run")
    few = [base / "run.json", *(base / f"charts/few.{end}" for end in ("csv", "png", "svg"))]
    many = [base / f"charts/{n}/{m}.png" for n in ("a", "b") for m in range(9)]
    print_written(console, [*few, *many], base)
    assert shown(console) == [
        "run.json",
        "charts/few.{csv,png,svg}",
        *(f"charts/{n}/{m}.png" for n in ("a", "b") for m in range(9)),
    ]
    print_written(console, [*few, *many, base / "charts/b/9.png"], base)
    assert shown(console)[-4:] == [
        "run.json",
        "charts/few.{csv,png,svg}",
        "charts/a/ (9 files)",
        "charts/b/ (10 files)",
    ]


def test_a_problem_is_one_line_that_says_how_bad_it_is_and_where() -> None:
    console = terminal(40)
    problems = [
        Problem("a.safetensors", "truncated: the header promises 4096 bytes, there are 100"),
        Problem("b.npy", "'ids' is an integer tensor", failure=False),
    ]
    print_problems(console, problems)
    assert shown(console) == [
        "error: a.safetensors: truncated: the header promises 4096 bytes, there are 100",
        "warning: b.npy: 'ids' is an integer tensor",
    ]


def test_many_problems_of_one_sort_are_folded_and_others_are_not() -> None:
    console = terminal()
    alike = [Problem(f"{i}.pt", f"truncated after {i} bytes in 'layer{i}'") for i in range(1025)]
    print_problems(console, [*alike, Problem("z.npy", "no such dtype")], "out/run.json")
    lines = shown(console)
    assert len(lines) == 22
    assert lines[19] == "error: 19.pt: truncated after 19 bytes in 'layer19'"
    assert lines[20] == "error: 1,005 more like this, all listed in out/run.json"
    assert lines[21] == "error: z.npy: no such dtype"


def test_no_word_of_a_finding_is_broken_on_a_terminal_and_no_line_in_a_pipe() -> None:
    words = "gradients underflow (1,128): layer 12 peaks at 5,000 B tokens to 0.5, [b]so[/b] there"
    finding = Finding(kind="peak", recipe="ling", sentence=words)
    charts = [table("underflow", (0.1, 0.2))]
    narrow, piped = terminal(30, is_piped=False), terminal(30)
    print_findings(narrow, [finding], charts)
    print_findings(piped, [finding], charts)
    assert shown(piped) == [words]
    assert max(map(len, shown(narrow))) <= 30
    assert " ".join(shown(narrow)) == words


def test_names_from_a_dump_are_shown_literally() -> None:
    console = terminal(encoding="ascii")
    print_problems(console, [Problem("\x1b[31m[bold]\u00e9\udc80.pt", "not\nreadable")])
    assert shown(console) == [r"error: \x1b[31m[bold]\xe9\udc80.pt: not\nreadable"]


def test_every_tensor_takes_one_line_of_the_same_columns() -> None:
    odd = replace(ref(0, None), key=("a\tb\nc\x1b[31m",), module="m\tn\r")
    head, line = tensor_lines(Scan("dumps", (odd,)))
    cells = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert cells["module"] == r"m\tn\r"
    assert cells["tensor"] == r"step_000000.safetensors:a\tb\nc\x1b[31m"
    assert line.isprintable() or line.replace("\t", "").isprintable()


def test_a_terminal_gets_colour_for_problems() -> None:
    console = terminal(is_piped=False)
    print_problems(console, [Problem("a.pt", "broken")])
    assert shown(console) == ["\x1b[1;31merror: \x1b[0ma.pt: broken"]


def test_a_scan_shows_what_is_there_and_what_will_be_analysed() -> None:
    console = terminal(100)
    refs = [ref(step, kind) for step in range(0, 780, 60) for kind in ("activation", "weight")]
    refs += [ref(0, None, layer=None), ref(720, "gradient", layer=8, layout="megatron")]
    console.print(scan_table(Scan("dumps", tuple(refs), files=13, bytes=25_300_000)))
    lines = [" ".join(line.split()) for line in shown(console)]
    assert lines == [
        "13 files, 25.3 MB, 28 tensors",
        "",
        "layout hooks",
        "files 13",
        "tensors 27, 1.77 MB",
        "layers 4; 1 tensor without",
        "steps 0 to 720 (13)",
        "tokens 0 to 368.6 K",
        "ranks not named",
        "micro-batches not named",
        "activation 13 tensors 1x128x256 bfloat16; analysed",
        "weight 13 tensors 1x128x256 bfloat16; not analysed, ask with --kinds weight",
        "of no known kind 1 tensor 1x128x256 bfloat16; not analysed",
        "",
        "layout megatron",
        "written by Megatron-LM",
        "files 1",
        "tensors 1, 65.5 kB",
        "layers 8",
        "steps 720",
        "tokens 368.6 K",
        "ranks not named",
        "micro-batches not named",
        "gradient 1 tensor 1x128x256 bfloat16; analysed",
    ]
