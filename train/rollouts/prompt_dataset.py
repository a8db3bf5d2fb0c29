"""The prompts of a run: each dataset once per epoch, in an order determined by the seed.

A position counts prompts over all datasets and epochs, so a checkpoint stores only the position. Blocks of positions
mix the datasets by weight, each in random order. Within a block, shares are exact up to rounding; a random shift of
each block makes the expected share of even a small dataset exact.

A dataset is a folder that curate built, or a file of prompts (JSONL, Parquet, CSV) with these columns:

    prompt   a text, or a list of messages with role and content, used unchanged
    answer   expected answer, for reward.math or a custom reward function; optional
    id       name of the row; default: the file's name and the row number
    source   origin, for metrics; default: the file's name
"""

import hashlib
import json
import logging
import random
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from curate.dataset.dataset import Dataset, translate_read_errors
from curate.dataset.integrity import check_trusted
from curate.dataset.location import resolve_dataset_folder
from curate.problem import TEST_COLUMNS, decode_tests
from curate.prompt import Chat, PromptFormat
from curate.reading.tables import UnreadableRow, locate, read_rows
from curate.reading.values import shorten
from curate.trust import UNVERIFIED, TrustPolicy, format_exclusion_message, format_exclusions
from rewards.form import format_length_instruction
from rewards.reward import Task
from sandbox import Suite
from train.config import DataConfig
from train.errors import ConfigError
from train.sampling.text import tokenize_prompt

log = logging.getLogger(__name__)

_BLOCK_POSITIONS = 128
_MAX_CACHED_BLOCKS = 64  # more than the blocks of a batch


class Mixture:
    """An assignment of positions to datasets. weights: positive proportion of each dataset."""

    def __init__(self, weights: Sequence[float], *, seed: int) -> None:
        self._seed = seed
        *self._bounds, _ = (bound / sum(weights) for bound in accumulate(weights))
        self._block = lru_cache(_MAX_CACHED_BLOCKS)(self._build_block)
        self._lock = threading.Lock()
        self._before = [(0,) * len(weights)]  # per block, each dataset's count of prompts in earlier blocks

    def locate(self, position: int) -> tuple[int, int]:
        """Return the index of the position's dataset, and the count of that dataset's prompts at earlier positions."""
        if not self._bounds:
            return 0, position
        block_index, offset = divmod(position, _BLOCK_POSITIONS)
        block = self._block(block_index)
        dataset = block[offset]
        return dataset, self._count_prompts_before(block_index)[dataset] + block[:offset].count(dataset)

    def _count_prompts_before(self, block_index: int) -> tuple[int, ...]:
        before = self._before
        with self._lock:
            while len(before) <= block_index:
                block = self._block(len(before) - 1)
                before.append(tuple(count + block.count(dataset) for dataset, count in enumerate(before[-1])))
        return before[block_index]

    def _build_block(self, block_index: int) -> list[int]:
        rng = random.Random(f"{self._seed} {block_index} mixture")
        shift = rng.random()
        block = [bisect_right(self._bounds, (index + shift) / _BLOCK_POSITIONS) for index in range(_BLOCK_POSITIONS)]
        rng.shuffle(block)
        return block


_COLUMNS = (
    "id", "source", "statement", "starter_code", *TEST_COLUMNS, "strongest_tests", "time_limit_seconds", "verified",
    "multi_answer_suspect", "expected_answer",
)  # fmt: skip
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ProblemKinds:
    """Kinds of problems in a dataset: with tests, with an expected answer, or with neither."""

    tests: bool = False
    answers: bool = False
    neither: bool = False

    def __or__(self, other: "ProblemKinds") -> "ProblemKinds":
        return ProblemKinds(self.tests or other.tests, self.answers or other.answers, self.neither or other.neither)


@dataclass(frozen=True, slots=True)
class TrainingProblem:
    """A chat, and the tests or the expected answer that score its completions; empty if it has none.

    tests            a Suite as JSON
    strongest_tests  indices of the tests that reject the most wrong programs, the strongest first
    """

    id: str
    source: str
    chat: Chat
    tests: str = ""
    strongest_tests: tuple[int, ...] = ()
    time_limit_seconds: float | None = None
    expected_answer: str = ""

    @property
    def kind(self) -> ProblemKinds:
        tests, answers = bool(self.tests), not self.tests and bool(self.expected_answer)
        return ProblemKinds(tests, answers, not tests and not answers)


def is_prompt_file(dataset: str) -> bool:
    """Return whether a dataset is a file of prompts rather than a folder that curate built."""
    return Path(dataset).expanduser().is_file()


