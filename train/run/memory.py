"""Estimates of the memory that each role of a run needs, from the model's configuration alone: no weights are read.

Of the learner, weights, gradients, moments and reference are exact. Activations are found by running layers on tensors
without data and counting what autograd keeps. Constants that are called approximate are not derived from the model:
they cover CUDA, NCCL, allocators and the processes themselves.

`curate train --dry-run` compares the needs with the machines that were named. GB are 10^9 bytes, as in the names of
GPUs, which have some percent more.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from train.config import Config, EngineConfig, EvaluationConfig, ModelConfig
from train.errors import ConfigError
from train.learning.attention import PACKED
from train.learning.logprob import CHUNK_TOKENS
from train.learning.policy import base_dtype, insert_lora_layers, layers, load_hf_config

GB = 10**9
_COUNTED_TOKENS = 64
_AUTOCAST = 1.5  # approximate: on one GPU, the residual stream and what norms keep of it are float32
_OF_A_HEAD_WEIGHT = 8  # bytes: its gradient, and what a chunk adds to it, both in float32
_VISITING_BYTES = GB  # moments that are on a GPU at once although their home is the CPU (optimizer.offload)
_OF_A_LOGIT = 20  # bytes: of float32, the product, the same by temperature, probability and two gradients in backward
_MACHINE_GPUS = 8
_STATE_BYTES = 12  # of a trained weight in a checkpoint: itself and its two moments, in float32
_GPU_OVERHEAD_BYTES = 3 * GB  # approximate: CUDA, NCCL, and what the allocator cannot use
# Approximate, on GPUs: CUDA and its graphs, and the largest step of an engine, in which it fills a prompt's cache.
_ENGINE_OVERHEAD_BYTES = 4 * 2**30
_SLEEPING_BYTES = 2 * GB  # approximate: what an engine that sleeps keeps of a GPU
_PROCESS_BYTES = 4 * GB  # approximate: memory of the machine for a process that uses a GPU
_CPU_PROCESS_BYTES = GB // 2  # approximate: the same without GPU
_CPU_CACHE_BYTES = 2 * 2**30  # of an engine on a CPU, see train/sampling/vllm.py
_VERSIONS = 2  # of the weights that are kept for engines in other processes: the newest and the one before


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    """The number of parameters, and the bytes on each GPU for each purpose."""

    parameters: int
    trainable_parameters: int
    weights: int  # as they are kept, and the copies with which the model computes
    gradients: int
    moments: int  # of AdamW
    reference: int  # the weights of the reference in k3
    activations: int  # for one row
    logits: int  # for one chunk, with the gradient of the head

    @property
    def bytes_by_purpose(self) -> dict[str, float]:
        return {field.name: float(getattr(self, field.name)) for field in fields(self)[2:]}

    @property
    def total(self) -> float:
        return sum(self.bytes_by_purpose.values())


def row_tokens(config: Config) -> int:
    """Return the tokens of the longest row: at least those of the longest prompt with its answer."""
    max_length = max(stage.max_tokens for stage in config.stages) + config.data.max_prompt_tokens
    return max(config.optimizer.row_tokens, max_length)


def estimate_run(config: Config, *, ranks: int) -> LearnerMemory:
    """Estimate the memory of a run's learner, if so many ranks have one copy of the weights together.

    With `optimizer.offload`, the moments are counted all the same; `gpu_memory` leaves out those on the CPU. Raises
    LearnerError if the model cannot be found.
    """
    part = -(-row_tokens(config) // config.ranks.context)  # of a row that ranks share
    return estimate(config.model, row_tokens=part, reference=config.objective.kl > 0, ranks=ranks)


def gpu_memory(memory: LearnerMemory, *, offload: bool) -> LearnerMemory:
    """Return the part of the memory that is on the GPU while the learner updates the weights."""
    return replace(memory, moments=min(memory.moments, _VISITING_BYTES)) if offload else memory


def estimate(model: ModelConfig, *, row_tokens: int, reference: bool, ranks: int = 1) -> LearnerMemory:
    """Estimate the memory if the longest row has `row_tokens`. Raises LearnerError if the model cannot be found."""
    config = load_hf_config(model.path)
    dtype = torch.bfloat16 if model.dtype == "bfloat16" else torch.float32
    causal = _empty_model(config, model)
    parameters = sum(weight.numel() for weight in causal.parameters())
    trained = sum(weight.numel() for weight in causal.parameters() if weight.requires_grad)
    lasting = trained * 4 + (parameters - trained) * base_dtype(model).itemsize
    n_layers = len(layers(causal))
    of_a_layer = sum(each.numel() for each in layers(causal)[0].parameters())
    head = causal.get_output_embeddings().weight
    if ranks > 1:  # a layer computes while the next is gathered; what is not in layers is whole all the time
        copies = (parameters - (n_layers - 2) * of_a_layer) * dtype.itemsize
        if not model.lora_rank:  # whole gradients of a layer, which are then added up in float32
            copies += of_a_layer * (dtype.itemsize + 4)
    else:  # a copy of each weight that has another precision than the computation
        copies = parameters * dtype.itemsize if dtype != base_dtype(model) else 0
    autocast = ranks == 1 and dtype != torch.float32
    kind: Any = type(config)
    settings = config.to_json_string(use_diff=False)
    saved = _saved_bytes_per_layer(kind, settings, model, dtype) * (_AUTOCAST if autocast else 1)
    residual = head.shape[1] * (4 if autocast else dtype.itemsize)
    a_token = n_layers * residual + saved if model.activation_checkpointing else n_layers * saved
    return LearnerMemory(
        parameters=parameters,
        trainable_parameters=trained,
        weights=-(-lasting // ranks) + copies,
        gradients=-(-trained * 4 // ranks),
        moments=-(-trained * 8 // ranks),
        reference=-(-trained * 4 // ranks) if reference else 0,
        activations=int(a_token * row_tokens),
        logits=min(CHUNK_TOKENS, row_tokens) * head.shape[0] * _OF_A_LOGIT
        + head.numel() * _OF_A_HEAD_WEIGHT * bool(head.requires_grad),
    )


def _empty_model(config: Any, model: ModelConfig, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        if model.lora_rank:
            insert_lora_layers(causal, model)
    return causal


@cache  # a plan asks for several numbers of ranks
def _saved_bytes_per_layer(kind: Any, settings: str, model: ModelConfig, dtype: torch.dtype) -> float:
    """Return the bytes per token that autograd keeps of one layer: those of two layers minus those of one.

    kind      class of the model's configuration
    settings  the configuration as JSON
    """
    saved = []
    for n_layers in (1, 2):
        shallow = kind.from_dict(json.loads(settings) | {"num_hidden_layers": n_layers, "layer_types": None})
        causal = _empty_model(shallow, model, dtype)
        causal.set_attn_implementation(PACKED)
        weights = {weight.untyped_storage()._cdata for weight in causal.parameters()}
        saved_bytes: dict[int, int] = {}  # by storage, so that tensors that share one are counted once

        def keep(tensor: Tensor, weights: set[int] = weights, saved_bytes: dict[int, int] = saved_bytes) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in weights:
                saved_bytes[storage._cdata] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            made = causal.get_decoder()(
                input_ids=torch.zeros(1, _COUNTED_TOKENS, dtype=torch.int64, device="meta"),
                position_ids=torch.zeros(1, _COUNTED_TOKENS, dtype=torch.int64, device="meta"),
                use_cache=False,
                lengths=((1,) * _COUNTED_TOKENS,),  # a fused kernel keeps no attention matrix: almost none is counted
            )
        del made
        saved.append(sum(saved_bytes.values()))
    return (saved[1] - saved[0]) / _COUNTED_TOKENS


def cache_bytes_per_token(text_config: Any, number_bytes: int, *, tensor_parallel: int = 1) -> int:
    """Return the bytes of one token's keys and values on each GPU of an engine.

    text_config   the configuration of the language model in transformers
    number_bytes  bytes of a number in the cache
    """
    heads = getattr(text_config, "num_key_value_heads", None) or text_config.num_attention_heads
    width = getattr(text_config, "head_dim", None) or text_config.hidden_size // text_config.num_attention_heads
    return int(2 * text_config.num_hidden_layers * -(-heads // tensor_parallel) * width * number_bytes)


def _number_bytes(config: Config) -> int:
    return 2 if config.model.dtype == "bfloat16" else 4


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of a run, each with up to 8 GPUs."""

    gpus: int  # of all machines together; 0: a machine without GPU
    gpu_gb: float = 80.0  # memory of a GPU
    host_gb: float = 0.0  # memory of each machine; 0: unknown, and not judged

    @property
    def first_machine_gpus(self) -> int:
        return min(self.gpus, _MACHINE_GPUS)


