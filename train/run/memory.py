"""An estimate of the memory that an engine needs, from the model's configuration alone.

MERGED An estimate of the memory that a learner needs, from the model's configuration alone: no weights are read.

Weights, gradients, moments and reference are exact. Activations are found by running layers on tensors without data
and counting what autograd keeps. CUDA, the allocators and a sampler on the same GPU come on top; see
train/run/memory.py.

MERGED What memory each role of a run needs, and whether the machines that were named have it; for `curate train --dry-run`.

GB are 10^9 bytes here, as in the names of GPUs, which have some percent more. Constants that are called approximate
are not derived from the model: they cover CUDA, NCCL, allocators and the processes themselves.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from train.config import Config, ModelConfig
from train.errors import ConfigError
from train.learning.attention import PACKED
from train.learning.logprob import CHUNK_TOKENS
from train.learning.policy import base_dtype, insert_lora_layers, layers, load_hf_config

# Approximate, on GPUs: CUDA and its graphs, and the largest step of an engine, in which it fills a prompt's cache.
ENGINE_OVERHEAD_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes on each GPU of an engine.

    weights                the model's, divided among the engine's GPUs
    cache_bytes_per_token  cache of keys and values of one token
    max_sequence_tokens    tokens of the longest prompt and answer together, which the cache must be able to hold
    """

    weights: int
    cache_bytes_per_token: int
    max_sequence_tokens: int


