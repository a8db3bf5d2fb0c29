"""The engine spec of a run, and the environment of engine processes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from train.engine_options import EngineOptions
from train.errors import SamplerError
from train.sampling.protocol import Engine, SamplingParams

# Prefixes of torchrun's environment variables.
_TORCHRUN = ("TORCHELASTIC_", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
             "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_")  # fmt: skip


class EngineSpec(Struct, frozen=True):
    """Options of a run's engines, derived from the configuration by open_engine.py.

    run             name of the run
    model           folder or Hub id; the run's weights replace its weights before sampling
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

    model       folder or Hub id; None: the spec's
    engine      options of the section [engine], which override the spec's
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
    """Remove torchrun's variables from the environment, and run vLLM's engine core in this process."""
    for name in [name for name in os.environ if name.startswith(_TORCHRUN)]:
        del os.environ[name]
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # needed to load weights between two steps


def split_gpus_by_engine(gpus: Sequence[int], tensor_parallel: int) -> list[tuple[int, ...]]:
    """Return the GPUs of each engine. The number of GPUs is a multiple of `tensor_parallel`."""
    return [tuple(gpus[first : first + tensor_parallel]) for first in range(0, len(gpus), tensor_parallel)]


def resolve_visible_devices(gpus: Sequence[int]) -> str:
    """Return CUDA_VISIBLE_DEVICES for GPUs given as indices into the run's CUDA_VISIBLE_DEVICES.

    Raises SamplerError if an index is out of range.
    """
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if visible and max(gpus) >= len(visible):
        raise SamplerError(
            f"engine.gpus: there is no GPU {max(gpus)}; CUDA_VISIBLE_DEVICES lists {len(visible)} GPUs, indexed from 0"
        )
    return ",".join(visible[gpu] if visible else str(gpu) for gpu in gpus)
