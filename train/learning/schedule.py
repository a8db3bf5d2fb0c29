"""The learning rate of each update."""

import math

from train.config import Optimizer


def learning_rate(update: int, optimizer: Optimizer, *, total_updates: int) -> float:
    """Of update number 0, 1, ...: up in a straight line over the first `warmup_steps` updates, then constant or half a
    cosine that would reach 0 after the last."""
    if update < optimizer.warmup_steps:
        return optimizer.learning_rate * (update + 1) / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.learning_rate
    done = (update - optimizer.warmup_steps) / max(total_updates - optimizer.warmup_steps, 1)
    return optimizer.learning_rate * (1 + math.cos(math.pi * min(done, 1.0))) / 2
