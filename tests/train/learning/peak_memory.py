"""A program that trains a small model for two updates and prints how much memory that took, in bytes.

peak_memory.py FOLDER KEY=VALUE...: the folder of the model, and values of the section [model]
"""

import ctypes
import gc
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence

ROW_TOKENS, TOKENS, SEQUENCES = 1024, 256, 8


def sequence(draw: torch.Generator) -> TrainingSequence:
    prompt, answer = (tuple(torch.randint(30, (n,), generator=draw).tolist()) for n in (TOKENS // 4, TOKENS * 3 // 4))
    return TrainingSequence(prompt, answer, (-1.0,) * len(answer), (1.0,) * len(answer), truncated=False, reward=1.0)


def train(model: ModelConfig, sequences: list[TrainingSequence]) -> None:
    optimizer = OptimizerConfig(row_tokens=ROW_TOKENS)
    learner = Learner(model, ObjectiveConfig(kl=0.1), optimizer, temperature=1.0, total_updates=2, seed=0)
    for batch in (sequences[:1], sequences):  # the peak is in the second update, which has moments from the first
        learner.begin_batch(batch)
        learner.update(batch)
    learner.close()


def resident(kind: str) -> int:
    (kilobytes,) = re.findall(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(kilobytes) * 1024


def main() -> None:
    folder, *values = sys.argv[1:]
    options: dict[str, Any] = {name: json.loads(value) for name, _, value in (each.partition("=") for each in values)}
    draw = torch.Generator().manual_seed(0)
    sequences = [sequence(draw) for _ in range(SEQUENCES)]
    train(
        ModelConfig(f"{folder}-tiny", **options), sequences[:1]
    )  # so that all libraries have what they need for themselves
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    before = resident("VmRSS")
    train(ModelConfig(folder, **options), sequences)
    print(resident("VmHWM") - before)


if __name__ == "__main__":
    main()
