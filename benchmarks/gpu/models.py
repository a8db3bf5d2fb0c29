"""Models with the shapes of real ones and random weights, with a tokenizer, and random completions."""

import random
import tempfile
from pathlib import Path

from train.learning.sequences import TrainingSequence

# Qwen3-0.6B, which prime-rl measures on one H100: 11,900 tokens per second at 16K.
SIX_HUNDRED_MILLION = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "tie_word_embeddings": True,
}
SMALL = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "tie_word_embeddings": True,
}


def folder(shape: dict[str, int | bool]) -> str:
    """Write a Qwen3 model of this shape into a new folder, and return it."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    path = tempfile.mkdtemp(prefix="curate-gpu-")
    tokenizer = _tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**shape, **ends, max_position_embeddings=40_960))  # type: ignore[arg-type]
    model.to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def completions(
    groups: int, each: int, prompt_tokens: int, tokens: int, *, vocabulary: int = 256
) -> list[TrainingSequence]:
    """Return random completions of random prompts, with log-probabilities that the model could have."""
    rng = random.Random(0)
    made = []
    for _ in range(groups):
        prompt = tuple(rng.randrange(3, vocabulary) for _ in range(prompt_tokens))
        for _ in range(each):
            length = rng.randint(tokens // 2, tokens)
            ids = tuple(rng.randrange(3, vocabulary) for _ in range(length))
            advantage = rng.choice((-1.0, 1.0))
            made.append(TrainingSequence(prompt, ids, (-7.0,) * length, (advantage,) * length, False, advantage))
    return made


def _tokenizer():  # type: ignore[no-untyped-def]
    import sys

    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    import tiny_model

    return tiny_model._tokenizer(["the quick brown fox", "jumps over 0123456789 lazy dogs"])
