"""The sampler that a run's configuration asks for, ready to load weights.

MERGED The sampler of a command: a model in this process, or behind an address.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig

from sandbox.concurrency.timeouts import call_with_timeout
from train.config import Config, ModelConfig
from train.engine_options import EngineOptions
from train.errors import ConfigError, SamplerError
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import Sampler, UpdatableSampler
from train.sampling.text import NO_ARGUMENTS
from train.weights import nccl

if TYPE_CHECKING:
    from train.sampling.transformers import TransformersSampler
    from train.sampling.vllm import VllmSampler


def open_engine(config: Config) -> UpdatableSampler:
    """Start the engine. Raises SamplerError if it cannot be started, and ConfigError if its settings are impossible."""
    engine = config.engine
    if engine.kind == "vllm" and engine.gpus:
        from train.sampling.engine_processes import EngineProcesses

        path = str(Path(config.model.path).expanduser())
        return EngineProcesses(path, engine, _sampler_options(config, _context_tokens(config, path)))
    return open_engine_in_process(config)


def open_engine_in_process(config: Config) -> "TransformersSampler | VllmSampler":
    """Start the engine in this process. Raises SamplerError and ConfigError as `open_engine` does."""
    engine = config.engine
    if engine.kind == "vllm" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "engine.gpus: the trainer has several ranks, and none of them can hold the engine. Name GPUs that torchrun "
            "gives to no rank, for example the last ones of the machine"
        )
    path = str(Path(config.model.path).expanduser())
    context_tokens = _context_tokens(config, path)
    if engine.kind == "transformers":
        from train.sampling.transformers import TransformersSampler

        return TransformersSampler(
            path, context_tokens=context_tokens, template_arguments=config.prompt.template_arguments
        )
    return _vllm_here(config, path, _sampler_options(config, context_tokens))


def engine_spec(config: Config, run: str) -> EngineSpec:
    """Return what workers need in order to start engines for this run. Raises ConfigError as `open_engine` does."""
    path = str(Path(config.model.path).expanduser())
    context_tokens = _context_tokens(config, path)
    if Path(path).exists():
        path = str(Path(path).resolve())
    options = _vllm_options(config, context_tokens) if config.engine.kind == "vllm" else {}
    return EngineSpec(run, path, config.engine.kind, context_tokens, options)


def _sampler_options(config: Config, context_tokens: int) -> dict[str, Any]:
    return {
        **_vllm_options(config, context_tokens),
        **({"weight_transfer_config": {"backend": nccl.BACKEND}} if config.engine.transfer == nccl.BACKEND else {}),
        "template_arguments": dict(config.prompt.template_arguments),
    }


def _vllm_options(config: Config, context_tokens: int) -> dict[str, Any]:
    engine = config.engine
    given = EngineOptions(engine.concurrency or None, engine.options).for_vllm()
    return {
        **given,
        **_head(config.model, given.get("hf_overrides", {})),
        "max_model_len": context_tokens,
        "gpu_memory_utilization": engine.memory_share,
        "tensor_parallel_size": engine.tensor_parallel,
        "dtype": config.model.dtype,
    }


def _head(model: ModelConfig, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of vLLM that decide the precision of the head."""
    return {"hf_overrides": {**overrides, "head_dtype": "float32"}} if model.head_dtype == "float32" else {}


def _context_tokens(config: Config, path: str) -> int:
    """Return the number of tokens, prompt and answer together, that the engine must take.

    Raises ConfigError if the model's context is shorter.
    """
    longest_of_stages = max(stage.max_tokens for stage in config.stages)
    here = config.evaluation.where != "own"
    longest = max(longest_of_stages, config.evaluation.max_tokens if here else 0)
    if 0 < config.engine.max_model_len <= longest_of_stages:
        raise ConfigError(
            f"engine.max_model_len = {config.engine.max_model_len} leaves no room for a prompt beside answers of "
            f"{longest_of_stages} tokens. Give the tokens of both together, or 0"
        )
    wanted = config.engine.max_model_len or config.data.max_prompt_tokens + longest
    of_model: int = getattr(AutoConfig.from_pretrained(path), "max_position_embeddings", wanted)
    if longest_of_stages >= of_model:
        raise ConfigError(f"stages: {path} has a context of {of_model} tokens, prompt included. Lower max_tokens.")
    return min(wanted, of_model)


def _vllm_here(config: Config, path: str, options: dict[str, Any]) -> "VllmSampler":
    # vLLM's own process for its engine would take tensors only as files.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch

    from train.sampling.vllm import VllmSampler

    # Trainer and engine can take turns with the memory of one GPU only if nothing is sampled during training.
    takes_turns = config.rollout.pipeline == "sync" and config.evaluation.where != "idle"
    options["enable_sleep_mode"] = torch.cuda.is_available() and takes_turns
    seconds = config.engine.load_seconds
    return call_with_timeout(
        lambda: VllmSampler(path, **options), seconds, SamplerError(f"vLLM did not load {path} within {seconds:g} s")
    )


_DEFAULT = EngineOptions()


def open_sampler(
    model: str,
    base_url: str | None = None,
    engine: EngineOptions = _DEFAULT,
    template_arguments: Mapping[str, Any] = NO_ARGUMENTS,
) -> Sampler:
    """Load the model in this process or, given a URL, use the one of that name at an OpenAI-compatible server.

    engine              options of vLLM, and the number of requests that a server gets at once
    template_arguments  further arguments of the model's chat template

    Raises SamplerError, and ConfigError for options that a server does not take.
    """
    if base_url is not None:
        from train.sampling.http import MAX_CONCURRENT_REQUESTS, HttpSampler

        concurrency = engine.server_concurrency() or MAX_CONCURRENT_REQUESTS
        return HttpSampler(model, base_url, concurrency=concurrency, template_arguments=template_arguments)
    from train.sampling.vllm import VllmSampler

    return VllmSampler(model, template_arguments=template_arguments, **engine.for_vllm())
