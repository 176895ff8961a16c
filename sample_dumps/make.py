"""Makes the sample dumps: trains a small GPT on Python's own source and captures some steps.

    pip install 'numscope[capture]'
    python sample_dumps/make.py FOLDER

It takes some minutes on a CPU. The seeds are fixed: only another Python, PyTorch or processor gives
other numbers. What makes the data look like that of large runs:

- Most documents come from a small pool that is learned by heart, so that most tokens end up with
  almost no loss; some are new and stay surprising. Gradient rows of different tokens then differ by
  many orders of magnitude.
- No loss is taken of the first bytes of a document, nor of the padding at the end of a sequence.
- Norms start with two channels of large gain in each layer, so activations have outlier channels.
- For four steps the learning rate is much too high: the model forgets, and learns again.
"""

from __future__ import annotations

import argparse
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from numscope.capture import Capture

DEPTH, WIDTH, HIDDEN, HEADS = 17, 128, 192, 4
SEQUENCES, LENGTH = 4, 128
VOCABULARY, PADDING = 128, 0

STEPS = 720
CAPTURED = (0, 20, 40, 80, 120, 180, 240, 300, 360, 420, 436, 450, 480, 540, 600, 640, 680, 720)
LAYERS = (0, 4, 8, 12, 16)

RATE, WARM_UP = 2.5e-3, 30
ACCIDENT, TOO_HIGH = range(432, 436), 8.0

SOURCES = ("argparse", "ast", "calendar", "configparser", "inspect", "pathlib", "tarfile", "typing")
POOL, PROMPT = 8, 8

OUTLIERS = 4.0, 16.0
SHARPNESS = 3.0


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a norm and beside the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(WIDTH, HIDDEN), "fc2": nn.Linear(HIDDEN, WIDTH)})
        for norm in (self.norm1, self.norm2):
            channels = torch.randperm(WIDTH)[:2]
            norm.weight.data[channels] = torch.empty(2).uniform_(*OUTLIERS)
        for last in (self.proj, self.mlp["fc2"]):
            last.weight.data /= (2 * DEPTH) ** 0.5

    def forward(self, x: torch.Tensor, may_see: torch.Tensor) -> torch.Tensor:
        """The stream behind the block; matrices multiply in the type that autocast gives."""
        heads = (
            self.qkv(_narrow(self.norm1(x))).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        )
        y = functional.scaled_dot_product_attention(*heads, attn_mask=may_see)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        y = self.mlp["fc1"](_narrow(self.norm2(x)))
        return x + self.mlp["fc2"](functional.gelu(y))


def _narrow(x: torch.Tensor) -> torch.Tensor:
    is_on = torch.is_autocast_enabled("cpu")
    return x.to(torch.get_autocast_dtype("cpu")) if is_on else x


class GPT(nn.Module):
    """A causal model of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.norm.weight.data *= SHARPNESS

    def forward(self, batch: Batch) -> torch.Tensor:
        """The mean loss over the bytes that count."""
        x = self.bytes(batch.bytes) + self.places(batch.places)
        is_same = batch.documents[:, :, None] == batch.documents[:, None, :]
        may_see = is_same.tril().unsqueeze(1)
        for layer in self.layers:
            x = layer(x, may_see)
        logits = self.head(self.norm(x)).float()
        losses = functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), reduction="none"
        )
        counts = batch.counts.flatten()
        return (losses * counts).sum() / counts.sum()


@dataclass
class Batch:
    """Sequences of several documents each, (SEQUENCES, LENGTH).

    `documents` numbers the documents in their sequence, `places` the bytes in their document, and
    `counts` is 1 where the loss counts, else 0.
    """

    bytes: torch.Tensor
    targets: torch.Tensor
    places: torch.Tensor
    documents: torch.Tensor
    counts: torch.Tensor


@dataclass
class Text:
    """Lines of Python's own source as documents: a pool that returns, and others."""

    random: random.Random
    lines: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        library = Path(sysconfig.get_path("stdlib"))
        for name in SOURCES:
            lines = (library / f"{name}.py").read_bytes().splitlines()
            stripped = {line.strip(): None for line in lines if line.isascii()}
            self.lines += [line for line in stripped if 20 <= len(line) <= 40]
        self.random.shuffle(self.lines)

    def batch(self, *, has_new: bool) -> Batch:
        """Documents of the pool, and one new one in each sequence if asked for."""
        rows = [list(self._row(has_new=has_new)) for _ in range(SEQUENCES)]
        inputs, targets, places, documents, counts = torch.tensor(rows).unbind(-1)
        return Batch(inputs, targets, places, documents, counts.float())

    def _row(self, *, has_new: bool) -> Iterator[tuple[int, int, int, int, int]]:
        """Byte, target, place, document and count of each position."""
        used, number = 0, 0
        while True:
            is_new = has_new and number == 1
            line = self.random.choice(self.lines[POOL:] if is_new else self.lines[:POOL]) + b"\n"
            if used + len(line) - 1 > LENGTH:
                break
            for place, (byte, target) in enumerate(pairwise(line)):
                yield byte, target, place, number, int(place >= PROMPT)
            used, number = used + len(line) - 1, number + 1
        for place in range(LENGTH - used):
            yield PADDING, PADDING, place, number, 0


def rate(step: int) -> float:
    """The learning rate of a step, with the accident."""
    return RATE * min(1.0, (step + 1) / WARM_UP) * (TOO_HIGH if step in ACCIDENT else 1.0)


def main() -> None:
    """Train and capture."""
    parser = argparse.ArgumentParser(description="Make the sample dumps.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(mode=True)
    text, model = Text(random.Random(0)), GPT()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, betas=(0.9, 0.95), weight_decay=0.0)
    with Capture(
        model,
        folder,
        layers=LAYERS,
        modules="mlp.fc1",
        steps=CAPTURED,
        tokens_per_step=SEQUENCES * LENGTH,
        rows=LENGTH,
    ) as capture:
        for step in range(STEPS + 1):
            optimizer.param_groups[0]["lr"] = rate(step)
            with torch.autocast("cpu", torch.bfloat16, enabled=capture.is_capturing):
                loss = model(text.batch(has_new=capture.is_capturing))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if capture.is_capturing:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)
            capture.step()


if __name__ == "__main__":
    main()