class MemoryNeed(NamedTuple):
    """What a role needs of one GPU, or of one machine."""

    scope: str
    bytes_by_purpose: dict[str, float]
    available: float  # bytes that are there, or 0 if that is unknown
    advice: str  # what to change if they do not suffice

    @property
    def total(self) -> float:
        return sum(self.bytes_by_purpose.values())


def format_memory_needs(config: Config, machines: Machines) -> Iterator[str]:
    """Yield a line for each need. Raises ConfigError after the last one if the machines do not have enough."""
    needs = list(memory_needs(config, machines))
    for need in needs:
        parts = ", ".join(f"{name} {size / GB:.1f}" for name, size in need.bytes_by_purpose.items() if size >= GB / 100)
        has = f" of {need.available / GB:.4g}" if need.available else ""
        yield f"{need.scope:<22} {parts}: {need.total / GB:.1f}{has}"
    for need in needs:
        if need.available and need.total > need.available:
            raise ConfigError(
                f"{need.scope} needs {need.total / GB:.1f} GB and has {need.available / GB:.4g}. {need.advice}, "
                "or use more GPUs"
            )


def memory_needs(config: Config, machines: Machines) -> Iterator[MemoryNeed]:
    """Yield what each role needs. Raises ConfigError if the GPUs cannot be divided as the configuration says."""
    ranks, engine_gpus = _division(config, machines)
    shard = config.ranks.shard or ranks
    for key, value in (("shard", shard), ("context", config.ranks.context)):
        if ranks % value:
            raise ConfigError(
                f"ranks.{key} = {value}: the number of the learner's GPUs, {ranks}, is not a multiple of it"
            )
    learner = estimate_run(config, ranks=shard)
    if machines.gpus:
        yield from _gpu_needs(config, machines, ranks, engine_gpus, learner)
    yield from _host_needs(config, machines, ranks, engine_gpus, learner)


