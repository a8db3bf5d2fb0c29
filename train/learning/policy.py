"""The learner's causal language model, on top of transformers: packed rows in, log-probabilities out.

Trained weights and gradients are float32; computation is in `dtype`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from train.config import ModelConfig
from train.errors import LearnerError
from train.learning.attention import PACKED
from train.learning.logprob import compute_logprob_and_entropy
from train.learning.ranks import gather_full_tensor, replicate, shard_like
from train.learning.sequences import PackedRow, TrainingSequence, pack_into_rows
from train.weights.source import split_by_bytes

_TEST_LENGTHS = ((3, (5, 3)), (2, (4,)))  # for each of two test prompts: its length, and those of its completions
_TEST_ROW_TOKENS = 64  # enough for all test sequences
_TOLERANCE = 1e-3  # maximum difference of float32 log-probabilities between packed and separate completions


class Policy(nn.Module):
    """A model that maps a PackedRow to the log-probabilities and the entropies of its predicted tokens, both (R,).

    Log-probabilities are after temperature; entropies are in nats.

    autocast      whether to compute in `dtype` from float32 weights; unnecessary with FSDP, which casts weights itself
    exact_logits  whether to compute float32 logits from a head in `dtype`, as vLLM's float32 head does
    context       process group of the ranks that share each row (attention.py); None if this rank has whole rows
    """

    def __init__(
        self, causal: Any, dtype: torch.dtype, temperature: float, *, autocast: bool = True,
        exact_logits: bool = False, context: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shared = {} if context is None else {"context": context}
        self.causal, self.dtype, self.temperature, self.exact_logits = causal, dtype, temperature, exact_logits
        self.autocast = autocast and dtype != torch.float32

    def forward(
        self, row: PackedRow, entropy_gradient: bool = False, temperature: float | None = None
    ) -> tuple[Tensor, Tensor]:
        device = row.token_ids_L.device.type
        with torch.autocast(device, self.dtype, enabled=self.autocast):
            decoded = self.causal.get_decoder()(
                input_ids=row.token_ids_L[None], position_ids=row.position_ids_L[None], use_cache=False,
                lengths=row.lengths, **self.shared,
            )  # fmt: skip
        hidden_UD = _select_rows(decoded.last_hidden_state[0], row.source_index_U).to(self.dtype)
        head = self.causal.get_output_embeddings()
        head_VD = head.weight.to(self.dtype)
        if getattr(head, "bias", None) is not None:  # append the bias as the weight of an input that is always 1
            hidden_UD = torch.cat([hidden_UD, hidden_UD.new_ones(len(hidden_UD), 1)], 1)
            head_VD = torch.cat([head_VD, head.bias.to(self.dtype)[:, None]], 1)
        logp_U, entropy_U = compute_logprob_and_entropy(
            hidden_UD, head_VD, row.targets_U,
            temperature=self.temperature if temperature is None else temperature,
            entropy_gradient=entropy_gradient, exact=self.exact_logits,
        )  # fmt: skip
        logp_R, entropy_R = (
            _select_rows(tensor_U[:, None], row.unique_index_R)[:, 0] for tensor_U in (logp_U, entropy_U)
        )
        return logp_R, entropy_R


def _select_rows(matrix: Tensor, indices: Tensor) -> Tensor:
    # F.embedding instead of indexing, whose backward on CPUs sums repeated rows in nondeterministic order.
    return F.embedding(indices, matrix)


def load_causal_lm(config: ModelConfig, *, seed: int = 0) -> Any:
    """Load the model in float32 on the CPU, with LoRA layers if configured.

    Raises LearnerError if there is no such model, or if models of this family cannot be trained on packed rows.
    """
    from transformers import AutoModelForCausalLM

    settings = load_hf_config(config.path)
    with translate_loading_errors(config.path):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(Path(config.path).expanduser()), config=settings, dtype=torch.float32, output_loading_info=True
        )
    causal, loading = loaded
    check_complete(config.path, loading["missing_keys"])
    set_train_mode(causal)
    enable_packed_attention(causal, config.path)
    add_lora_and_checkpointing(causal, config)
    init_lora(causal, seed, "cpu")
    return causal


def load_hf_config(path: str) -> Any:
    """Load the configuration of a model. Raises LearnerError if there is no such model, or it is quantized."""
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if path.startswith((".", "/", "~")) and not (Path(path).expanduser() / "config.json").is_file():
        raise LearnerError(
            f"{path} is not the folder of a model: it has no config.json. Give a model's folder, or a Hub id."
        )
    with translate_loading_errors(path):
        settings = AutoConfig.from_pretrained(str(Path(path).expanduser()), trust_remote_code=False)
    if getattr(settings, "quantization_config", None) is not None:
        raise LearnerError(f"{path}: quantized weights cannot be trained. Give the unquantized model.")
    return settings


@contextmanager
def translate_loading_errors(path: str) -> Iterator[None]:
    """Translate errors of transformers and its libraries during loading to LearnerError."""
    try:
        yield
    except LearnerError:
        raise
    except Exception as error:  # transformers raises many types of errors
        raise LearnerError(f"{path} cannot be loaded: {str(error).strip() or type(error).__name__}") from error


def check_complete(path: str, missing: Iterable[str]) -> None:
    """Raise LearnerError if `missing` names weights that a model's files lack."""
    if names := sorted(missing):
        raise LearnerError(
            f"{path}: weights are missing: {', '.join(names[:5])}. Give a model whose files have all weights."
        )


