"""A language model that solves a third of the problems, trained from scratch:  python warm_up.py FOLDER [--seed N]

The script trains a byte-level BPE tokenizer and a float32 Qwen2 of 850,000 parameters on demonstrations.py, with the
prompts of `curate`. It takes two to three minutes on two cores. With --aloud, the demonstrations are
those of aloud.py, with a chain of thought.
"""

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

import aloud
import demonstrations
import torch
from problems import make_problems
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from curate.prompt import FINGERPRINT_TEXTS, PromptFormat
from sandbox import Suite

END, PADDING = "<|im_end|>", "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY, POSITIONS = 490, 256
BATCH, RAMP, DECAY = 32, 50, 0.4  # demonstrations; steps of linear warm-up; share of steps of linear decay
RATE = 3e-3


class Problem(Protocol):
    @property
    def statement(self) -> str: ...


def train_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    # Each line that all prompts share is one token, which saves time.
    lines = [
        line for text in FINGERPRINT_TEXTS for line in text.splitlines() if line and "{" not in line and line[0] != "`"
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(lines),
        special_tokens=[PADDING, "<|im_start|>", END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, "user\n", "assistant\n"], trainer)
    tokenizer.add_tokens([AddedToken(line, normalized=False) for line in lines])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PADDING, chat_template=TEMPLATE)


def make_model(tokenizer: PreTrainedTokenizerFast, *, hidden: int, layers: int) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 32,
            num_key_value_heads=hidden // 64,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            initializer_range=0.04,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def warm_up(
    problems: Sequence[Problem],
    folder: Path,
    *,
    steps: int,
    seed: int,
    teacher: ModuleType = demonstrations,
    hidden: int = 128,
    layers: int = 4,
) -> None:
    """Train a model and write it to the folder.

    teacher: module with functions `list_texts` and `make_demonstration`
    """
    tokenizer = train_tokenizer(teacher.list_texts(problems))
    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = make_model(tokenizer, hidden=hidden, layers=layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / RAMP, (1 - step / steps) / DECAY, 1.0)
    )
    prompts = {problem.statement: encode_prompt(problem, tokenizer) for problem in problems}
    began = time.monotonic()
    for step in range(1, steps + 1):
        chosen = [rng.choice(problems) for _ in range(BATCH)]
        pairs = [(prompts[p.statement], tokenizer.encode(teacher.make_demonstration(p, rng) + END)) for p in chosen]
        tokens, targets = pad(pairs, tokenizer.pad_token_id)
        loss = model(input_ids=tokens, labels=targets).loss  # right padding: no token attends to it
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == steps:
            print(f"warm-up: step {step} of {steps}, loss {loss.item():.3f}, {time.monotonic() - began:.0f} s")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def encode_prompt(problem: Problem, tokenizer: PreTrainedTokenizerFast) -> list[int]:
    messages = PromptFormat().build_chat(problem.statement, "", Suite([]))
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def pad(pairs: Sequence[tuple[list[int], list[int]]], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens of prompts and answers, and targets with -100 for all other positions; (BATCH, longest) each."""
    longest = max(len(prompt) + len(answer) for prompt, answer in pairs)
    tokens = torch.full((len(pairs), longest), padding)
    targets = torch.full((len(pairs), longest), -100)
    for row, (prompt, answer) in enumerate(pairs):
        end = len(prompt) + len(answer)
        tokens[row, :end] = torch.tensor(prompt + answer)
        targets[row, len(prompt) : end] = torch.tensor(answer)
    return tokens, targets


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--steps", type=int, default=1000)
    arguments.add_argument("--aloud", action="store_true")
    given = arguments.parse_args()
    if given.aloud:  # a smaller model, because its completions are longer
        problems, _ = aloud.make_problems()
        warm_up(problems, given.folder, steps=given.steps, seed=given.seed, teacher=aloud, hidden=96, layers=3)
    else:
        warm_up(make_problems()[0], given.folder, steps=given.steps, seed=given.seed)