def read_problems(
    dataset: str,
    trust: TrustPolicy,
    prompt: PromptFormat,
    excluded_counts: Counter[str],
    unverified_counts: Counter[str],
) -> Iterator[TrainingProblem]:
    """Yield the problems of a dataset.

    prompt             format of program prompts; a file of prompts gets only its system prompt
    excluded_counts    counter of excluded untrusted rows by reason, to update
    unverified_counts  counter of yielded unverified rows by source, to update

    Raises CurateError if this is not a dataset or was altered, and ConfigError for an invalid row.
    """
    if is_prompt_file(dataset):
        return _read_prompt_file(Path(dataset).expanduser(), prompt)
    return _read_curated(dataset, trust, prompt, excluded_counts, unverified_counts)


def describe_unverified_rows(counts: Mapping[str, int], include: Sequence[str]) -> str:
    """Describe the unverified rows that a run trains on, with the option that excludes them.

    counts   number of unverified rows by source
    include  data.include of the run
    """
    counts_text = ", ".join(f"{source} {n:,}" for source, n in sorted(counts.items()))
    others = json.dumps([word for word in include if word != UNVERIFIED])
    return (
        f"trains on {sum(counts.values()):,} unverified rows ({counts_text}): no solutions of them are published, so "
        f"no reference solution has passed their tests. To exclude them: --set 'data.include={others}'"
    )


def _read_curated(
    dataset: str,
    trust: TrustPolicy,
    prompt: PromptFormat,
    excluded_counts: Counter[str],
    unverified_counts: Counter[str],
) -> Iterator[TrainingProblem]:
    folder = resolve_dataset_folder(dataset)
    check_trusted(folder, trust)
    with translate_read_errors(folder):
        for row in Dataset(folder).require_problems().iter_rows("data", _COLUMNS):
            suite = decode_tests(row)
            reason = trust.find_exclusion_reason(
                verified=row["verified"], suspect=row["multi_answer_suspect"], checker=suite.checker
            )
            if reason is not None:
                excluded_counts[reason] += 1
                continue
            if not row["verified"]:
                unverified_counts[row["source"]] += 1
            yield TrainingProblem(
                row["id"],
                row["source"],
                prompt.build_row_chat(row, suite),
                "" if row["expected_answer"] else suite.to_json() if suite.trials else row["tests"],
                tuple(row["strongest_tests"] or ()),
                row["time_limit_seconds"],
                row["expected_answer"],
            )


def _read_prompt_file(path: Path, prompt: PromptFormat) -> Iterator[TrainingProblem]:
    for number, row in enumerate(read_rows(locate(str(path)), [], ["prompt", "answer", "id", "source"]), 1):
        if isinstance(row, UnreadableRow):
            raise ConfigError(f"{row.location}: {row.detail}. Correct that line.")
        if row["prompt"] is None:
            raise ConfigError(
                f"{path}: row {number} has no prompt. A file to train on needs the column prompt and, for reward.math, "
                "the column answer. Complete or delete the row."
            )
        chat = _parse_chat(row["prompt"])
        if chat is None:
            raise ConfigError(
                f"{path}: the prompt of row {number} must be a text, or a list of messages with role and content, "
                f"not {shorten(repr(row['prompt']))}. Correct the row."
            )
        if prompt.system and chat[0]["role"] != "system":
            chat = [{"role": "system", "content": prompt.system}, *chat]
        expected = row["answer"]
        if not isinstance(expected, str | int | float | None):
            raise ConfigError(
                f"{path}: the answer of row {number} must be a text, not {shorten(repr(expected))}. Correct it."
            )
        yield TrainingProblem(
            str(row["id"] or f"{path.stem}/{number}"),
            str(row["source"] or path.stem),
            chat,
            expected_answer="" if expected is None else str(expected).strip(),
        )


def _parse_chat(prompt: Any) -> Chat | None:
    """Convert a prompt to messages; None if invalid."""
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(messages, list) or not messages:
        return None
    for message in messages:
        if not isinstance(message, dict) or message.keys() != {"role", "content"}:
            return None
        if message["role"] not in _ROLES or not isinstance(message["content"], str):
            return None
    return messages if messages[-1]["content"].strip() else None


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """A tokenized prompt with the task that scores its completions. source: column `source` of the dataset."""

    id: str
    prompt_ids: tuple[int, ...]
    task: Task
    source: str = ""


@dataclass(slots=True)
class _Dataset:
    """A dataset of a run.

    offsets  byte offset of each problem's line in the cache
    order    an epoch, and its shuffled order of problems
    """

    name: str
    offsets: list[int] = field(default_factory=list)
    order: tuple[int, list[int]] = (-1, [])


