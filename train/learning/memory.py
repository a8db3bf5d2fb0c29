"""What a learner takes of each GPU, estimated from a model's configuration alone: no weights are read.

Weights, gradients, moments and reference are exact. Activations are counted: what autograd keeps of one layer is added
up on tensors without data. What allocators lose, a sampler on the same GPU, and CUDA itself come on top.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.config import Model
from train.errors import LearnerError
from train.learning.attention import PACKED
from train.learning.logprob import CHUNK_TOKENS
from train.learning.model import layers, with_lora

_COUNTED_TOKENS = 64
_AUTOCAST = 1.5  # on one GPU the residual stream and what norms keep of it stay float32; of the order of this
_OF_A_LOGIT = 14  # bytes: half-precision product, and three of float32 in backward


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each GPU, and how many parameters there are."""

    parameters: int
    trained: int
    weights: int  # float32, and the copies in which it computes
    gradients: int
    moments: int  # AdamW's
    reference: int  # weights that k3 is against
    activations: int  # of one row
    logits: int  # of a chunk, and the gradient of the head

    @property
    def total(self) -> int:
        return sum(getattr(self, each.name) for each in fields(self)[2:])


def estimate(model: Model, *, row_tokens: int, reference: bool, ranks: int = 1) -> Memory:
    """row_tokens: of the longest row. Raises LearnerError where there is no such configuration."""
    config = _configuration(model.path)
    dtype = torch.bfloat16 if model.dtype == "bfloat16" else torch.float32
    causal = _empty(config, model)
    parameters = sum(each.numel() for each in causal.parameters())
    trained = sum(each.numel() for each in causal.parameters() if each.requires_grad)
    n_layers = len(layers(causal))
    of_a_layer = sum(each.numel() for each in layers(causal)[0].parameters())
    head = causal.get_output_embeddings().weight
    if ranks > 1:  # a layer computes while the next is gathered; what is not in layers is whole all the time
        copies = (parameters - (n_layers - 2) * of_a_layer) * dtype.itemsize
    else:
        copies = parameters * dtype.itemsize if dtype != torch.float32 else 0
    autocast = ranks == 1 and dtype != torch.float32
    kept = _kept_by_a_layer(config, dtype) * (_AUTOCAST if autocast else 1)
    residual = head.shape[1] * (4 if autocast else dtype.itemsize)
    a_token = n_layers * residual + kept if model.activation_checkpointing else n_layers * kept
    return Memory(
        parameters=parameters,
        trained=trained,
        weights=-(-parameters * 4 // ranks) + copies,
        gradients=-(-trained * 4 // ranks),
        moments=-(-trained * 8 // ranks),
        reference=-(-trained * 4 // ranks) if reference else 0,
        activations=int(a_token * row_tokens),
        logits=min(CHUNK_TOKENS, row_tokens) * head.shape[0] * _OF_A_LOGIT
        + head.numel() * 4 * bool(head.requires_grad),
    )


def _configuration(path: str) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(str(Path(path).expanduser()))
    except Exception as error:  # of many kinds, as when weights are loaded
        raise LearnerError(f"{path} cannot be loaded: {str(error).strip() or type(error).__name__}") from error


def _empty(config: Any, model: Model | None, dtype: torch.dtype = torch.float32) -> Any:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        causal = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        if model is not None and model.lora_rank:
            with_lora(causal, model, seed=0)
    return causal


def _kept_by_a_layer(config: Any, dtype: torch.dtype) -> float:
    """Bytes that autograd keeps of one layer for backward, by token. The difference of two layers and one."""
    kept = []
    for n_layers in (1, 2):
        shallow = type(config).from_dict(config.to_dict() | {"num_hidden_layers": n_layers, "layer_types": None})
        causal = _empty(shallow, None, dtype)
        causal.set_attn_implementation(PACKED)
        weights = {each.untyped_storage()._cdata for each in causal.parameters()}
        kept_bytes: dict[int, int] = {}  # by storage: what is kept twice is there once

        def keep(tensor: Tensor, weights: set[int] = weights, kept_bytes: dict[int, int] = kept_bytes) -> Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in weights:
                kept_bytes[storage._cdata] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            made = causal.get_decoder()(
                input_ids=torch.zeros(1, _COUNTED_TOKENS, dtype=torch.int64, device="meta"),
                position_ids=torch.zeros(1, _COUNTED_TOKENS, dtype=torch.int64, device="meta"),
                use_cache=False,
                lengths=(1,) * _COUNTED_TOKENS,  # so that no attention is kept that a fused kernel does not keep
            )
        del made
        kept.append(sum(kept_bytes.values()))
    return (kept[1] - kept[0]) / _COUNTED_TOKENS
