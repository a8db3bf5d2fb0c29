"""An estimate of the memory that a learner needs, from the model's configuration alone: no weights are read.

Weights, gradients, moments and reference are exact. Activations are found by running layers on tensors without data
and counting what autograd keeps. CUDA, the allocators and a sampler on the same GPU come on top; see
train/run/memory_plan.py.
"""

import json
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from train.config import Config, ModelConfig
from train.learning.model.attention import PACKED
from train.learning.model.logprob import CHUNK_TOKENS
from train.learning.model.policy import base_dtype, insert_lora_layers, layers, load_hf_config

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