class PromptDataset:
    """The usable problems of a run, trusted and with prompts of at most data.max_prompt_tokens.

    prompt     format of the prompts
    tokenizer  a transformers tokenizer, with a chat template unless the prompt format is "base"
    cache      file to create for the problems, whose tests may exceed memory
    kinds      kinds of the problems
    digest     sha256 of the problems, to detect changes when a run resumes

    Raises CurateError if a folder is not a dataset or was altered. Raises ConfigError if the model lacks a chat
    template or a dataset has no usable problem.
    """

    def __init__(self, data: DataConfig, prompt: PromptFormat, tokenizer: Any, *, seed: int, cache: Path) -> None:
        self._seed = seed
        self._tokenizer = tokenizer
        self._template_arguments = prompt.chat_arguments
        self._targets = data.target_tokens
        self._cache = cache
        self._mixture = Mixture([weight for _, weight in data.list_datasets()], seed=seed)
        self._datasets = [_Dataset(name) for name, _ in data.list_datasets()]
        self.kinds = ProblemKinds()
        if tokenizer.chat_template is None and prompt.format == "chat":
            raise ConfigError(
                "the model has no chat template, so it is a base model. Choose a chat model, or use "
                "DeepSeek-R1-Zero's prompt: --prompt-format base"
            )
        digest = hashlib.sha256()
        with cache.open("wb") as file:
            for dataset in self._datasets:
                digest.update(self._store(dataset, data, prompt, file))
        self.digest = digest.hexdigest()

    def __len__(self) -> int:
        return sum(len(dataset.offsets) for dataset in self._datasets)

    def get_prompt(self, position: int) -> TrainingPrompt:
        """Return the prompt at this position. Thread-safe."""
        number, offset = self._mixture.locate(position)
        problem = self._read(self._datasets[number], offset)
        target = None
        if self._targets:
            target = random.Random(f"{self._seed} {position} target").choice(self._targets)
            problem.chat[-1]["content"] += "\n" + format_length_instruction(target)
        ids = tokenize_prompt(self._tokenizer, problem.chat, self._template_arguments)
        task = Task(
            Suite.from_json(problem.tests) if problem.tests else None,
            problem.strongest_tests,
            problem.time_limit_seconds,
            expected=problem.expected_answer,
            target_tokens=target,
            id=problem.id,
            prompt=problem.chat[-1]["content"],
        )
        return TrainingPrompt(problem.id, tuple(ids), task, problem.source)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode tokens, without special tokens."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return text

    def _store(self, dataset: _Dataset, data: DataConfig, prompt: PromptFormat, file: BinaryIO) -> bytes:
        """Write the problems of a dataset to the cache, and return their digest."""
        digest = hashlib.sha256()
        excluded_counts: Counter[str] = Counter()
        unverified_counts: Counter[str] = Counter()
        n_too_long = 0
        for problem in read_problems(
            dataset.name, TrustPolicy.from_choices(data.include), prompt, excluded_counts, unverified_counts
        ):
            ids = tokenize_prompt(self._tokenizer, problem.chat, prompt.chat_arguments)
            if len(ids) > data.max_prompt_tokens:
                n_too_long += 1
                continue
            dataset.offsets.append(file.tell())
            line = json.dumps(list(asdict(problem).values())).encode() + b"\n"
            digest.update(line)
            file.write(line)
            self.kinds |= problem.kind
        if not dataset.offsets:
            reasons = list(format_exclusions(excluded_counts))
            if n_too_long:
                reasons.append(
                    f"{n_too_long} prompts are longer than data.max_prompt_tokens = {data.max_prompt_tokens}"
                )
            raise ConfigError(
                f"{dataset.name}: no problem to train on ({'; '.join(reasons) or 'it has no rows'}). "
                "Choose another dataset, or exclude fewer rows."
            )
        if excluded_counts:
            log.warning("%s", format_exclusion_message(dataset.name, excluded_counts))
        if unverified_counts:
            log.warning("%s: %s", dataset.name, describe_unverified_rows(unverified_counts, data.include))
        return digest.digest()

    def _read(self, dataset: _Dataset, offset: int) -> TrainingProblem:
        epoch, number = divmod(offset, len(dataset.offsets))
        order_epoch, order = dataset.order
        if order_epoch != epoch:
            order = list(range(len(dataset.offsets)))
            random.Random(f"{self._seed} {epoch}").shuffle(order)
            dataset.order = epoch, order
        with self._cache.open("rb") as file:
            file.seek(dataset.offsets[order[number]])
            problem = TrainingProblem(*json.loads(file.readline()))
        return replace(problem, strongest_tests=tuple(problem.strongest_tests))
