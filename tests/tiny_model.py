"""A language model of a third of a million parameters that knows the answers to a few prompts by heart.

It is trained from scratch in some seconds on a CPU: a byte-level BPE tokenizer and a Qwen2 in float32 learn these
prompts and answers alone. If a prompt has several answers, the model gives each of them equally often.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

END = "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_BATCH, _STEPS, _POSITIONS = 16, 420, 1024


def teach(folder: Path, lessons: Mapping[str, Sequence[str]], *, seed: int = 0) -> Path:
    """Write a model to the folder, in the usual files. It answers each message with one of that message's answers."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tokenizer([*lessons, *(answer for answers in lessons.values() for answer in answers)])
    torch.manual_seed(seed)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads would wait for each other on a busy machine
    rng = random.Random(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=2,  # vLLM's attention on CPUs needs a head size of at least 32
        num_key_value_heads=1,
        max_position_embeddings=_POSITIONS,
        tie_word_embeddings=True,
        initializer_range=0.04,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    pairs = []
    for message, answers in lessons.items():
        chat = [{"role": "user", "content": message}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        pairs += [(prompt, tokenizer.encode(answer + END)) for answer in answers]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 20, 2.5 * (1 - step / _STEPS), 1.0)
    )
    for _ in range(_STEPS):
        chosen = [pairs[rng.randrange(len(pairs))] for _ in range(_BATCH)]
        longest = max(len(prompt) + len(answer) for prompt, answer in chosen)
        tokens = torch.full((_BATCH, longest), tokenizer.pad_token_id)
        targets = torch.full((_BATCH, longest), -100)
        for row, (prompt, answer) in enumerate(chosen):
            end = len(prompt) + len(answer)
            tokens[row, :end] = torch.tensor(prompt + answer)
            targets[row, len(prompt) : end] = torch.tensor(answer)
        loss = model(input_ids=tokens, labels=targets).loss  # padded on the right, so no token attends to the padding
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    torch.set_num_threads(threads)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(texts: Iterable[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", END]
    trainer = trainers.BpeTrainer(
        vocab_size=640,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
