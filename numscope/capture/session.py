"""A capture over a whole run: recordings on the steps that are due, files, and what goes wrong.

Once it has begun, nothing here raises into the training loop.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import nn

from numscope.capture.filing import step_file, this_process
from numscope.capture.plan import NEVER, Plan
from numscope.capture.recording import Recording
from numscope.capture.writing import Writer

_LOG = logging.getLogger("numscope.capture")
_MOST_NAMES = 4


class CaptureWarning(UserWarning):
    """Something that was asked for is not saved. Training is not affected."""


class Session:
    """The state of a capture.

    Parameters
    ----------
    model
        Without wrappers.
    plan
        What is to be captured.
    step
        The step that begins now.

    Attributes
    ----------
    step
        The step that the run is in.
    due
        The step at whose beginning `turn` has to be called.
    """

    def __init__(self, model: nn.Module, plan: Plan, step: int) -> None:
        self.step = step
        self.due = 0
        self._model, self._plan = model, plan
        self._recording: Recording | None = None
        self._compiling = ExitStack()
        self._writer = Writer(self._wake)
        self._said: set[str] = set()
        self._is_over = False
        self.turn()

    @property
    def is_capturing(self) -> bool:
        """Whether the step that the run is in is captured."""
        return self._recording is not None

    def turn(self) -> None:
        """Finish the step that has ended, if it was captured, and see to the one that begins."""
        try:
            recording = self._let_go()
            if recording is not None:
                self._save(recording, self.step - 1)
            self._begin()
        except Exception as error:  # noqa: BLE001 (training goes on whatever happens here)
            self._give_up(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Remove the hooks, leave out a step that has not ended, and wait for what is written."""
        self._let_go()
        self._writer.finish()
        if self._writer.failure:
            self._give_up(self._writer.failure)
        self._is_over, self.due = True, NEVER

    def _save(self, recording: Recording, step: int) -> None:
        """Have a step written, and say what is missing from it."""
        if recording.failure:
            self._give_up(recording.failure)
            return
        self._complain(recording, step)
        file = step_file(recording, self._plan, step)
        if file is not None:
            self._writer.put(file)

    def _begin(self) -> None:
        """Put hooks in place if the step that begins is captured, and see when to look again."""
        if self._writer.failure:
            self._give_up(self._writer.failure)
        plan = self._plan
        is_wanted = plan.ranks is None or this_process().rank in plan.ranks
        self.due = plan.next_step(self.step) if is_wanted and not self._is_over else NEVER
        if self.due != self.step:
            return
        self.due += 1
        if plan.is_eager and "torch._dynamo" in sys.modules:  # compiled code has no hooks
            stance = torch.compiler.set_stance("force_eager")
            if getattr(stance.prev, "stance", "") != "force_eager":  # else of another capture
                self._compiling.enter_context(stance)
        self._recording = Recording(
            self._model,
            plan.chosen,
            plan.sample,
            plan.memory_limit,
            plan.kinds,
        )

    def _let_go(self) -> Recording | None:
        """Take the hooks out of the model, and let compiled code run again."""
        recording, self._recording = self._recording, None
        self._compiling.close()
        if recording is not None:
            recording.stop()
        return recording

    def _wake(self) -> None:
        """Have the next step, whichever it is, look at the writer."""
        self.due = 0

    def _give_up(self, reason: str) -> None:
        self._let_go()
        self._is_over, self.due = True, NEVER
        self._say("end", f"capturing has stopped, training goes on: {reason}")

    def _complain(self, recording: Recording, step: int) -> None:
        """Say what hooks did not see, and what there was no room for."""
        silent, bereft = recording.silent(), recording.bereft()
        if silent:
            self._say(
                "silent",
                f"step {step}: nothing was seen of {_some(silent)}, {len(silent)} of "
                f"{len(self._plan.chosen)} modules; hooks do not see what runs inside a compiled "
                "function or a CUDA graph, nor a module whose weight is used without a call",
            )
        if bereft and "gradient" in self._plan.kinds:
            self._say("bereft", f"step {step}: no gradient came to {_some(bereft)}")
        if "weight" in self._plan.kinds and not recording.weights and not recording.is_full:
            self._say("weight", f"step {step}: no module has a matrix for a weight, as in FSDP1")
        if recording.is_full:
            self._say(
                "full",
                f"step {step}: what did not fit into {self._plan.memory_limit} bytes, and what "
                "came after it, is left out; capture fewer rows, modules or layers, or raise "
                "memory_limit",
            )

    def _say(self, subject: str, message: str) -> None:
        """Warn, once about each subject; with a log record where warnings are made errors."""
        if subject in self._said:
            return
        self._said.add(subject)
        try:
            warnings.warn(message, CaptureWarning, stacklevel=_levels_up())
        except CaptureWarning:
            _LOG.warning("%s", message)


def _levels_up() -> int:
    """How far above its caller the first line outside of this package is."""
    here = str(Path(__file__).parent)
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(here):
        frame, levels = frame.f_back, levels + 1
    return levels


def _some(names: Sequence[str]) -> str:
    """The first few of many names."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
