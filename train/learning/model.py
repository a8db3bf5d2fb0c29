"""A causal language model of transformers as the learner needs it: packed rows in, log-probabilities out.

Its weights and their gradients are float32, and it computes in `dtype`. There is no attention between the
sequences of a row (attention.py), and logits are never all in memory (logprob.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from train.config import Model
from train.errors import LearnerError
from train.learning.attention import PACKED
from train.learning.logprob import logprob_and_entropy
from train.learning.ranks import whole
from train.learning.sequences import Row, TrainingSequence, in_rows

_PROBE = ((3, (5, 3)), (2, (4,)))  # lengths of the two prompts of the probe, each with those of its answers
_PROBE_ROW_TOKENS = 64  # enough for all of them
_SAME = 1e-3  # log-probabilities in float32 differ by less, unless attention leaks or the head does more


class Policy(nn.Module):
    """Maps a Row to two tensors of shape (R,): each target's log-probability after temperature, and entropy in nats.

    autocast     compute in `dtype` although weights are float32; not needed if weights arrive in `dtype`, as from FSDP
    exact_logits compute logits in float32 from hidden states and a head in `dtype`, as vLLM does with a float32 head
    """

    def __init__(
        self, causal: Any, dtype: torch.dtype, temperature: float, *, autocast: bool = True, exact_logits: bool = False
    ) -> None:
        super().__init__()
        self.exact_logits = exact_logits
        self.causal, self.dtype, self.temperature = causal, dtype, temperature
        self.autocast = autocast and dtype != torch.float32

    def forward(self, row: Row, entropy_gradient: bool = False) -> tuple[Tensor, Tensor]:
        device = row.token_ids_L.device.type
        with torch.autocast(device, self.dtype, enabled=self.autocast):
            decoded = self.causal.get_decoder()(
                input_ids=row.token_ids_L[None],
                position_ids=row.position_ids_L[None],
                use_cache=False,
                lengths=row.lengths,
            )
        hidden_RD = decoded.last_hidden_state[0, row.positions_R].to(self.dtype)
        head = self.causal.get_output_embeddings()
        head_VD = head.weight.to(self.dtype)
        if getattr(head, "bias", None) is not None:  # as one more input that is always 1
            hidden_RD = torch.cat([hidden_RD, hidden_RD.new_ones(len(hidden_RD), 1)], 1)
            head_VD = torch.cat([head_VD, head.bias.to(self.dtype)[:, None]], 1)
        return logprob_and_entropy(
            hidden_RD, head_VD, row.targets_R, temperature=self.temperature, entropy_gradient=entropy_gradient,
            exact=self.exact_logits,
        )  # fmt: skip


def load(config: Model, *, seed: int = 0) -> Any:
    """Load the model in float32 on the CPU, with LoRA layers if the configuration asks for them.

    Raises LearnerError if there is no such model, or if its family does not work with packed rows and plain logits.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if config.path.startswith((".", "/", "~")) and not (Path(config.path).expanduser() / "config.json").is_file():
        raise LearnerError(
            f"{config.path} is not the folder of a model: it has no config.json. Give such a folder, or a Hub id."
        )
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(Path(config.path).expanduser()), dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # many types of exceptions: no such repository, no network, damaged files
        raise LearnerError(f"{config.path} cannot be loaded: {str(error).strip() or type(error).__name__}") from error
    causal, loading = loaded
    if missing := sorted(loading["missing_keys"]):
        raise LearnerError(f"{config.path}: weights are missing: {', '.join(missing[:5])}. Give a complete model.")
    if {parameter.dtype for parameter in causal.parameters()} != {torch.float32}:
        raise LearnerError(f"{config.path}: quantized weights cannot be trained. Give the model that was quantized.")
    for module in causal.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # the sampler has no dropout, and an update depends on its minibatch alone
    causal.train()  # otherwise activation checkpointing does nothing
    _fit(causal, config.path)
    if config.lora_rank:
        with_lora(causal, config, seed)
    if config.activation_checkpointing:
        causal.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return causal


