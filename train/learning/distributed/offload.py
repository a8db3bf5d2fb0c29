"""AdamW whose moments stay on the CPU and visit the GPU a part at a time, for the step that needs them there."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from train.learning.distributed.ranks import local_part, moved

_PART_BYTES = 512 * 2**20  # of moments that are on the GPU at once
_STEP = "step"  # the number of updates, which stays where it is


def step_in_parts(optimizer: torch.optim.Optimizer, weights: Iterable[Any], part_bytes: int = _PART_BYTES) -> None:
    """Make the optimizer's step, and remove the gradients. The numbers are those of `optimizer.step()`.

    weights: all that the optimizer trains; those without a gradient stay as they are
    """
    gradients = {weight: weight.grad for weight in weights if weight.grad is not None}
    for weight in gradients:
        weight.grad = None
    for part in _parts(list(gradients), part_bytes):
        at_home = {weight: optimizer.state.get(weight, {}) for weight in part}
        for weight in part:
            weight.grad = gradients.pop(weight)
            if at_home[weight]:
                optimizer.state[weight] = {
                    key: value if key == _STEP else moved(value, local_part(weight).device)
                    for key, value in at_home[weight].items()
                }
        optimizer.step()
        for weight in part:
            weight.grad = None
            optimizer.state[weight] = _taken_home(optimizer.state[weight], at_home[weight])


@torch.no_grad()
def _taken_home(state: dict[str, Tensor], home: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy the moments to the memory of the CPU, to where they were before if they were there."""
    taken = {}
    for key, value in state.items():
        if key == _STEP:
            taken[key] = value
        elif key in home:
            taken[key] = home[key]
            local_part(home[key]).copy_(local_part(value))
        else:
            taken[key] = moved(value, torch.device("cpu"))
    return taken


def _parts(weights: Sequence[Any], most_bytes: int) -> Iterable[list[Any]]:
    part: list[Any] = []
    size = 0
    for weight in weights:
        n_bytes = 2 * local_part(weight).nbytes  # AdamW has two moments
        if part and size + n_bytes > most_bytes:
            yield part
            part, size = [], 0
        part.append(weight)
        size += n_bytes
    if part:
        yield part
