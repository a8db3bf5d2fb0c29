"""The sampler of a command: a model in this process, or behind an address."""

from train.sampling.protocol import Sampler


def open_sampler(model: str, base_url: str | None = None) -> Sampler:
    """Load the model in this process or, given a URL, use the one of that name at an OpenAI-compatible server.

    Raises SamplerError.
    """
    if base_url is not None:
        from train.sampling.http import HttpSampler

        return HttpSampler(model, base_url)
    from train.sampling.vllm import VllmSampler

    return VllmSampler(model)
