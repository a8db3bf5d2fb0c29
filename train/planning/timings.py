"""How long an engine and a learner take, from a GPU's data sheet or from measurements."""

from dataclasses import dataclass

_HALF = 2  # bytes of a number in half precision
_BANDWIDTH_SHARE = 0.6  # of a GPU's memory bandwidth that decoding reaches
_PREFILL_SHARE = 0.5  # of its arithmetic that reading a prompt reaches
_TRAINING_SHARE = 0.35  # of its arithmetic that training reaches; prime-rl measures 0.1 to 0.37, by model and length
_STEP_SECONDS = 0.0015  # overhead of one step of an engine
_CACHE_SHARE = 0.9  # of the memory that weights leave, the share for the cache
# For each parameter and token: forward, backward, the forward pass for the proximal policy, and once more forward,
# with activation checkpointing.
_FLOPS = 10
_LOAD_SECONDS = 2.0  # of an engine, for new weights
_PUBLISH_SECONDS = 5.0
_SWITCH_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as its data sheet describes it; flops are dense and in half precision."""

    name: str
    flops: float
    bandwidth: float  # bytes per second
    memory: float  # bytes


H100 = Gpu("H100 SXM", 989e12, 3.35e12, 80e9)
A100 = Gpu("A100 SXM 80 GB", 312e12, 2.04e12, 80e9)
H200 = Gpu("H200 SXM", 989e12, 4.8e12, 141e9)
GPUS = {"h100": H100, "a100": A100, "h200": H200}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What of a model decides how long it takes."""

    parameters: float
    kv_bytes_per_token: float  # of one token: 2 * layers * key heads * width of a head * bytes of a number


@dataclass(frozen=True, slots=True)
class EngineTimings:
    """How long one engine takes. A step draws one token for each of its answers, and takes

        step_seconds + answers * answer_seconds + tokens of their context * context_seconds

    prefill_seconds_per_token  for each token of a prompt, or of a cache that is computed again
    load_seconds               for taking in new weights
    cache_tokens               tokens that the cache holds
    max_concurrent             answers that the engine draws at once
    """

    step_seconds: float
    step_seconds_per_answer: float
    step_seconds_per_context_token: float
    prefill_seconds_per_token: float
    load_seconds: float
    cache_tokens: float
    max_concurrent: int = 256


@dataclass(frozen=True, slots=True)
class LearnerTimings:
    """How long the learner takes.

    seconds_per_token  for each token of a batch, prompts included
    batch_seconds      for each batch, whatever its size
    publish_seconds    from the end of a batch until engines can fetch the weights
    switch_seconds     for changing between sampling and training on the same GPUs, there and back
    """

    seconds_per_token: float
    batch_seconds: float
    publish_seconds: float
    switch_seconds: float = 0.0


def estimate_engine_timings(model: ModelSize, gpu: Gpu, *, gpus: int) -> EngineTimings:
    """Return the rates of an engine on so many GPUs. Raises ValueError if the model does not fit."""
    bandwidth, weights = gpu.bandwidth * gpus * _BANDWIDTH_SHARE, model.parameters * _HALF
    room = (gpu.memory * gpus - weights) * _CACHE_SHARE
    if room <= 0:
        raise ValueError(f"{model.parameters / 1e9:.3g}B parameters do not fit into {gpus} x {gpu.name}")
    forward_seconds = 2 * model.parameters / (gpu.flops * gpus * _PREFILL_SHARE)
    return EngineTimings(
        step_seconds=weights / bandwidth + _STEP_SECONDS,
        step_seconds_per_answer=forward_seconds,
        step_seconds_per_context_token=model.kv_bytes_per_token / bandwidth,
        prefill_seconds_per_token=forward_seconds,
        load_seconds=_LOAD_SECONDS,
        cache_tokens=room / model.kv_bytes_per_token,
    )


def estimate_learner_timings(model: ModelSize, gpu: Gpu, *, gpus: int) -> LearnerTimings:
    """Return the rates of a learner on so many GPUs."""
    seconds_per_token = _FLOPS * model.parameters / (gpu.flops * gpus * _TRAINING_SHARE)
    return LearnerTimings(seconds_per_token, 0.0, _PUBLISH_SECONDS, _SWITCH_SECONDS)
