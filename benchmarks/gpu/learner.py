"""An update on a GPU is that of the CPU, up to half precision; and its speed and memory at 0.6B parameters and 16K."""

import time

import torch

from benchmarks.gpu import models
from benchmarks.gpu.outcome import print_figures
from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig
from train.learning.learner import Learner

ROW_TOKENS = 16_384
BATCHES = 3


def learner(path: str, dtype: str, *, row_tokens: int = ROW_TOKENS, checkpointing: bool = True) -> Learner:
    model = ModelConfig(path, dtype=dtype, head_dtype="float32", activation_checkpointing=checkpointing)  # type: ignore[arg-type]
    return Learner(
        model,
        ObjectiveConfig(),
        OptimizerConfig(learning_rate=1e-4, row_tokens=row_tokens),
        temperature=1.0,
        total_updates=10,
        seed=0,
    )


def agreement() -> dict[str, float]:
    """Compare updates of a small model in bfloat16 on the GPU with those in float32 on the CPU."""
    path, batch = models.folder(models.SMALL), models.completions(4, 4, 30, 60)
    figures = []
    for device in ("cpu", "cuda"):
        available, torch.cuda.is_available = torch.cuda.is_available, lambda device=device: device == "cuda"
        try:
            one = learner(path, "float32" if device == "cpu" else "bfloat16", row_tokens=512)
        finally:
            torch.cuda.is_available = available
        figures.append([one.update(batch) for _ in range(3)])
        one.close()
    errors = [abs(mine["grad_norm"] / its["grad_norm"] - 1) for mine, its in zip(*figures, strict=True)]
    assert max(errors) < 0.05, figures
    return {"worst_relative_error_of_grad_norm": round(max(errors), 5)}


def speed() -> dict[str, float]:
    """Measure whole updates on one GPU: one group of long answers fills each row."""
    path = models.folder(models.SIX_HUNDRED_MILLION)
    one = learner(path, "bfloat16")
    batch = models.completions(8, 2, 500, 15_000)
    one.update(batch[:2])  # kernels are chosen, memory is reserved
    torch.cuda.reset_peak_memory_stats()
    began = time.monotonic()
    tokens = sum(one.update(batch)["num_tokens"] for _ in range(BATCHES))
    torch.cuda.synchronize()
    seconds = time.monotonic() - began
    peak = torch.cuda.max_memory_allocated()
    one.close()
    return {"tokens_per_second": round(tokens / seconds), "peak_gib": round(peak / 2**30, 2)}


def main() -> None:
    print_figures(**agreement(), **speed(), parameters=0.6e9, row_tokens=ROW_TOKENS)


if __name__ == "__main__":
    main()