def estimate_engine_memory(
    model: ModelConfig, parameters: int, settings: Any, *, tensor_parallel: int, max_sequence_tokens: int
) -> EngineMemory:
    """Estimate the memory of an engine.

    parameters           the number of the model's parameters
    settings             the configuration of the model in transformers
    max_sequence_tokens  tokens of the longest prompt and answer together
    """
    text = settings.get_text_config()
    n_bytes = 2 if model.dtype == "bfloat16" else 4
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads_on_a_gpu = max(1, -(-heads // tensor_parallel))
    return EngineMemory(
        weights=-(-parameters * n_bytes // tensor_parallel),
        cache_bytes_per_token=2 * text.num_hidden_layers * heads_on_a_gpu * width * n_bytes,
        max_sequence_tokens=min(max_sequence_tokens, getattr(text, "max_position_embeddings", max_sequence_tokens)),
    )


_COUNTED_TOKENS = 64
_AUTOCAST = 1.5  # approximate: on one GPU, the residual stream and what norms keep of it are float32
_OF_A_HEAD_WEIGHT = 8  # bytes: its gradient, and what a chunk adds to it, both in float32
_VISITING_BYTES = 10**9  # moments that are on a GPU at once although their home is the CPU (offload.py)
_OF_A_LOGIT = 20  # bytes: of float32, the product, the same by temperature, probability and two gradients in backward


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
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self)[2:])

    @property
    def resident_bytes(self) -> int:
        """The bytes that stay while the learner rests; gradients and activations do not."""
        return self.weights + self.moments + self.reference


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


def _empty_model(config: Any, model: ModelConfig | None, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        if model is not None and model.lora_rank:
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


GB = 10**9
_MACHINE_GPUS = 8
_STATE_BYTES = 12  # of a trained weight in a checkpoint: itself and its two moments, in float32
_GPU_OVERHEAD_BYTES = 3 * GB  # approximate: CUDA, NCCL, and what the allocator cannot use
_SLEEPING_BYTES = 2 * GB  # approximate: what an engine that sleeps keeps of a GPU
_PROCESS_BYTES = 4 * GB  # approximate: memory of the machine for a process that uses a GPU
_CPU_PROCESS_BYTES = GB // 2  # approximate: the same without GPU
_CPU_CACHE_BYTES = 2 * 2**30  # of an engine on a CPU, see train/sampling/vllm.py
_VERSIONS = 2  # of the weights that are kept for engines in other processes: the newest and the one before


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of a run, each with up to 8 GPUs.

    gpus     GPUs of all machines together; 0: a machine without GPU
    gpu_gb   memory of a GPU
    host_gb  memory of each machine; 0: unknown, and not judged
    """

    gpus: int
    gpu_gb: float = 80.0
    host_gb: float = 0.0

    @property
    def first_machine_gpus(self) -> int:
        return min(self.gpus, _MACHINE_GPUS)


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a role needs of one GPU, or of one machine.

    bytes_by_purpose  bytes by purpose
    available         bytes that are there, or 0 if that is unknown
    advice            what to change if they do not suffice
    """

    scope: str
    bytes_by_purpose: dict[str, float]
    available: float
    advice: str

    @property
    def total(self) -> float:
        return sum(self.bytes_by_purpose.values())

    @property
    def fits(self) -> bool:
        return not self.available or self.total <= self.available

    def line(self) -> str:
        parts = ", ".join(f"{name} {size / GB:.1f}" for name, size in self.bytes_by_purpose.items() if size >= GB / 100)
        has = f" of {self.available / GB:.4g}" if self.available else ""
        return f"{self.scope:<22} {parts}: {self.total / GB:.1f}{has}"


def memory_needs(config: Config, machines: Machines) -> Iterator[MemoryNeed]:
    """Yield what each role needs. Raises ConfigError if the GPUs cannot be divided as the configuration says."""
    ranks, engines = _division(config, machines)
    shard = config.ranks.shard or ranks
    if ranks % shard:
        raise ConfigError(f"ranks.shard = {shard}: the number of the learner's GPUs, {ranks}, is not a multiple of it")
    if ranks % config.ranks.context:
        raise ConfigError(
            f"ranks.context = {config.ranks.context}: the number of the learner's GPUs, {ranks}, is not a multiple of "
            "it"
        )
    learner = estimate_run(config, ranks=shard)
    engine = _engine(config, learner.parameters)
    if machines.gpus:
        yield from _on_gpus(config, machines, ranks, engines, learner, engine)
        if _evaluates_beside(config):
            yield _evaluation(config, machines, learner)
    yield from _on_hosts(config, machines, ranks, engines, learner, engine)


def format_memory_needs(config: Config, machines: Machines) -> Iterator[str]:
    """Yield a line for each need. Raises ConfigError after the last one if the machines do not have enough."""
    missing = []
    for need in memory_needs(config, machines):
        yield need.line()
        if not need.fits:
            missing.append(need)
    for need in missing:
        raise ConfigError(
            f"{need.scope} needs {need.total / GB:.1f} GB and has {need.available / GB:.4g}. {need.advice}, "
            "or use more GPUs"
        )


def _division(config: Config, machines: Machines) -> tuple[int, int]:
    """Return the number of the learner's ranks, and of the GPUs of engines that this command starts."""
    engine, gpus = config.engine, len(config.engine.gpus)
    starts_engines = config.rollout.pipeline != "async" or config.workers.local
    for_evaluation = config.evaluation.gpus if machines.gpus else ()
    if for_evaluation and max(for_evaluation) >= machines.first_machine_gpus:
        raise ConfigError(
            f"evaluation.gpus: there is no GPU {max(for_evaluation)}; they are counted from 0 on each machine"
        )
    n_others = machines.gpus - len(for_evaluation)
    if for_evaluation and not n_others:
        raise ConfigError("evaluation.gpus: no GPU is left for the learner")
    if not starts_engines:
        return max(n_others, 1), 0
    if not gpus:
        if n_others > 1:
            raise ConfigError(
                f"engine.gpus: {n_others} GPUs would all be the learner's. Name those of the engines, such as the "
                "last ones of the first machine"
            )
        return 1, 0
    if not machines.gpus:
        return 1, gpus
    if max(engine.gpus) >= machines.first_machine_gpus:
        raise ConfigError(f"engine.gpus: there is no GPU {max(engine.gpus)}; they are counted from 0 on each machine")
    if n_others <= gpus:
        raise ConfigError("engine.gpus: no GPU is left for the learner")
    return n_others - gpus, gpus


def _evaluates_beside(config: Config) -> bool:
    return config.evaluation.where == "own" and bool(config.evaluation.dataset or config.evaluation.suites)


def _engine(config: Config, parameters: int) -> EngineMemory:
    answers = [stage.max_tokens for stage in config.stages]
    if not _evaluates_beside(config):
        answers.append(config.evaluation.max_tokens)
    return estimate_engine_memory(
        config.model,
        parameters,
        load_hf_config(config.model.path),
        tensor_parallel=config.engine.tensor_parallel,
        max_sequence_tokens=config.engine.max_model_len or config.data.max_prompt_tokens + max(answers),
    )


def _evaluation(config: Config, machines: Machines, learner: LearnerMemory) -> MemoryNeed:
    """Return what the engine needs that evaluates beside the run."""
    settings = config.evaluation
    memory = estimate_engine_memory(
        config.model,
        learner.parameters,
        load_hf_config(config.model.path),
        tensor_parallel=settings.tensor_parallel,
        max_sequence_tokens=config.data.max_prompt_tokens
        + (settings.max_tokens or max(stage.max_tokens for stage in config.stages)),
    )
    n = len(settings.gpus)
    return MemoryNeed(
        f"each of {n} evaluation GPUs" if n else "evaluation on first GPU",
        _of_engine(memory),
        settings.memory_share * machines.gpu_gb * GB,
        "Raise evaluation.memory_share or evaluation.tensor_parallel, lower evaluation.max_tokens",
    )


def _of_engine(engine: EngineMemory) -> dict[str, float]:
    return {
        "weights": engine.weights,
        "cache of the longest answer": engine.cache_bytes_per_token * engine.max_sequence_tokens,
        "overhead": ENGINE_OVERHEAD_BYTES,
    }


def _on_gpus(
    config: Config, machines: Machines, ranks: int, engines: int, learner: LearnerMemory, engine: EngineMemory
) -> Iterator[MemoryNeed]:
    gpu, share, settings = machines.gpu_gb * GB, config.engine.memory_share, config.evaluation
    offload = config.optimizer.offload
    there = gpu_memory(learner, offload=offload)
    parts = {field.name: float(getattr(there, field.name)) for field in fields(LearnerMemory)[2:]}
    parts["overhead"] = _GPU_OVERHEAD_BYTES
    advice = "Lower optimizer.row_tokens and the stages' max_tokens, set model.activation_checkpointing"
    lasting_bytes = float(learner.resident_bytes - (learner.moments if offload else 0))
    if not offload:
        advice += " or optimizer.offload"
    shares_gpu = not engines and ranks == 1
    beside = settings.memory_share * gpu if _evaluates_beside(config) and not settings.gpus else 0.0
    if beside:
        parts["evaluation"] = beside
        advice += ", lower evaluation.memory_share"
    if shares_gpu and config.rollout.pipeline == "sync" and settings.where != "idle":  # they take turns
        parts["sleeping engine"] = _SLEEPING_BYTES
        lasting = {
            "learner at rest": lasting_bytes,
            "engine": share * gpu,
            "evaluation": beside,
            "overhead": _GPU_OVERHEAD_BYTES,
        }
        yield MemoryNeed("GPU while sampling", lasting, gpu, "Lower engine.memory_share")
    elif shares_gpu:
        parts["engine"] = share * gpu
        advice += ", lower engine.memory_share"
    yield MemoryNeed(f"each of {ranks} GPUs", parts, gpu, advice)
    if engines or shares_gpu:
        n = f"each of {engines} engine GPUs" if engines else "engine on that GPU"
        yield MemoryNeed(
            n, _of_engine(engine), share * gpu, "Raise engine.memory_share or engine.tensor_parallel, lower max_tokens"
        )


def _on_hosts(
    config: Config, machines: Machines, ranks: int, engines: int, learner: LearnerMemory, engine: EngineMemory
) -> Iterator[MemoryNeed]:
    n_bytes = 2 if config.model.dtype == "bfloat16" else 4
    model = learner.parameters * n_bytes
    state = learner.trainable_parameters * _STATE_BYTES / (config.ranks.shard or ranks) + learner.reference
    process = _PROCESS_BYTES if machines.gpus else _CPU_PROCESS_BYTES
    for_evaluation = max(len(config.evaluation.gpus), 1) if _evaluates_beside(config) else 0
    others = engines + len(config.evaluation.gpus)
    ranks_of_first = min(ranks, machines.first_machine_gpus - others) if machines.gpus else ranks
    first = {
        "processes": float((ranks_of_first + engines + for_evaluation) * process),
        # One is written while the other is held: the last whole step, which is saved if the next one fails.
        "copies of the last step": 2 * state * ranks_of_first,
        "weights for engines": float(model * (_VERSIONS if engines or config.workers.listen else 1)),
    }
    at_home = float(learner.moments) if machines.gpus and config.optimizer.offload else 0.0
    if at_home:
        first["moments"] = at_home * ranks_of_first
    if not machines.gpus:
        first |= {field.name: float(getattr(learner, field.name)) for field in fields(LearnerMemory)[2:]}
        first |= {"engine": float(model + _CPU_CACHE_BYTES + process)}
        if for_evaluation:
            first |= {"evaluation": float(model + _CPU_CACHE_BYTES)}
    if config.most.memory_mb and config.sandbox.workers and config.sandbox.backend == "local":
        first["programs"] = config.most.memory_mb * config.sandbox.workers * 2.0**20
    advice = "Use machines with more memory"
    yield MemoryNeed("first machine", first, machines.host_gb * GB, advice)
    if machines.gpus > _MACHINE_GPUS:
        each = {"processes": float(process), "copies of the last step": 2 * state, "moments": at_home}
        other = {name: size * _MACHINE_GPUS for name, size in each.items()}
        yield MemoryNeed("each other machine", other, machines.host_gb * GB, advice)
