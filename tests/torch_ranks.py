"""One of two processes that train together and capture; `python -m tests.torch_ranks RANK FOLDER`.

What was saved of this rank is compared here with what its modules saw.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from numscope.capture import Capture
from tests.torch_models import Matrix, Model, bits, loss_of, model, tokens

WORLD_SIZE = 2


def main() -> None:
    """Train in each of the ways, and check."""
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=WORLD_SIZE
    )
    mesh = init_device_mesh("cpu", (WORLD_SIZE,), mesh_dim_names=("x",))

    replicated = model()
    _train(replicated, DistributedDataParallel(replicated), folder / "ddp", rank)

    sharded = model()
    for layer in (*sharded.layers, sharded):
        fully_shard(layer, mesh=mesh)
    (whole,) = bits([model().layers[0].fc1.weight])
    saved = _train(
        sharded, sharded, folder / "fsdp", rank, kinds=("activation", "weight", "weight_gradient")
    )
    assert bits([saved["layers.0.fc1.weight"]]) == [whole]
    part = sharded.layers[0].fc1.weight.grad.to_local()
    assert bits([saved["layers.0.fc1.weight_gradient"]]) == bits([part])

    _train_in_parts(mesh, folder / "tp", rank)
    distributed.destroy_process_group()


def _train(
    inner: Model, outer: nn.Module, folder: Path, rank: int, **options: Any
) -> dict[str, torch.Tensor]:
    """Train for a step; what was saved of it, which is also what the matrices saw."""
    batch = tokens(rank)
    with Capture(outer, folder, every=1, modules=Matrix, tokens_per_step=64, **options) as capture:
        loss = loss_of(outer(batch), batch)
        inner.backward(loss)
        capture.step()
    saved: dict[str, torch.Tensor] = load_file(folder / f"step_000000-rank_{rank}.safetensors")
    for name, matrix in inner.matrices.items():
        (seen,) = matrix.seen
        assert bits([saved[f"{name}.activation"]]) == bits([seen.x])
        if f"{name}.gradient" in saved:
            assert bits([saved[f"{name}.gradient"]]) == bits(seen.gradients)
    return saved


def _train_in_parts(mesh: Any, folder: Path, rank: int) -> None:
    torch.manual_seed(0)
    trained = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    x = torch.randn(4, 8)
    hidden = trained[:2](x).detach()
    weights = [trained[index].weight.detach().clone() for index in (0, 2)]
    parallelize_module(trained, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    with Capture(trained, folder, every=1, kinds=("activation", "gradient", "weight")) as capture:
        trained(x).square().sum().backward()
        capture.step()
    saved = load_file(folder / f"step_000000-rank_{rank}.safetensors")
    assert torch.equal(saved["0.activation"], x)
    assert torch.allclose(saved["2.activation"], hidden.chunk(WORLD_SIZE, dim=1)[rank])
    assert torch.equal(saved["0.weight"], weights[0].chunk(WORLD_SIZE, dim=0)[rank])
    assert torch.equal(saved["2.weight"], weights[1].chunk(WORLD_SIZE, dim=1)[rank])
    assert saved["0.gradient"].shape == (4, 8)


if __name__ == "__main__":
    main()
