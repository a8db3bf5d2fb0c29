"""The size of differences between versions by learning rate:  python -m benchmarks.swarm.delta

A small language model in float32 learns the text of this repository, byte by byte. Reinforcement learning then makes
eight updates of Adam for each version, as INTELLECT-2 does, with a reward that is easy to learn. Versions are compared
in bfloat16, the dtype of engines. It takes three minutes on one core.
"""

import statistics
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.record import ROOT, describe_machine, save_results
from train.swarm.broadcast.delta import apply_delta, make_delta

LEARNING_RATES = (3e-7, 1e-6, 3e-6, 1e-5, 1e-4)
_SIZES = {
    "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 256,
}  # fmt: skip
_PRETRAINING_STEPS, _BATCH, _TOKENS, _PRETRAINING_RATE = 400, 8, 128, 1e-3
_UPDATES, _PROMPTS, _COMPLETIONS, _PROMPT_TOKENS, _COMPLETION_TOKENS = 8, 8, 8, 32, 32
_WARM_VERSIONS, _VERSIONS = 2, 3  # Adam's first steps are larger than later ones
# INTELLECT-2: 32.8 billion weights in bfloat16, and its measured bandwidth.
_LARGE_BYTES, _LARGE_BITS_PER_SECOND = 65.6e9, 590e6


def read_corpus() -> bytes:
    folders = ("docs", "train", "curate", "sandbox", "rewards")
    files = sorted(path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".py"})
    return b"".join(path.read_bytes() for path in files)


def pretrain_model() -> tuple[Any, Tensor]:
    """Train a model on the text, and return both."""
    torch.manual_seed(0)
    corpus = torch.frombuffer(bytearray(read_corpus()), dtype=torch.uint8).long()
    model: Any = Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **_SIZES))  # type: ignore
    adam = torch.optim.AdamW(model.parameters(), lr=_PRETRAINING_RATE, betas=(0.9, 0.95), weight_decay=0.01)
    for step in range(_PRETRAINING_STEPS):
        for group in adam.param_groups:
            group["lr"] = _PRETRAINING_RATE * min(1.0, (step + 1) / 20, (_PRETRAINING_STEPS - step) / 100)
        ids_BT = _sample_pieces(corpus, _BATCH, _TOKENS)
        loss = model(ids_BT, labels=ids_BT).loss
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    return model, corpus


def _sample_pieces(corpus: Tensor, n: int, length: int) -> Tensor:
    starts = torch.randint(len(corpus) - length, (n,))
    return torch.stack([corpus[start : start + length] for start in starts.tolist()])


def compute_rewards(completions_GT: Tensor) -> Tensor:
    """Return the share of lower-case letters and blanks in each completion, which is easy to learn."""
    letters = (completions_GT >= 97) & (completions_GT <= 122) | (completions_GT == 32)
    return letters.float().mean(-1)


def train_versions(model: Any, corpus: Tensor, learning_rate: float) -> list[dict[str, Tensor]]:
    """Train, and return successive versions of the weights in bfloat16."""
    model = deepcopy(model)
    torch.manual_seed(1)
    adam = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    made = [_copy_to_bfloat16(model)]
    for _ in range(_WARM_VERSIONS + _VERSIONS):
        prompts = _sample_pieces(corpus, _PROMPTS * _UPDATES, _PROMPT_TOKENS).repeat_interleave(_COMPLETIONS, 0)
        with torch.no_grad():
            ids = model.generate(
                prompts, attention_mask=torch.ones_like(prompts), do_sample=True, max_new_tokens=_COMPLETION_TOKENS,
                min_new_tokens=_COMPLETION_TOKENS, pad_token_id=0,
            )  # fmt: skip
        rewards = compute_rewards(ids[:, _PROMPT_TOKENS:]).view(-1, _COMPLETIONS)
        advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-6)).flatten()
        for part in torch.arange(len(ids)).chunk(_UPDATES):
            logprobs = model(ids[part]).logits[:, _PROMPT_TOKENS - 1 : -1].log_softmax(-1)
            sampled_logprobs = logprobs.gather(2, ids[part, _PROMPT_TOKENS:, None])[..., 0]
            loss = -(advantages[part, None] * sampled_logprobs).mean()
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
        made.append(_copy_to_bfloat16(model))
    return made


def _copy_to_bfloat16(model: Any) -> dict[str, Tensor]:
    return {name: tensor.detach().bfloat16().clone() for name, tensor in model.named_parameters()}


def measure_delta(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """Return the size of the difference between two versions in the origin's encoding."""
    old, new = save(before), save(after)
    delta = make_delta(old, new)
    assert apply_delta(old, delta) == new
    changed = np.frombuffer(old[len(old) % 2 :], "<u2") != np.frombuffer(new[len(new) % 2 :], "<u2")
    return {"changed_share": float(changed.mean()), "bytes_share": len(delta) / len(new)}


def main() -> None:
    torch.set_num_threads(1)
    model, corpus = pretrain_model()
    found = {}
    for learning_rate in LEARNING_RATES:
        made = train_versions(model, corpus, learning_rate)
        pairs = [measure_delta(*pair) for pair in zip(made[_WARM_VERSIONS:-1], made[_WARM_VERSIONS + 1 :], strict=True)]
        medians = {name: statistics.median(pair[name] for pair in pairs) for name in pairs[0]}
        minutes = _LARGE_BYTES * medians["bytes_share"] * 8 / _LARGE_BITS_PER_SECOND / 60
        found[f"{learning_rate:g}"] = medians | {"minutes_at_intellect_2": minutes}
        print(learning_rate, found[f"{learning_rate:g}"], flush=True)
    results = {
        "machine": describe_machine(),
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "updates_per_version": _UPDATES,
        "whole_minutes_at_intellect_2": _LARGE_BYTES * 8 / _LARGE_BITS_PER_SECOND / 60,
        "learning_rates": found,
    }
    save_results("delta", results)


if __name__ == "__main__":
    main()
