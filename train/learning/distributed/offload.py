"""AdamW whose moments stay on the CPU and visit the GPU a part at a time, for the step that needs them there."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from train.learning.distributed.ranks import copy_to_device, local_shard

_SHARD_BYTES = 512 * 2**20  # of moments that are on the GPU at once
_STEP = "step"  # the number of updates, which stays where it is


def step_in_shards(optimizer: torch.optim.Optimizer, weights: Iterable[Any], shard_bytes: int = _SHARD_BYTES) -> None:
    """Make the optimizer's step, and remove the gradients. The numbers are those of `optimizer.step()`.

    weights: all that the optimizer trains; those without a gradient stay as they are
    """
    gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
    for weight in gradients:
        weight.grad = None
    for shard in _shards(list(gradients), shard_bytes):
        at_home = {weight: optimizer.state.get(weight, {}) for weight in shard}
        for weight in shard:
            weight.grad = gradients.pop(weight)
            if at_home[weight]:
                optimizer.state[weight] = {
                    key: value if key == _STEP else copy_to_device(value, local_shard(weight).device)
                    for key, value in at_home[weight].items()
                }
        optimizer.step()
        for weight in shard:
            weight.grad = None
            optimizer.state[weight] = _copy_to_cpu(optimizer.state[weight], at_home[weight])


@torch.no_grad()
def _copy_to_cpu(state: dict[str, Tensor], home: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the moments to the memory of the CPU, to where they were before if they were there."""
    copied = {}
    for key, value in state.items():
        if key == _STEP:
            copied[key] = value
        elif key in home:
            copied[key] = home[key]
            local_shard(home[key]).copy_(local_shard(value))
        else:
            copied[key] = copy_to_device(value, torch.device("cpu"))
    return copied


def _shards(weights: Sequence[Any], max_bytes: int) -> Iterable[list[Any]]:
    shard: list[Any] = []
    size = 0
    for weight in weights:
        n_bytes = 2 * local_shard(weight).nbytes  # AdamW has two moments
        if shard and size + n_bytes > max_bytes:
            yield shard
            shard, size = [], 0
        shard.append(weight)
        size += n_bytes
    if shard:
        yield shard
