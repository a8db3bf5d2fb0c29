"""Estimates of the memory of each role in a run, from the model's configuration alone.

The sizes of the learner's weights, gradients, moments and reference are exact. Activations are measured: the live bytes
in the learner's forward and backward pass on tensors without data (FakeTensorMode). Constants marked "approximate"
cover CUDA, NCCL, allocators and processes. A GB is 10^9 bytes.
"""

import json
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from train.config import Config, EngineConfig, EvaluationConfig, ModelConfig
from train.errors import ConfigError
from train.learning.attention import PACKED
from train.learning.policy import Policy, add_lora_and_checkpointing, find_layers, load_hf_config
from train.learning.sequences import PackedRow
from train.rollouts.reward_model import count_parameters

GB = 10**9
_MEASURED_LAYERS = (2, 3)  # layers of the measured models; memory is extrapolated linearly to all layers
_MOMENT_BUFFER_BYTES = GB  # GPU buffer for offloaded optimizer moments (optimizer.offload)
_MACHINE_GPUS = 8
_TRAINED_BYTES = 16  # bytes per weight of a trained reward model: weight, gradient and two moments, in float32
_STATE_BYTES = 12  # bytes per trained weight in a checkpoint: weight and two moments, in float32
_GPU_OVERHEAD_BYTES = 5 * GB  # approximate: CUDA, NCCL, fragmentation; 4.4 GB, with 37 GB allocated, on an H100
# approximate, on a GPU: CUDA and its graphs, and the activations of the largest prefill
_ENGINE_OVERHEAD_BYTES = 4 * 2**30
_SLEEPING_BYTES = GB  # approximate: GPU memory of a sleeping engine; 0.65 GB on an H100
_PROCESS_BYTES = 4 * GB  # approximate: host memory of a process that uses a GPU
_CPU_PROCESS_BYTES = GB // 2  # approximate: host memory of a process without GPU
_CPU_CACHE_BYTES = 2 * 2**30  # KV cache of an engine on a CPU; see train/sampling/vllm.py
_REWARD_BATCH_BYTES = 2 * GB  # approximate: activations of a batch in the reward model
_VERSIONS = 2  # weight versions retained for engines in other processes: the newest and the previous one


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    """The learner's number of parameters, and its bytes on each GPU by purpose.

    weights      in the dtype in which they are stored
    reference    weights of the reference policy in the KL penalty
    activations  peak for the longest row, with logits and the copies of weights used in computation
    """

    parameters: int
    trainable_parameters: int
    weights: int
    gradients: int
    moments: int
    reference: int
    activations: int

    @property
    def bytes_by_purpose(self) -> dict[str, float]:
        return {field.name: float(getattr(self, field.name)) for field in fields(self)[2:]}

    @property
    def total(self) -> float:
        return sum(self.bytes_by_purpose.values())


def compute_row_tokens(config: Config) -> int:
    """Return the tokens of the longest packed row, which holds at least the longest prompt and completion."""
    max_length = max(stage.max_tokens for stage in config.stages) + config.data.max_prompt_tokens
    return max(config.optimizer.row_tokens, max_length)


