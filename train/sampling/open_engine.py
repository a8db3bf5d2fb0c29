"""The sampler that a run's configuration asks for, ready to take weights."""

import os
from pathlib import Path

from transformers import AutoConfig

from sandbox.concurrency.deadline import call_with_timeout
from train.config import Config
from train.errors import ConfigError
from train.sampling.protocol import SamplerError, TrainedSampler


def opened(config: Config) -> TrainedSampler:
    """Raises SamplerError where it cannot be started, ConfigError where it cannot be as it is to be."""
    if not config.engine.gpus and config.engine.kind == "vllm" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "engine.gpus: the trainer has several ranks, none of which can hold the engine. Name GPUs that torchrun "
            "gives to none of them, the last ones of the machine"
        )
    path = str(Path(config.model.path).expanduser())
    longest = max([stage.max_tokens for stage in config.stages] + [config.evaluation.max_tokens])
    most_tokens = config.engine.max_model_len or config.data.max_prompt_tokens + longest
    context = getattr(AutoConfig.from_pretrained(path), "max_position_embeddings", most_tokens)
    if max(stage.max_tokens for stage in config.stages) >= context:
        raise ConfigError(f"stages: {path} has a context of {context} tokens, prompt included. Lower max_tokens.")
    most_tokens = min(most_tokens, context)
    if config.engine.kind == "transformers":
        from train.sampling.transformers import TransformersSampler

        return TransformersSampler(path, most_tokens=most_tokens)
    options = {
        "max_model_len": most_tokens,
        "gpu_memory_utilization": config.engine.memory_share,
        "tensor_parallel_size": config.engine.tensor_parallel,
        "dtype": config.model.dtype,
    }
    if config.engine.gpus:
        from train.sampling.processes import SamplerProcesses

        return SamplerProcesses(path, config.engine, options)
    # vLLM's own process for its engine would take tensors only as files.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch

    from train.sampling.vllm import VllmSampler

    # On one GPU they take turns; only where nothing is sampled while others train.
    options["enable_sleep_mode"] = torch.cuda.is_available() and config.rollout.pipeline == "sync"
    seconds = config.engine.load_seconds
    return call_with_timeout(
        lambda: VllmSampler(path, **options),
        seconds,
        SamplerError(f"vLLM hangs: {path} was not loaded within {seconds:g} s"),
    )
