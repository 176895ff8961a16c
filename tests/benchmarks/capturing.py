"""What a step that is not captured costs while a capture is waiting for the next one that is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

import torch
from rich.table import Table

from numscope.capture import Capture
from tests.torch_models import loss_of, model, tokens

_CALLS = 200_000


def compare(steps: int, repetitions: int) -> Table:
    """A table of a small model's training: without a capture, and with one that waits.

    The two take turns, so that whatever else the machine does falls on both.
    """
    torch.set_num_threads(1)
    trained, batch = model(), tokens(0)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)

    def train(end_step: Callable[[], None]) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            loss_of(trained(batch), batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            for matrix in trained.matrices.values():
                matrix.seen.clear()
            end_step()
        return (time.perf_counter() - start) / steps

    with TemporaryDirectory(prefix="numscope-bench-") as folder:
        capture = Capture(trained, folder, steps=[1 << 60])
        train(capture.step)
        times = [(train(lambda: None), train(capture.step)) for _ in range(repetitions)]
        alone = _seconds_per_call(lambda: None)
        call = _seconds_per_call(capture.step) - alone
        capture.close()
    without, waiting = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = [b / a for a, b in times]
    table = Table("", "per step", title="cost of a step that is not captured")
    table.add_row("training without a capture", f"{without * 1e6:.1f} µs")
    table.add_row("training with one that waits", f"{waiting * 1e6:.1f} µs")
    table.add_row("median ratio of neighbours", f"{statistics.median(ratios):.4f}")
    table.add_row("from, to (a half of them)", _quartiles(ratios))
    table.add_row("capture.step() alone", f"{call * 1e9:.0f} ns, {call / without:.5%} of the step")
    return table


def _quartiles(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:.4f}, {high:.4f}"


def _seconds_per_call(function: Callable[[], None]) -> float:
    def once() -> float:
        start = time.perf_counter()
        for _ in range(_CALLS):
            function()
        return (time.perf_counter() - start) / _CALLS

    return min(once() for _ in range(5))