def estimate_run_memory(config: Config, *, ranks: int) -> LearnerMemory:
    """Estimate the memory of a run's learner with weights sharded over `ranks` ranks.

    Includes moments even with `optimizer.offload`; see `exclude_offloaded_moments`. Raises LearnerError if the model
    cannot be found.
    """
    rank_tokens = -(-compute_row_tokens(config) // config.ranks.context)
    return estimate_learner_memory(config.model, row_tokens=rank_tokens, reference=config.objective.kl > 0, ranks=ranks)


def exclude_offloaded_moments(memory: LearnerMemory, *, offload: bool) -> LearnerMemory:
    """Exclude offloaded moments, except for a GPU buffer that reuses the memory of freed activations."""
    return replace(memory, moments=max(_MOMENT_BUFFER_BYTES - memory.activations, 0)) if offload else memory


def estimate_learner_memory(model: ModelConfig, *, row_tokens: int, reference: bool, ranks: int = 1) -> LearnerMemory:
    """Estimate the learner's memory with weights sharded over `ranks` ranks.

    row_tokens  tokens of the longest row on each rank
    reference   whether the learner holds a reference policy

    Raises LearnerError if the model cannot be found.
    """
    config = load_hf_config(model.path)
    dtype = torch.bfloat16 if model.dtype == "bfloat16" else torch.float32
    causal = build_model_without_data(config, model)
    parameters = sum(weight.numel() for weight in causal.parameters())
    trained = sum(weight.numel() for weight in causal.parameters() if weight.requires_grad)
    kept = sum(weight.nbytes for weight in causal.parameters())
    n_layers = len(find_layers(causal))
    in_layer = sum(weight.numel() for weight in find_layers(causal)[0].parameters())
    kind: Any = type(config)
    measured = _measure_row_peak_bytes(kind, config.to_json_string(use_diff=False), model, row_tokens, ranks == 1)
    peaks = [few + (many - few) * (n_layers - _MEASURED_LAYERS[0]) for few, many in zip(*measured, strict=True)]
    if ranks > 1:
        # FSDP2 gathers a layer and prefetches the next one. Weights outside of layers stay gathered for the whole pass.
        # FSDP2 reduces their gradients over the ranks, in float32, after the backward pass of all layers.
        whole, layer = (parameters - n_layers * in_layer) * dtype.itemsize, in_layer * dtype.itemsize
        trains_all = not model.lora_rank
        layer_gradients, root_gradients = trains_all * in_layer * (dtype.itemsize + 4), trains_all * whole
        in_layers = whole + 2 * layer
        gathered = (in_layers, whole + layer, whole + layer, in_layers + layer_gradients + root_gradients)
        peaks = [peak + bytes_gathered for peak, bytes_gathered in zip(peaks, gathered, strict=True)]
        peaks.append(whole + root_gradients * (1 + 4 // dtype.itemsize))
    return LearnerMemory(
        parameters=parameters,
        trainable_parameters=trained,
        weights=-(-kept // ranks),
        gradients=-(-trained * 4 // ranks),
        moments=-(-trained * 8 // ranks),
        reference=-(-trained * 4 // ranks) if reference else 0,
        activations=int(max(peaks)),
    )


def build_model_without_data(config: Any, model: ModelConfig) -> Any:
    """Return the learner's model without weight data: on the CPU in FakeTensorMode, else on the meta device."""
    from transformers import AutoModelForCausalLM

    with unset_fake_temporarily(), torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
        causal.train()
        causal.set_attn_implementation(PACKED)
        add_lora_and_checkpointing(causal, model)
    if active_fake_mode():
        replaced: dict[int, Tensor] = {}  # by id of the meta tensor, since tied weights share one
        for module in causal.modules():
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    if tensor is not None and id(tensor) not in replaced:
                        replaced[id(tensor)] = torch.empty(tensor.shape, dtype=tensor.dtype)
                        if isinstance(tensor, Parameter):
                            replaced[id(tensor)] = Parameter(replaced[id(tensor)], tensor.requires_grad)
                    tensors[name] = None if tensor is None else replaced[id(tensor)]
    return causal


@cache  # a plan estimates with several numbers of ranks
def _measure_row_peak_bytes(
    kind: Any, settings: str, model: ModelConfig, row_tokens: int, alone: bool
) -> tuple[list[float], list[float]]:
    """Return the peak bytes of activations in four phases, for each of _MEASURED_LAYERS.

    The phases: forward through layers, forward through the head, backward through the head, backward through layers.

    settings  the configuration as JSON
    alone     whether there is a single rank: autocast converts its weights, while FSDP holds converted weights
    """
    dtype = torch.bfloat16 if model.dtype == "bfloat16" else torch.float32
    measured = []
    for n_layers in _MEASURED_LAYERS:
        shallow = kind.from_dict(json.loads(settings) | {"num_hidden_layers": n_layers, "layer_types": None})
        with FakeTensorMode():
            causal = build_model_without_data(shallow, model)
            for weight in causal.parameters() if not alone else ():
                weight.data = weight.data.to(dtype)
            policy = Policy(causal, dtype, 1.0, autocast=alone, exact_logits=model.head_dtype == "float32")
            trained = [weight for weight in causal.parameters() if weight.requires_grad]
            for weight in trained:
                weight.grad = torch.zeros_like(weight)  # gradients accumulated from earlier rows
            index = torch.zeros(row_tokens, dtype=torch.int64)
            row = PackedRow(index, index, ((row_tokens,),), index, index, index, index)
            alive = LiveBytes([*causal.parameters(), *(weight.grad for weight in trained)])

            def end_decoder(module: Any, inputs: Any, output: Any, alive: "LiveBytes" = alive) -> None:
                alive.end_phase()
                output.last_hidden_state.register_hook(lambda gradient: alive.end_phase())

            causal.get_decoder().register_forward_hook(end_decoder)
            with alive:
                logp_R, _ = policy(row)
                alive.end_phase()
                logp_R.sum().backward()
                alive.end_phase()
        measured.append(alive.peaks)
    few, many = measured
    return few, many


class LiveBytes(TorchDispatchMode):
    """Counter of the bytes of live storages. ignored: tensors to exclude."""

    def __init__(self, ignored: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peaks: list[float] = []  # peak bytes of each phase
        self._bytes = self._peak = 0
        self._sizes = {tensor.untyped_storage()._cdata: 0 for tensor in ignored}

    def end_phase(self) -> None:
        self.peaks.append(self._peak)
        self._peak = self._bytes

    def add(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        self._peak = max(self._peak, self._bytes)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self.add(storage.nbytes())
                weakref.finalize(storage, self._free, storage._cdata)
        return result

    def _free(self, storage: int) -> None:
        self.add(-self._sizes.pop(storage))


def compute_token_cache_bytes(text_config: Any, number_bytes: int, *, tensor_parallel: int = 1) -> int:
    """Return the bytes of one token's keys and values on each GPU of an engine.

    text_config   the language model's configuration in transformers
    number_bytes  bytes of a number in the KV cache
    """
    heads = getattr(text_config, "num_key_value_heads", None) or text_config.num_attention_heads
    width = getattr(text_config, "head_dim", None) or text_config.hidden_size // text_config.num_attention_heads
    return int(2 * text_config.num_hidden_layers * -(-heads // tensor_parallel) * width * number_bytes)


def _get_number_bytes(config: Config) -> int:
    return 2 if config.model.dtype == "bfloat16" else 4


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines of a run, each with up to 8 GPUs.

    gpus     number of GPUs of all machines; 0: one machine without GPU
    host_gb  memory of a machine; 0: unknown, not checked
    ranks    number of the learner's ranks; 0: one for each GPU without an engine
    """

    gpus: int
    gpu_gb: float = 80.0
    host_gb: float = 0.0
    ranks: int = 0

    @property
    def first_machine_gpus(self) -> int:
        return min(self.gpus, _MACHINE_GPUS)


class MemoryNeed(NamedTuple):
    """The memory that a role needs on one GPU or one machine.

    scope      description of the GPU or machine
    available  available bytes; 0 if unknown
    advice     recommended changes if the need exceeds `available`
    """

    scope: str
    bytes_by_purpose: dict[str, float]
    available: float
    advice: str

    @property
    def total(self) -> float:
        return sum(self.bytes_by_purpose.values())


def format_memory_needs(needs: Sequence[MemoryNeed]) -> Iterator[str]:
    for need in needs:
        parts = ", ".join(f"{name} {size / GB:.1f}" for name, size in need.bytes_by_purpose.items() if size >= GB / 100)
        has = f" of {need.available / GB:.4g}" if need.available else ""
        yield f"{need.scope:<22} {parts}: {need.total / GB:.1f}{has}"


def estimate_memory_needs(config: Config, machines: Machines) -> Iterator[MemoryNeed]:
    """Yield the memory needs of each role. Raises ConfigError if the GPUs cannot be divided as configured."""
    ranks, engine_gpus = divide_gpus(config, machines)
    shard = config.ranks.shard or ranks
    for key, value in (("shard", shard), ("context", config.ranks.context)):
        if ranks % value:
            raise ConfigError(
                f"ranks.{key} = {value}: the number of the learner's GPUs, {ranks}, is not a multiple of it. Choose a "
                "divisor"
            )
    learner = estimate_run_memory(config, ranks=shard)
    if machines.gpus:
        yield from _estimate_gpu_needs(config, machines, ranks, engine_gpus, learner)
    yield from _estimate_host_needs(config, machines, ranks, engine_gpus, learner)


def divide_gpus(config: Config, machines: Machines) -> tuple[int, int]:
    """Return the number of the learner's ranks, and the number of GPUs for the engines that the trainer starts.

    Raises ConfigError if the configuration names GPUs that do not exist, or leaves none for the learner or engines.
    """
    starts_none = config.rollout.pipeline == "async" and not config.workers.local
    engines = () if starts_none else config.engine.gpus
    n_left = machines.gpus
    if not n_left:
        return 1, len(engines)
    model_gpu = () if config.reward.model_gpu is None else (config.reward.model_gpu,)
    for key, gpus in (
        ("reward.model_device", model_gpu), ("evaluation.gpus", config.evaluation.gpus), ("engine.gpus", engines)
    ):  # fmt: skip
        if gpus and max(gpus) >= machines.first_machine_gpus:
            raise ConfigError(f"{key}: there is no GPU {max(gpus)}; GPU indices start at 0 on each machine")
        n_left -= len(gpus)
        if n_left <= 0:
            raise ConfigError(f"{key}: no GPU is left for the learner. Name fewer GPUs")
    n_left = machines.ranks or n_left
    if not engines and not starts_none and n_left > 1:
        raise ConfigError(
            f"engine.gpus is empty, so the learner would get all {n_left} GPUs. Name GPUs for the engines, such as the "
            "last ones of the first machine"
        )
    return n_left, len(engines)


def _has_concurrent_evaluation(config: Config) -> bool:
    return config.evaluation.where == "own" and bool(config.evaluation.dataset or config.evaluation.suites)


def _estimate_gpu_needs(
    config: Config, machines: Machines, ranks: int, engine_gpus: int, learner: LearnerMemory
) -> Iterator[MemoryNeed]:
    gpu, engine, evaluation = machines.gpu_gb * GB, config.engine, config.evaluation
    offload, is_concurrent = config.optimizer.offload, _has_concurrent_evaluation(config)
    parts = {**exclude_offloaded_moments(learner, offload=offload).bytes_by_purpose, "overhead": _GPU_OVERHEAD_BYTES}
    advice = "Lower optimizer.row_tokens and the stages' max_tokens, set model.activation_checkpointing"
    advice += "" if offload else " or optimizer.offload"
    reward_model = _estimate_reward_model(config, 2)
    if config.reward.model_gpu is not None:
        yield MemoryNeed("GPU of reward model", reward_model, gpu, "Choose a smaller reward.model")
    elif config.reward.model_device != "cpu":
        parts |= reward_model  # on the first of the learner's GPUs
        advice += ", name a separate GPU in reward.model_device" if reward_model else ""
    shares_gpu = not engine_gpus and ranks == 1
    evaluation_bytes = evaluation.memory_share * gpu if is_concurrent and not evaluation.gpus else 0.0
    if evaluation_bytes:
        parts["evaluation"] = evaluation_bytes
        advice += ", lower evaluation.memory_share"
    if shares_gpu and config.rollout.pipeline == "sync" and evaluation.where != "idle":  # learner and engine take turns
        parts["sleeping engine"] = _SLEEPING_BYTES
        while_sampling = {
            "learner at rest": learner.weights + learner.reference + (0 if offload else learner.moments),
            "engine": engine.memory_share * gpu,
            "evaluation": evaluation_bytes,
            "overhead": _GPU_OVERHEAD_BYTES,
        }
        while_sampling["reward model"] = parts.get("reward model", 0.0)
        yield MemoryNeed("GPU while sampling", while_sampling, gpu, "Lower engine.memory_share")
    elif shares_gpu:
        parts["engine"] = engine.memory_share * gpu
        advice += ", lower engine.memory_share"
    yield MemoryNeed(f"each of {ranks} GPUs", parts, gpu, advice)

    longest, prompt = max(stage.max_tokens for stage in config.stages), config.data.max_prompt_tokens
    if engine_gpus or shares_gpu:
        completion = longest if is_concurrent else max(longest, evaluation.max_tokens)
        scope = f"each of {engine_gpus} engine GPUs" if engine_gpus else "engine on that GPU"
        advice = "Raise engine.memory_share or engine.tensor_parallel, lower max_tokens"
        yield _estimate_engine_need(
            scope, config, engine, learner, engine.max_model_len or prompt + completion, gpu, advice
        )
    if is_concurrent:
        scope = f"each of {len(evaluation.gpus)} evaluation GPUs" if evaluation.gpus else "evaluation on first GPU"
        advice = "Raise evaluation.memory_share or evaluation.tensor_parallel, lower evaluation.max_tokens"
        yield _estimate_engine_need(
            scope, config, evaluation, learner, prompt + (evaluation.max_tokens or longest), gpu, advice
        )


def _estimate_engine_need(
    scope: str, config: Config, section: EngineConfig | EvaluationConfig, learner: LearnerMemory, max_tokens: int,
    gpu: float, advice: str,
) -> MemoryNeed:  # fmt: skip
    text_config, number_bytes = load_hf_config(config.model.path).get_text_config(), _get_number_bytes(config)
    token_bytes = compute_token_cache_bytes(text_config, number_bytes, tensor_parallel=section.tensor_parallel)
    purposes: dict[str, float] = {
        "weights": -(-learner.parameters * number_bytes // section.tensor_parallel),
        "cache of the longest completion": token_bytes
        * min(max_tokens, getattr(text_config, "max_position_embeddings", max_tokens)),
        "overhead": _ENGINE_OVERHEAD_BYTES,
    }
    return MemoryNeed(scope, purposes, section.memory_share * gpu, advice)


def _estimate_reward_model(config: Config, number_bytes: int) -> dict[str, float]:
    if not config.reward.uses_model:
        return {}
    if config.reward.model_train_steps:
        number_bytes = _TRAINED_BYTES
    return {"reward model": float(count_parameters(config.reward.model) * number_bytes + _REWARD_BATCH_BYTES)}


def _estimate_host_needs(
    config: Config, machines: Machines, ranks: int, engine_gpus: int, learner: LearnerMemory
) -> Iterator[MemoryNeed]:
    model = learner.parameters * _get_number_bytes(config)
    state = learner.trainable_parameters * _STATE_BYTES / (config.ranks.shard or ranks) + learner.reference
    process = _PROCESS_BYTES if machines.gpus else _CPU_PROCESS_BYTES
    evaluation_processes = max(len(config.evaluation.gpus), 1) if _has_concurrent_evaluation(config) else 0
    other_gpus = engine_gpus + len(config.evaluation.gpus)
    first_machine_ranks = min(ranks, machines.first_machine_gpus - other_gpus) if machines.gpus else ranks
    moments = learner.moments if machines.gpus and config.optimizer.offload else 0
    first: dict[str, float] = {
        "processes": (first_machine_ranks + engine_gpus + evaluation_processes) * process,
        # One copy is being written, the other is a snapshot of the last step, saved if the next step fails.
        "checkpoint copies": 2 * state * first_machine_ranks,
        "weights for engines": model * (_VERSIONS if engine_gpus or config.workers.listen else 1),
    }
    if moments:
        first["moments"] = moments * first_machine_ranks
    if not machines.gpus or config.reward.model_device == "cpu":
        first |= _estimate_reward_model(config, 4)
    if not machines.gpus:
        first |= learner.bytes_by_purpose | {"engine": model + _CPU_CACHE_BYTES + process}
        if evaluation_processes:
            first["evaluation"] = model + _CPU_CACHE_BYTES
    if config.limits.memory_mb and config.sandbox.workers and config.sandbox.backend == "local":
        first["programs"] = config.limits.memory_mb * config.sandbox.workers * 2**20
    advice = "Use machines with more memory"
    yield MemoryNeed("first machine", first, machines.host_gb * GB, advice)
    if machines.gpus > _MACHINE_GPUS:
        each = {"processes": process, "checkpoint copies": 2 * state, "moments": moments}
        other = {name: size * _MACHINE_GPUS for name, size in each.items()}
        yield MemoryNeed("each other machine", other, machines.host_gb * GB, advice)
