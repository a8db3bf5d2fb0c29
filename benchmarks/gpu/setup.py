"""Shared code of the checks, and their process:  python -m benchmarks.gpu.setup CHECK FOLDER full|tiny PYTHON"""

import json
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch

from benchmarks.gpu.thresholds import MARK, Value
from train import config
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sizes:
    shape: dict[str, int]  # of a Qwen2 with an untied head
    dtype: str
    row_tokens: int
    prompt_tokens: int
    groups: int  # prompts in one batch of the engine
    group_completions: int  # completions of each of them
    completion_tokens: int
    run_engine: str  # engine of `curate train`


# DeepSeek-R1-Distill-Qwen-1.5B, with rows that hold DeepCoder's completions of 16,384 tokens
FULL = Sizes(
    {
        "vocab_size": 151_936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 131_072,
    },
    "bfloat16", row_tokens=20_480, prompt_tokens=512, groups=16, group_completions=16, completion_tokens=256,
    run_engine="vllm",
)  # fmt: skip
TINY = Sizes(
    {
        "vocab_size": 1024, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 2048,
    },
    "float32", row_tokens=256, prompt_tokens=24, groups=2, group_completions=4, completion_tokens=24,
    run_engine="transformers",
)  # fmt: skip
# Shape of the model whose updates are compared between devices and numbers of ranks
SMALL = TINY.shape | {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
_LOGIT_STD = 1.5  # with less, the distribution would be nearly uniform for any weights


@dataclass(frozen=True)
class CheckEnvironment:
    """The environment of a check.

    folder  folder of the model and of the check's files
    python  interpreter of child processes
    """

    folder: Path
    sizes: Sizes
    python: str

    @property
    def on_cpu(self) -> bool:
        return self.sizes is TINY

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def report(self, **figures: Value) -> None:
        """Print figures of this check, by their names in thresholds.py."""
        for name, value in figures.items():
            print(MARK + json.dumps([name, value]), flush=True)

    @contextmanager
    def catch_errors(self) -> Iterator[None]:
        """Print the traceback of an error in the block, and continue. Its missing figures count as failed."""
        try:
            yield
        except Exception:
            traceback.print_exc()

    def make_config(self, path: Path | None = None, *, row_tokens: int = 0, **model: Any) -> config.Config:
        """Return the configuration of a run.

        path        folder of the model, the check's own if None
        row_tokens  those of the sizes if 0
        model       further values of [model]
        """
        sizes = self.sizes
        values: dict[str, Any] = {
            "dtype": sizes.dtype,
            "head_dtype": "float32",
            "activation_checkpointing": True,
        } | model
        return config.Config(
            config.ModelConfig(str(path or self.model), **values),
            config.DataConfig("unused", max_prompt_tokens=sizes.prompt_tokens),
            engine=config.EngineConfig(memory_share=0.35),  # the learner uses the rest
            objective=config.ObjectiveConfig(old="learner", truncation=2.0, overlong="none"),
            optimizer=config.OptimizerConfig(learning_rate=1e-5, row_tokens=row_tokens or sizes.row_tokens),
            # compare_samples samples 64 tokens
            stages=(config.StageConfig(max_tokens=max(sizes.completion_tokens, 64)),),
        )


def open_learner(run: config.Config) -> Learner:
    return Learner(run.model, run.objective, run.optimizer, temperature=1.0, total_updates=100, seed=0)


def make_model(folder: Path, shape: dict[str, int], device: str) -> None:
    """Write a random model and its tokenizer atomically, unless the folder exists."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

    if folder.exists():
        return
    torch.manual_seed(0)
    with torch.device(device):
        settings = Qwen2Config(**shape, tie_word_embeddings=False, eos_token_id=0, pad_token_id=0)  # type: ignore[arg-type]
        model = AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(".bias"):
                weight.normal_()  # with biases of 0, attention hardly depends on positions
        model.lm_head.weight.normal_(std=_LOGIT_STD * shape["hidden_size"] ** -0.5)
    tokens = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]  # bytes; the model's vocabulary is larger
    tokenizer = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    aside = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(aside, ignore_errors=True)
    model.save_pretrained(aside)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=tokens[0], pad_token=tokens[0], chat_template=template
    ).save_pretrained(aside)
    aside.rename(folder)


def sample_token_ids(rng: random.Random, shape: dict[str, int], n: int) -> tuple[int, ...]:
    """Return n random tokens other than the end token."""
    return tuple(rng.randrange(1, shape["vocab_size"]) for _ in range(n))


def make_sequence(
    prompt: Sequence[int], ids: Sequence[int], advantage: float = 0.0, logprobs: Sequence[float] = ()
) -> TrainingSequence:
    """Return a completion with the same advantage for all tokens; without logprobs, they are 0."""
    n = len(ids)
    return TrainingSequence(
        tuple(prompt), tuple(ids), tuple(logprobs) or (0.0,) * n, (advantage,) * n, False, advantage
    )


def make_small_batch() -> list[TrainingSequence]:
    rng = random.Random(0)
    prompts = [sample_token_ids(rng, SMALL, 30) for _ in range(4)]
    return [
        make_sequence(ids, sample_token_ids(rng, SMALL, n), rng.choice((-1.0, 1.0)))
        for ids in prompts
        for n in (20, 40, 60)
    ]


def update(learner: Learner, batch: Sequence[TrainingSequence]) -> dict[str, float]:
    learner.begin_batch(batch)
    return learner.update(batch)


def time_call(call: Callable[[], Result]) -> tuple[float, Result]:
    """Return the seconds of a call, including its GPU kernels, and its result."""
    began = time.monotonic()
    made = call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic() - began, made


if __name__ == "__main__":
    from benchmarks.gpu import setup  # as the checks import it, because `on_cpu` compares identities

    name, folder, size, python = sys.argv[1:]
    check = setup.CheckEnvironment(Path(folder), setup.FULL if size == "full" else setup.TINY, python)
    import_module(f"benchmarks.gpu.{name}").main(check)