def check_trained_experts(causal: Any, path: str) -> None:
    """Raise LearnerError if experts are trained, because autocast would leave their products in float32."""
    if any(weight.requires_grad and weight.ndim == 3 for weight in causal.parameters()):
        raise LearnerError(
            f"{path} is a mixture of experts: on a single GPU, training all of its weights would compute the experts "
            "in float32. Start several ranks with torchrun, or set model.lora_rank."
        )


def set_train_mode(causal: Any) -> None:
    """Set the model to training mode, without dropout."""
    for module in causal.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # as in the sampler; and updates must be deterministic
    causal.train()  # activation checkpointing requires training mode


def add_lora_and_checkpointing(causal: Any, config: ModelConfig) -> None:
    """Insert LoRA layers and enable activation checkpointing, if configured."""
    if config.lora_rank:
        for weight in causal.parameters():
            weight.data = weight.data.to(choose_base_dtype(config))
        insert_lora_layers(causal, config)
        for name, weight in causal.named_parameters():
            if is_lora(name):  # peft creates LoRA layers in the dtype of their base layer
                weight.data = weight.data.float()
    if config.activation_checkpointing:
        causal.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def choose_base_dtype(config: ModelConfig) -> torch.dtype:
    """Return the dtype of loaded weights: float32 for training, or the dtype of computation if LoRA freezes them."""
    return torch.bfloat16 if config.lora_rank and config.dtype == "bfloat16" else torch.float32


def find_layers(causal: Any) -> list[nn.Module]:
    """Return the decoder layers, which FSDP shards as units."""
    kinds = causal._no_split_modules or ()
    return [module for module in causal.modules() if type(module).__name__ in kinds]


def bucket_parameter_names(causal: Any, dtype: torch.dtype, max_bytes: int) -> list[list[str]]:
    """Group parameter names into buckets of at most `max_bytes` in `dtype`. A larger parameter has its own bucket."""
    sizes = {name: weight.numel() * dtype.itemsize for name, weight in causal.named_parameters() if not is_lora(name)}
    return list(split_by_bytes(sizes, sizes.__getitem__, max_bytes))