def _division(config: Config, machines: Machines) -> tuple[int, int]:
    """Return the number of the learner's ranks, and of the GPUs of engines that this command starts."""
    starts_none = config.rollout.pipeline == "async" and not config.workers.local
    engines = () if starts_none else config.engine.gpus
    if not machines.gpus:
        return 1, len(engines)
    n_left = machines.gpus
    for key, gpus in (("evaluation.gpus", config.evaluation.gpus), ("engine.gpus", engines)):
        if gpus and max(gpus) >= machines.first_machine_gpus:
            raise ConfigError(f"{key}: there is no GPU {max(gpus)}; they are counted from 0 on each machine")
        n_left -= len(gpus)
        if n_left <= 0:
            raise ConfigError(f"{key}: no GPU is left for the learner")
    if not engines and not starts_none and n_left > 1:
        raise ConfigError(
            f"engine.gpus: {n_left} GPUs would all be the learner's. Name those of the engines, such as the last "
            "ones of the first machine"
        )
    return n_left, len(engines)


def _evaluates_beside(config: Config) -> bool:
    return config.evaluation.where == "own" and bool(config.evaluation.dataset or config.evaluation.suites)


def _gpu_needs(
    config: Config, machines: Machines, ranks: int, engine_gpus: int, learner: LearnerMemory
) -> Iterator[MemoryNeed]:
    gpu, engine, evaluation = machines.gpu_gb * GB, config.engine, config.evaluation
    offload, evaluates_beside = config.optimizer.offload, _evaluates_beside(config)
    parts = {**gpu_memory(learner, offload=offload).bytes_by_purpose, "overhead": _GPU_OVERHEAD_BYTES}
    advice = "Lower optimizer.row_tokens and the stages' max_tokens, set model.activation_checkpointing"
    advice += "" if offload else " or optimizer.offload"
    shares_gpu = not engine_gpus and ranks == 1
    beside = evaluation.memory_share * gpu if evaluates_beside and not evaluation.gpus else 0.0
    if beside:
        parts["evaluation"] = beside
        advice += ", lower evaluation.memory_share"
    if shares_gpu and config.rollout.pipeline == "sync" and evaluation.where != "idle":  # they take turns
        parts["sleeping engine"] = _SLEEPING_BYTES
        while_sampling = {
            "learner at rest": learner.weights + learner.reference + (0 if offload else learner.moments),
            "engine": engine.memory_share * gpu,
            "evaluation": beside,
            "overhead": _GPU_OVERHEAD_BYTES,
        }
        yield MemoryNeed("GPU while sampling", while_sampling, gpu, "Lower engine.memory_share")
    elif shares_gpu:
        parts["engine"] = engine.memory_share * gpu
        advice += ", lower engine.memory_share"
    yield MemoryNeed(f"each of {ranks} GPUs", parts, gpu, advice)

    longest, prompt = max(stage.max_tokens for stage in config.stages), config.data.max_prompt_tokens
    if engine_gpus or shares_gpu:
        answer = longest if evaluates_beside else max(longest, evaluation.max_tokens)
        scope = f"each of {engine_gpus} engine GPUs" if engine_gpus else "engine on that GPU"
        advice = "Raise engine.memory_share or engine.tensor_parallel, lower max_tokens"
        yield _engine_need(scope, config, engine, learner, engine.max_model_len or prompt + answer, gpu, advice)
    if evaluates_beside:
        on = f"each of {len(evaluation.gpus)} evaluation GPUs" if evaluation.gpus else "evaluation on first GPU"
        advice = "Raise evaluation.memory_share or evaluation.tensor_parallel, lower evaluation.max_tokens"
        yield _engine_need(on, config, evaluation, learner, prompt + (evaluation.max_tokens or longest), gpu, advice)


