"""The learning rate of each update."""

import math

from train.config import OptimizerConfig


def learning_rate(update: int, optimizer: OptimizerConfig, *, total_updates: int) -> float:
    """Return the learning rate of an update; updates are numbered from 0.

    It rises linearly over the first `warmup_steps` updates. Then it is constant, or follows half a cosine that would
    reach 0 after the last update.
    """
    if update < optimizer.warmup_steps:
        return optimizer.learning_rate * (update + 1) / optimizer.warmup_steps
    if optimizer.schedule == "constant":
        return optimizer.learning_rate
    done = (update - optimizer.warmup_steps) / max(total_updates - optimizer.warmup_steps, 1)
    return optimizer.learning_rate * (1 + math.cos(math.pi * min(done, 1.0))) / 2
