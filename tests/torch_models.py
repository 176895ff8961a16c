"""Small models whose matrices remember what they saw, by other means than hooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, LENGTH = 32, 24, 16


@dataclass
class Seen:
    """One call of a matrix: copies of what went in and of the gradients that came back."""

    x: torch.Tensor
    gradients: list[torch.Tensor] = field(default_factory=list)
    is_watched: bool = False


class _Watch(torch.autograd.Function):
    """Does nothing to its input, and copies the gradient of its output."""

    @staticmethod
    def forward(context: Any, y: torch.Tensor, seen: Seen) -> torch.Tensor:
        context.seen = seen
        return y.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        context.seen.gradients.append(gradient.detach().clone())
        return gradient, None


class Matrix(nn.Linear):
    """A linear layer that remembers its calls; those that a backward pass repeats count once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[Seen] = []
        self.is_backward = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product, watched for its gradient if it has one."""
        y = super().forward(x)
        if self.is_backward:
            seen = next((s for s in self.seen if not s.is_watched and torch.equal(s.x, x)), None)
        else:
            seen = Seen(x.detach().clone())
            self.seen.append(seen)
        if seen is None or not y.requires_grad or seen.is_watched:
            return y
        seen.is_watched = True
        watched: torch.Tensor = _Watch.apply(y, seen)
        return watched


class Block(nn.Module):
    """A feed-forward layer that changes its input in place after its first matrix has seen it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.fc1 = Matrix(WIDTH, 2 * WIDTH)
        self.out = Matrix(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum with the input."""
        y = self.fc1(self.norm(x))
        z = self.out(nn.functional.gelu(y))
        return z.add_(x)  # in place, on what a module has given


class Model(nn.Module):
    """Embedding, layers and head.

    Parameters
    ----------
    depth
        How many layers.
    rounds
        How often all layers are called, one after the other.
    reentrant
        With activation checkpointing of this kind; `None` without.
    """

    def __init__(self, depth: int = 3, rounds: int = 1, *, reentrant: bool | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.rounds, self.reentrant = rounds, reentrant

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x: torch.Tensor = self.embedding(tokens)
        for _ in range(self.rounds):
            for layer in self.layers:
                if self.reentrant is None or not self.training:
                    x = layer(x)
                else:
                    x = checkpoint(layer, x, use_reentrant=self.reentrant)
        logits: torch.Tensor = self.head(x)
        return logits

    @property
    def matrices(self) -> dict[str, Matrix]:
        """Those that remember, by name."""
        return {name: each for name, each in self.named_modules() if isinstance(each, Matrix)}

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """A backward pass, told to the matrices."""
        self._tell(is_backward=True)
        loss.backward(**options)
        self._tell(is_backward=False)

    def _tell(self, *, is_backward: bool) -> None:
        for each in self.matrices.values():
            each.is_backward = is_backward


def model(*, seed: int = 0, **options: Any) -> Model:
    """A model with the weights of a seed."""
    torch.manual_seed(seed)
    return Model(**options)


def tokens(seed: int, rows: int = 2, length: int = LENGTH) -> torch.Tensor:
    """Random tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (rows, length), generator=generator)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy in float32."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def hooks_of(module: nn.Module) -> int:
    """How many hooks there are in a model and on its parameters."""
    places = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    count = sum(len(getattr(each, place)) for each in module.modules() for place in places)
    return count + sum(
        len(getattr(each, "_post_accumulate_grad_hooks", None) or ())
        for each in module.parameters()
    )


def bits(tensors: Iterable[torch.Tensor]) -> list[bytes]:
    """The bytes of tensors."""
    return [
        each.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        for each in tensors
    ]