def _engine_need(
    scope: str, config: Config, section: EngineConfig | EvaluationConfig, learner: LearnerMemory, max_tokens: int,
    gpu: float, advice: str,
) -> MemoryNeed:  # fmt: skip
    """Return what an engine needs of each of its GPUs.

    section     the section with its tensor_parallel and memory_share
    max_tokens  tokens of the longest prompt and answer together, which the cache must be able to hold
    gpu         bytes of a GPU
    """
    text_config, number_bytes = load_hf_config(config.model.path).get_text_config(), _number_bytes(config)
    of_a_token = cache_bytes_per_token(text_config, number_bytes, tensor_parallel=section.tensor_parallel)
    purposes: dict[str, float] = {
        "weights": -(-learner.parameters * number_bytes // section.tensor_parallel),
        "cache of the longest answer": of_a_token
        * min(max_tokens, getattr(text_config, "max_position_embeddings", max_tokens)),
        "overhead": _ENGINE_OVERHEAD_BYTES,
    }
    return MemoryNeed(scope, purposes, section.memory_share * gpu, advice)


def _host_needs(
    config: Config, machines: Machines, ranks: int, engine_gpus: int, learner: LearnerMemory
) -> Iterator[MemoryNeed]:
    model = learner.parameters * _number_bytes(config)
    state = learner.trainable_parameters * _STATE_BYTES / (config.ranks.shard or ranks) + learner.reference
    process = _PROCESS_BYTES if machines.gpus else _CPU_PROCESS_BYTES
    evaluation_processes = max(len(config.evaluation.gpus), 1) if _evaluates_beside(config) else 0
    others = engine_gpus + len(config.evaluation.gpus)
    ranks_of_first = min(ranks, machines.first_machine_gpus - others) if machines.gpus else ranks
    moments = learner.moments if machines.gpus and config.optimizer.offload else 0
    first: dict[str, float] = {
        "processes": (ranks_of_first + engine_gpus + evaluation_processes) * process,
        # One is written while the other is held: the last whole step, which is saved if the next one fails.
        "copies of the last step": 2 * state * ranks_of_first,
        "weights for engines": model * (_VERSIONS if engine_gpus or config.workers.listen else 1),
    }
    if moments:
        first["moments"] = moments * ranks_of_first
    if not machines.gpus:
        first |= learner.bytes_by_purpose | {"engine": model + _CPU_CACHE_BYTES + process}
        if evaluation_processes:
            first["evaluation"] = model + _CPU_CACHE_BYTES
    if config.most.memory_mb and config.sandbox.workers and config.sandbox.backend == "local":
        first["programs"] = config.most.memory_mb * config.sandbox.workers * 2**20
    advice = "Use machines with more memory"
    yield MemoryNeed("first machine", first, machines.host_gb * GB, advice)
    if machines.gpus > _MACHINE_GPUS:
        each = {"processes": process, "copies of the last step": 2 * state, "moments": moments}
        other = {name: size * _MACHINE_GPUS for name, size in each.items()}
        yield MemoryNeed("each other machine", other, machines.host_gb * GB, advice)
