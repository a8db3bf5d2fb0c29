"""The prompts of a run: each dataset once per epoch, in an order that the seed determines.

A position counts prompts over all datasets and epochs, so a checkpoint stores only the position. Positions
are divided into blocks. In each block, every dataset gets its share up to rounding; a random shift makes the expected
share exact, however small. The order within a block is shuffled.

A dataset is one that curate built, or a file of prompts (JSONL, Parquet, CSV) with these columns:

    prompt   a text, or a list of messages with role and content, used as it is
    answer   expected answer, for reward.math or a custom reward function; optional
    id       name of the row; by default, its number
    source   origin, for metrics; by default, the name of the file
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
_MAX_CACHED_BLOCKS = 64  # a batch spans few blocks


class Mixture:
    """An assignment of positions to datasets. weights: positive proportions, one per dataset."""

    def __init__(self, weights: Sequence[float], *, seed: int) -> None:
        self._seed = seed
        *self._bounds, _ = (bound / sum(weights) for bound in accumulate(weights))
        self._block = lru_cache(_MAX_CACHED_BLOCKS)(self._build_block)
        self._lock = threading.Lock()
        self._before = [(0,) * len(weights)]  # for each block, the number of earlier prompts of each dataset

    def locate(self, position: int) -> tuple[int, int]:
        """Return the dataset's number, and the number of its prompts before this position."""
        if not self._bounds:
            return 0, position
        number, offset = divmod(position, _BLOCK_POSITIONS)
        block = self._block(number)
        dataset = block[offset]
        return dataset, self._count_before(number)[dataset] + block[:offset].count(dataset)

    def _count_before(self, number: int) -> tuple[int, ...]:
        before = self._before
        with self._lock:
            while len(before) <= number:
                block = self._block(len(before) - 1)
                before.append(tuple(count + block.count(dataset) for dataset, count in enumerate(before[-1])))
        return before[number]

    def _build_block(self, number: int) -> list[int]:
        rng = random.Random(f"{self._seed} {number} mixture")
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
    """A chat, and the tests or the expected answer that score its completions.

    tests            JSON text of a Suite; empty if none
    expected_answer  empty if none
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
    """Return whether a dataset is a file of prompts rather than one that curate built."""
    return Path(dataset).expanduser().is_file()


def read_problems(
    dataset: str,
    trust: TrustPolicy,
    prompt: PromptFormat,
    excluded_counts: Counter[str],
    unverified_counts: Counter[str],
) -> Iterator[TrainingProblem]:
    """Yield the problems of a dataset.

    prompt             format of program prompts; only its system prompt applies to a file of prompts
    excluded_counts    incremented for untrusted rows, by reason
    unverified_counts  incremented for unverified rows that are yielded, by source

    Raises CurateError if this is not a dataset or was altered, and ConfigError for an invalid row.
    """
    if is_prompt_file(dataset):
        return _read_prompt_file(Path(dataset).expanduser(), prompt)
    return _read_curated(dataset, trust, prompt, excluded_counts, unverified_counts)


def describe_unverified_rows(counts: Mapping[str, int], include: Sequence[str]) -> str:
    """Describe the unverified rows that a run trains on, and how to exclude them.

    counts   number of rows by source
    include  data.include of the run
    """
    of_each = ", ".join(f"{source} {n:,}" for source, n in sorted(counts.items()))
    rest = json.dumps([word for word in include if word != UNVERIFIED])
    return (
        f"trains on {sum(counts.values()):,} unverified rows ({of_each}): no solutions of them are published, so no "
        f"reference has passed their tests. To leave them out: --set 'data.include={rest}'"
    )


def _read_curated(
    dataset: str, trust: TrustPolicy, prompt: PromptFormat, left_out: Counter[str], unverified: Counter[str]
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
                left_out[reason] += 1
                continue
            if not row["verified"]:
                unverified[row["source"]] += 1
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
                "the column answer."
            )
        chat = _parse_chat(row["prompt"])
        if chat is None:
            raise ConfigError(
                f"{path}: the prompt of row {number} must be a text, or a list of messages with role and content, "
                f"not {shorten(repr(row['prompt']))}"
            )
        if prompt.system and chat[0]["role"] != "system":
            chat = [{"role": "system", "content": prompt.system}, *chat]
        expected = row["answer"]
        if not isinstance(expected, str | int | float | None):
            raise ConfigError(f"{path}: the answer of row {number} must be a text, not {shorten(repr(expected))}")
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
    """A tokenized prompt with the task that scores its completions."""

    id: str
    prompt_ids: tuple[int, ...]
    task: Task
    source: str = ""  # column `source` of the dataset


@dataclass(slots=True)
class _Dataset:
    """One dataset. offsets: byte offset of each problem's line in the cache."""

    name: str
    offsets: list[int] = field(default_factory=list)
    order: tuple[int, list[int]] = (-1, [])  # (epoch, its shuffled order)


class PromptDataset:
    """The trusted problems of a run with sufficiently short prompts, and a digest of them.

    prompt     format of the prompts
    tokenizer  a transformers tokenizer with a chat template
    cache      file for the problems, whose tests may exceed memory

    `n_too_long` counts the prompts that are too long, `left_out` the untrusted rows by reason. `kinds` has the kinds of
    problems.

    Raises CurateError if a folder is not a dataset or was altered. Raises ConfigError if the model has no chat template
    or a dataset has no usable problem.
    """

    def __init__(self, data: DataConfig, prompt: PromptFormat, tokenizer: Any, *, seed: int, cache: Path) -> None:
        self._seed = seed
        self._tokenizer = tokenizer
        self._template_arguments = prompt.chat_arguments
        self._targets = data.target_tokens
        self._cache = cache
        self._mixture = Mixture([weight for _, weight in data.list_datasets()], seed=seed)
        self._datasets = [_Dataset(name) for name, _ in data.list_datasets()]
        self.n_too_long = 0
        self.left_out: Counter[str] = Counter()
        self.kinds = ProblemKinds()
        if tokenizer.chat_template is None and prompt.format == "chat":
            raise ConfigError(
                "the model has no chat template: it is a base model. Choose a chat model, or use "
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
        left_out: Counter[str] = Counter()
        unverified: Counter[str] = Counter()
        n_too_long = 0
        for problem in read_problems(
            dataset.name, TrustPolicy.from_choices(data.include), prompt, left_out, unverified
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
            reasons = list(format_exclusions(left_out))
            if n_too_long:
                reasons.append(
                    f"{n_too_long} prompts are longer than data.max_prompt_tokens = {data.max_prompt_tokens}"
                )
            raise ConfigError(
                f"{dataset.name}: no problem to train on ({'; '.join(reasons) or 'it has no rows'}). "
                "Choose another dataset, or exclude fewer rows."
            )
        if left_out:
            log.warning("%s", format_exclusion_message(dataset.name, left_out))
        if unverified:
            log.warning("%s: %s", dataset.name, describe_unverified_rows(unverified, data.include))
        self.left_out += left_out
        self.n_too_long += n_too_long
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
