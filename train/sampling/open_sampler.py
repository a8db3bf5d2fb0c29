"""The sampler of a command: a model in this process, or behind an address."""

from collections.abc import Mapping
from typing import Any

from train.engine_options import EngineOptions
from train.sampling.chat_template import NO_ARGUMENTS
from train.sampling.protocol import Sampler

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