def layers(causal: Any) -> list[nn.Module]:
    """Return the layers. Each is sharded by itself, and is whole only while it computes."""
    kinds = causal._no_split_modules or ()
    return [module for module in causal.modules() if type(module).__name__ in kinds]


def merged(causal: Any, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Yield each whole tensor with its name in the model, LoRA merged in.

    Tensors that were not converted are the learner's own, so copy those that you keep. If ranks share the model, all
    of them must call this and read to the end.
    """
    lora = {f"{name}.base_layer.weight": module for name, module in causal.named_modules() if hasattr(module, "lora_A")}
    for name, parameter in causal.named_parameters():
        if ".lora_" in name:
            continue
        weight = whole(parameter)
        if name in lora:
            a_RI, b_OR = (whole(getattr(lora[name], part)["default"].weight) for part in ("lora_A", "lora_B"))
            weight = weight + b_OR @ a_RI * lora[name].scaling["default"]
        yield name.replace(".base_layer.", "."), weight.to(dtype)


def weights(causal: Any, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Yield these tensors with the names and shapes that they have in the model's files.

    There, each expert has its own tensor, whereas transformers joins the experts of a layer into one.
    """
    from transformers.core_model_loading import revert_weight_conversion

    for name, weight in merged(causal, dtype):
        yield from revert_weight_conversion(causal, {name: weight}).items()


def with_lora(causal: Any, config: Model, seed: int) -> None:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise LearnerError(f"lora_rank: {error}. Type: pip install peft") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(
            LoraConfig(r=config.lora_rank, lora_alpha=config.lora_alpha, target_modules="all-linear"),  # type: ignore[arg-type]
            causal,
        )


def _fit(causal: Any, path: str) -> None:
    """Switch to packed attention, and check that answers in one row get the same log-probabilities as alone.

    They differ if anything but attention passes along the row, or if the logits are not a plain matrix product.
    """
    settings = causal.config.get_text_config()
    soft = [name for name in ("final_logit_softcapping", "attn_logit_softcapping") if getattr(settings, name, None)]
    if soft:
        raise LearnerError(f"{path}: {soft[0]} is not supported. Choose a model of another family.")
    draw = torch.Generator().manual_seed(0)
    probe = []
    for prompt_tokens, answers in _PROBE:
        prompt = torch.randint(settings.vocab_size, (prompt_tokens,), generator=draw)
        probe += [(prompt, torch.randint(settings.vocab_size, (n,), generator=draw)) for n in answers]
    sequences = [
        TrainingSequence(
            tuple(prompt.tolist()), tuple(answer.tolist()), *((0.0,) * len(answer),) * 2, truncated=False, reward=0.0
        )
        for prompt, answer in probe
    ]
    with torch.no_grad():
        alone = [
            causal(input_ids=torch.cat([prompt, answer])[None, :-1], use_cache=False)
            .logits[0, -len(answer) :]
            .float()
            .log_softmax(1)
            .gather(1, answer[:, None])[:, 0]
            for prompt, answer in probe
        ]
        try:
            causal.set_attn_implementation(PACKED)
            (row,) = in_rows(sequences, row_tokens=_PROBE_ROW_TOKENS)
            packed, _ = Policy(causal, torch.float32, 1.0)(row)
        except (TypeError, ValueError, AttributeError) as error:
            raise LearnerError(f"{path}: its family does not take packed rows ({error}). Choose another.") from error
        difference = (packed - torch.cat(alone)[row.places_R]).abs().max().item()
    if not difference < _SAME:
        raise LearnerError(
            f"{path}: log-probabilities of answers in one row are not those that the model gives each alone "
            f"(by {difference:.2g}). State that passes along a row, or logits that are scaled or capped, are not "
            "supported. Choose a model of another family."
        )
