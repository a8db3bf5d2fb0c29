"""The engine spec of a run: how to start its engines, in this process or a separate one.

A separate process sees only the engine's GPUs, and none of the variables that make it a rank of the trainer.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from train.engine_options import EngineOptions
from train.errors import SamplerError
from train.sampling.protocol import Engine, SamplingParams

# Prefixes of the variables that torchrun sets.
_TORCHRUN = ("TORCHELASTIC_", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_")  # fmt: skip


class EngineSpec(Struct, frozen=True):
    """Options to start an engine, derived from a run's configuration by open_engine.py.

    run             name of the run
    model           folder or Hub name; the run's weights replace its weights before sampling
    context_tokens  tokens of prompt and completion together
    vllm            vLLM's options, by vLLM's names
    whole_leases    whether to load new weights only between leases
    sampling        sampling params for training and, unless evaluation has its own engine, evaluation
    """

    run: str
    model: str
    kind: Literal["vllm", "transformers"]
    context_tokens: int
    vllm: dict[str, Any] = {}
    whole_leases: bool = False
    sampling: tuple[SamplingParams, ...] = ()


def start_engine(
    spec: EngineSpec, model: str | None = None, engine: Mapping[str, Any] | None = None, *, verifiable: bool = False
) -> Engine:
    """Start an engine in this process.

    model       folder or Hub name; default: the spec's
    engine      options of the section [engine] that override the spec's
    verifiable  whether the engine will sample verifiable completions

    Raises SamplerError if it cannot be started, and ConfigError for unknown options.
    """
    path = str(Path(model or spec.model).expanduser())
    options = {**spec.vllm, **EngineOptions.from_table(engine or {}).to_vllm_options()}
    if spec.kind == "transformers":
        from train.sampling.transformers import TransformersSampler

        return TransformersSampler(path, context_tokens=spec.context_tokens)
    from train.sampling.vllm import VllmSampler

    return VllmSampler(path, verifiable=verifiable, **options)


def clear_trainer_environment() -> None:
    """Remove the trainer's rank from the environment, and keep vLLM's engine core in this process."""
    for name in [name for name in os.environ if name.startswith(_TORCHRUN)]:
        del os.environ[name]
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # to change weights between two steps of the engine


def split_gpus_by_engine(gpus: Sequence[int], tensor_parallel: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each engine; their number is a multiple of `tensor_parallel` (train/config/checks.py)."""
    return [tuple(gpus[first : first + tensor_parallel]) for first in range(0, len(gpus), tensor_parallel)]


def cuda_visible_devices(gpus: Sequence[int]) -> str:
    """Return CUDA_VISIBLE_DEVICES for these GPUs, numbered from 0 among the GPUs visible to the run.

    Raises SamplerError if the run sees fewer GPUs.
    """
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if seen and max(gpus) >= len(seen):
        raise SamplerError(
            f"engine.gpus: there is no GPU {max(gpus)}; CUDA_VISIBLE_DEVICES has {len(seen)}, counted from 0"
        )
    return ",".join(seen[gpu] if seen else str(gpu) for gpu in gpus)