def export_tensors(causal: Any, dtype: torch.dtype, names: Sequence[str] | None = None) -> Iterator[tuple[str, Tensor]]:
    """Yield full tensors with the names and shapes of the model's files, LoRA merged.

    names: parameters to yield; None: all

    Experts, which transformers joins, are split again. Other tensors may share the learner's memory: copy them to keep
    them. All ranks that share the model must call this and exhaust the iterator.
    """
    from transformers.core_model_loading import revert_weight_conversion

    parameters = dict(causal.named_parameters())
    lora = {f"{name}.base_layer.weight": module for name, module in causal.named_modules() if hasattr(module, "lora_A")}
    for name in (name for name in parameters if not is_lora(name)) if names is None else names:
        weight = parameters[name].detach()
        if name in lora:
            a_RI, b_OR = (getattr(lora[name], part)["default"].weight.detach() for part in ("lora_A", "lora_B"))
            weight = weight + b_OR @ replicate(a_RI) * lora[name].scaling["default"]
        name_in_model = name.replace(".base_layer.", ".")
        yield from revert_weight_conversion(causal, {name_in_model: gather_full_tensor(weight.to(dtype))}).items()


def is_lora(name: str) -> bool:
    return ".lora_" in name


def insert_lora_layers(causal: Any, config: ModelConfig) -> None:
    """Insert LoRA layers. Call `init_lora` afterwards to set their weights."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise LearnerError(f"model.lora_rank needs peft: {error}. Type: pip install peft") from error
    inject_adapter_in_model(
        LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules="all-linear"),  # type: ignore[arg-type]
        causal,
    )


def init_lora(causal: Any, seed: int, device: torch.device | str) -> None:
    """Initialize LoRA as peft does: random A, and B = 0, so the model is unchanged.

    The values depend on the seed alone, not on the number of ranks.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in causal.modules():
        if hasattr(module, "lora_A"):
            a, b = module.lora_A["default"], module.lora_B["default"]
            bound = a.weight.shape[1] ** -0.5
            random_RI = torch.empty(a.weight.shape).uniform_(-bound, bound, generator=generator)
            for layer, full_weight in ((a, random_RI), (b, torch.zeros(b.weight.shape))):
                layer.weight = nn.Parameter(shard_like(full_weight.to(device), like=layer.weight))


@torch.no_grad()
def enable_packed_attention(causal: Any, path: str) -> None:
    """Switch to packed attention. Raises LearnerError if packing changes the log-probabilities of completions.

    Packing changes them if a layer other than attention carries state along the row, or if logits are scaled or capped.
    """
    settings = causal.config.get_text_config()
    soft = [name for name in ("final_logit_softcapping", "attn_logit_softcapping") if getattr(settings, name, None)]
    if soft:
        raise LearnerError(f"{path}: training does not support {soft[0]}. Choose a model of another family.")
    draw = partial(torch.randint, settings.vocab_size, generator=torch.Generator().manual_seed(0))
    sequences, alone = [], []
    for prompt_tokens, completions in _TEST_LENGTHS:
        prompt = draw((prompt_tokens,))
        for n in completions:
            completion, zeros = draw((n,)), (0.0,) * n
            ids = tuple(prompt.tolist()), tuple(completion.tolist())
            sequences.append(TrainingSequence(*ids, zeros, zeros, truncated=False, reward=0.0))
            logits = causal(input_ids=torch.cat([prompt, completion])[None, :-1], use_cache=False).logits[0, -n:]
            alone.append(logits.float().log_softmax(1).gather(1, completion[:, None])[:, 0])
    try:
        causal.set_attn_implementation(PACKED)
        (row,) = pack_into_rows(sequences, row_tokens=_TEST_ROW_TOKENS)
        packed, _ = Policy(causal, torch.float32, 1.0)(row)
    except (TypeError, ValueError, AttributeError) as error:
        raise LearnerError(
            f"{path}: models of this family do not support packed rows ({error}). Choose a model of another family."
        ) from error
    difference = (packed - torch.cat(alone)[row.token_index_R]).abs().max().item()
    if not difference < _TOLERANCE:
        raise LearnerError(
            f"{path}: packing several completions into one row changes their log-probabilities by {difference:.2g}. "
            "Layers with state along the row and scaled or capped logits are unsupported. Choose a model of another "
            "family."
        )
