"""The environment of an engine in a process of its own: its GPUs, and nothing that makes it a rank of the trainer."""

import os
from collections.abc import Sequence

from train.errors import SamplerError

# The beginnings of the names of the variables that torchrun sets.
_TORCHRUN = ("TORCHELASTIC_", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_")  # fmt: skip


def split_gpus_by_engine(gpus: Sequence[int], tensor_parallel: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each engine; their number is a multiple of `tensor_parallel` (train/config/checks.py)."""
    return [tuple(gpus[first : first + tensor_parallel]) for first in range(0, len(gpus), tensor_parallel)]


def cuda_visible_devices(gpus: Sequence[int]) -> str:
    """Return CUDA's names of these GPUs; their numbers count the GPUs that are visible to the run, from 0.

    Raises SamplerError if the run sees fewer GPUs.
    """
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if seen and max(gpus) >= len(seen):
        raise SamplerError(
            f"engine.gpus: there is no GPU {max(gpus)}; CUDA_VISIBLE_DEVICES has {len(seen)}, counted from 0"
        )
    return ",".join(seen[gpu] if seen else str(gpu) for gpu in gpus)


def clear_trainer_environment() -> None:
    """Let this process hold an engine: it is not one of the trainer's ranks, and vLLM needs no other for its engine."""
    for name in [name for name in os.environ if name.startswith(_TORCHRUN)]:
        del os.environ[name]
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # weights change between two steps of the engine
