"""Functions that start a run's engine, or open a command's model or server."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import AutoConfig

from train.config import Config
from train.engine_options import EngineOptions
from train.errors import ConfigError
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import Sampler, SamplingParams, UpdatableSampler
from train.sampling.sampler_thread import SamplerThread
from train.sampling.text import NO_ARGUMENTS
from train.weights import nccl

if TYPE_CHECKING:
    from train.sampling.transformers import TransformersSampler
    from train.sampling.vllm import VllmSampler

_DEFAULT = EngineOptions()


def open_sampler(
    model: str, base_url: str | None = None, engine: EngineOptions = _DEFAULT,
    template_arguments: Mapping[str, Any] = NO_ARGUMENTS,
) -> Sampler:  # fmt: skip
    """Load the model in this process or, given a URL, connect to an OpenAI-compatible server.

    engine: options of vLLM, or of the requests to a server

    Raises SamplerError if that fails, and ConfigError for invalid options.
    """
    if base_url is not None:
        from train.sampling.http import MAX_CONCURRENT_REQUESTS, HttpSampler

        concurrency = engine.get_server_concurrency() or MAX_CONCURRENT_REQUESTS
        return HttpSampler(
            model, base_url, concurrency=concurrency, template_arguments=template_arguments, options=engine.request
        )
    engine.reject_request_fields()
    from train.sampling.vllm import VllmSampler

    return VllmSampler(model, template_arguments=template_arguments, **engine.to_vllm_options())


def open_engine(config: Config) -> UpdatableSampler:
    """Start the run's engine. Raises SamplerError if that fails, and ConfigError for impossible settings."""
    if config.engine.kind == "vllm" and config.engine.gpus:
        from train.sampling.engine_processes import EngineProcesses

        spec = build_engine_spec(config)
        return EngineProcesses(spec.model, config.engine, _build_vllm_options(config, spec))
    if config.engine.kind == "vllm":
        return SamplerThread(lambda: open_engine_in_process(config), seconds=config.engine.load_seconds)
    return open_engine_in_process(config)


def open_engine_in_process(config: Config) -> "TransformersSampler | VllmSampler":
    """Start the engine in the current thread, which must also call `sample`; see sampler_thread.py.

    Raises SamplerError and ConfigError as `open_engine` does.
    """
    engine = config.engine
    if engine.kind == "vllm" and os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigError(
            "engine.gpus: the trainer has several ranks, and no rank can hold the engine. Name GPUs without a rank, "
            "for example the last ones of the machine"
        )
    spec = build_engine_spec(config)
    if engine.kind == "transformers":
        from train.sampling.transformers import TransformersSampler

        return TransformersSampler(
            spec.model, context_tokens=spec.context_tokens, template_arguments=config.prompt.chat_arguments
        )
    # The engine core must run in this process to read its tensors.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch

    from train.sampling.vllm import VllmSampler

    # The engine frees its GPU memory for the trainer only if nothing is sampled during training.
    alternates = config.rollout.pipeline == "sync" and config.evaluation.where != "idle"
    options = {**_build_vllm_options(config, spec), "enable_sleep_mode": torch.cuda.is_available() and alternates}
    return VllmSampler(spec.model, **options)


def build_engine_spec(config: Config, run: str = "") -> EngineSpec:
    """Return the engine spec of a run. Raises ConfigError for impossible settings."""
    path = Path(config.model.path).expanduser()
    context_tokens = _compute_context_tokens(config, str(path))
    model = str(path.resolve() if path.exists() else path)
    engine = config.engine
    run_options: dict[str, Any] = {
        "whole_leases": not config.rollout.interrupt,
        "sampling": _build_sampling_params(config),
    }
    if engine.kind != "vllm":
        return EngineSpec(run, model, engine.kind, context_tokens, **run_options)
    options = EngineOptions(engine.concurrency or None, engine.options).to_vllm_options()
    if config.model.head_dtype == "float32":
        options["hf_overrides"] = {**options.get("hf_overrides", {}), "head_dtype": "float32"}
    options |= {
        "max_model_len": context_tokens,
        "gpu_memory_utilization": engine.memory_share,
        "tensor_parallel_size": engine.tensor_parallel,
        "dtype": config.model.dtype,
    }
    return EngineSpec(run, model, engine.kind, context_tokens, options, **run_options)


def _build_sampling_params(config: Config) -> tuple[SamplingParams, ...]:
    evaluation, longest = config.evaluation, max(stage.max_tokens for stage in config.stages)
    training = SamplingParams(config.rollout.temperature, 1.0, longest, logprobs=True)
    if evaluation.where == "own" or not (evaluation.dataset or evaluation.suites):
        return (training,)
    return training, SamplingParams(evaluation.temperature, evaluation.top_p, evaluation.max_tokens or longest)


def _build_vllm_options(config: Config, spec: EngineSpec) -> dict[str, Any]:
    transfer = {"weight_transfer_config": {"backend": nccl.BACKEND}} if config.engine.transfer == nccl.BACKEND else {}
    return {**spec.vllm, **transfer, "template_arguments": dict(config.prompt.chat_arguments)}


def _compute_context_tokens(config: Config, path: str) -> int:
    """Return the maximum tokens of prompt and completion. Raises ConfigError if the model's context is too short."""
    longest_of_stages = max(stage.max_tokens for stage in config.stages)
    longest = max(longest_of_stages, config.evaluation.max_tokens if config.evaluation.where != "own" else 0)
    if 0 < config.engine.max_model_len <= longest_of_stages:
        raise ConfigError(
            f"engine.max_model_len = {config.engine.max_model_len} leaves no tokens for a prompt with completions of "
            f"{longest_of_stages} tokens. Give the tokens of both together, or 0"
        )
    wanted = config.engine.max_model_len or config.data.max_prompt_tokens + longest
    model_context: int = getattr(AutoConfig.from_pretrained(path), "max_position_embeddings", wanted)
    if longest_of_stages >= model_context:
        raise ConfigError(f"stages: {path} has a context of {model_context} tokens, prompt included. Lower max_tokens.")
    return min(wanted, model_context)
