"""`Capture`, which a training script switches on with one line.

Between the steps that are captured nothing is in the model, and a step costs one comparison.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import nn

from numscope.capture.choosing import Which, choose, unwrapped
from numscope.capture.filing import this_process
from numscope.capture.plan import Plan
from numscope.capture.sampling import Sample
from numscope.capture.session import Session
from numscope.dumps.refs import Kind
from numscope.errors import UsageError

CAPTURED: tuple[Kind, ...] = ("activation", "gradient", "weight", "weight_gradient")


class Capture:
    """Dumps of a training run, made while it runs: `step` is called at the end of each step.

    On the steps that are captured, hooks copy the input of the chosen modules (`activation`) and
    the gradient with respect to their output (`gradient`) to the CPU's memory, bit for bit and in
    their own type. A thread then writes one safetensors file per step and rank, which `numscope
    scan` and `numscope analyze` understand without options.

    - **Micro-batches** are kept apart: each call of the model is one. Where modules are called
      without the model, one is what runs between two backward passes. Passes without gradients are
      left out if others of the step have some.
    - **Activation checkpointing**, of either kind: a repeated forward is not captured again.
    - **Modules that are called several times** have a number behind the kind: `….activation.1`.
    - **torch.compile**: compiled code runs no hooks, so on the steps that are captured everything
      runs without being compiled (the stance `force_eager`), and nothing is compiled anew for it.
      Values are then those of eager mode. Compile before the capture is made: what is compiled
      later, or with `eager=False`, is not seen, and a warning says so, as it does for whatever else
      hooks do not see.
    - **Distributed**: each rank writes its own file. Which part of a DTensor it holds is noted.
    - **Failures**: a full disk, an exception in a hook and the like end the capture with a
      `CaptureWarning`; training goes on.

    Hooks are removed at the end of each captured step, by `close`, on leaving the `with` block, and
    when the capture is no longer referred to. A step that has not ended by then is not saved.

    Parameters
    ----------
    model
        The model, also in DDP, FSDP or torch.compile.
    folder
        Where files are written; it is made.
    layers
        Only modules whose name has one of these numbers, as `layers.4.mlp.fc1`; `None` for all.
    modules
        Which modules of these layers: a class, a part of the name, or a pattern with `*`, `?` or
        `[`; several of these; or a function of name and module.
    kinds
        Of `activation`, `gradient`, `weight` (as the first call in the step sees it) and
        `weight_gradient` (the sum over the step's micro-batches, before it is reduced or clipped).
    every
        Capture the steps that are multiples of this.
    steps
        Capture these steps instead.
    first_step
        The number of the step that begins now.
    tokens_per_step
        How many tokens all ranks together train on in a step, which is noted in the files.
    rows
        Keep this many rows (tokens) of each tensor, chosen at random in groups of 128 consecutive
        ones: the same for all tensors with as many rows, on all steps. `None` for all rows.
    seed
        Of that choice.
    ranks
        Capture on these ranks only; `None` for all.
    memory_limit
        Bytes that a step may take in the CPU's memory; a call without room for its input and
        gradient is left out, and so is what comes later, with a warning. Besides it, one step may
        be waiting and one being written.
    eager
        Whether compiled code may be run without being compiled on the steps that are captured.

    Raises
    ------
    UsageError
        If an argument cannot be meant, or no module of the model is.

    Examples
    --------
    >>> import tempfile, torch, numscope
    >>> folder = tempfile.mkdtemp()
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    >>> with Capture(model, folder, every=2, tokens_per_step=3) as capture:
    ...     for _ in range(4):
    ...         model(torch.ones(3, 4)).sum().backward()
    ...         capture.step()
    >>> for ref in numscope.scan(folder):
    ...     print(ref.step, ref.tokens, ref.layer, ref.kind, ref.shape)
    0 0 0 activation (3, 4)
    0 0 0 gradient (3, 8)
    0 0 2 activation (3, 8)
    0 0 2 gradient (3, 2)
    2 6 0 activation (3, 4)
    2 6 0 gradient (3, 8)
    2 6 2 activation (3, 8)
    2 6 2 gradient (3, 2)
    """

    def __init__(
        self,
        model: nn.Module,
        folder: str | os.PathLike[str],
        *,
        layers: Collection[int] | None = None,
        modules: Which = nn.Linear,
        kinds: Collection[Kind] = ("activation", "gradient"),
        every: int = 500,
        steps: Collection[int] | None = None,
        first_step: int = 0,
        tokens_per_step: int | None = None,
        rows: int | None = None,
        seed: int = 0,
        ranks: Collection[int] | None = None,
        memory_limit: int = 8 << 30,
        eager: bool = True,
    ) -> None:
        if every < 1:
            raise UsageError(f"every={every}; it has to be 1 or more")
        unknown = [kind for kind in kinds if kind not in CAPTURED]
        if unknown or not kinds:
            raise UsageError(f"kinds={list(kinds)}; allowed are {', '.join(CAPTURED)}")
        inner = unwrapped(model)
        chosen = choose(inner, layers, modules)
        if not chosen and this_process().world_size == 1:  # else others may have them
            raise UsageError(_nothing(inner, layers))
        plan = Plan(
            folder=Path(folder),
            chosen=tuple(chosen),
            kinds=tuple(kinds),
            every=every,
            steps=None if steps is None else tuple(sorted(steps)),
            tokens_per_step=tokens_per_step,
            ranks=None if ranks is None else frozenset(ranks),
            memory_limit=memory_limit,
            is_eager=eager,
            sample=Sample(rows, seed),
        )
        self._session = Session(inner, plan, first_step)
        # Hooks refer to the session, not to this: it ends with the last reference or at exit.
        self._end = weakref.finalize(self, self._session.close)

    @property
    def is_capturing(self) -> bool:
        """Whether the step that the run is in is captured."""
        return self._session.is_capturing

    def step(self) -> None:
        """End a step of the run; call it once per step, after the last backward pass."""
        session = self._session
        session.step += 1
        if session.step >= session.due:
            session.turn()

    def close(self) -> None:
        """End the capture and wait until all is written. A step that has not ended is not saved."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _nothing(model: nn.Module, layers: Collection[int] | None) -> str:
    """Say that no module is meant, and what there is."""
    there = [each for each in choose(model, None, nn.Linear) if each.layer is not None]
    numbers = sorted({each.layer for each in there if each.layer is not None})
    where = "" if layers is None else f" in the layers {sorted(layers)}"
    example = f"; nn.Linear are in the layers {numbers}, such as {there[0].name}" if there else ""
    return f"no module of the model is captured{where}{example}"
