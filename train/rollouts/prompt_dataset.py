"""The problems of a run as prompts: those of each dataset once in an epoch of it, in an order that the seed decides.

A position counts prompts over all datasets and epochs. A checkpoint needs to remember nothing else about the data.
"""

import hashlib
import json
import logging
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from curate.prompt import PromptFormat
from curate.trust import TrustPolicy, exclusion_lines, exclusion_message
from rewards.length_budget import length_instruction
from rewards.reward import Task
from sandbox import Suite
from train.config import DataConfig
from train.errors import ConfigError
from train.rollouts.mixture import Mixture
from train.rollouts.problems import ProblemKinds, TrainingProblem, describe_unverified_rows, read_problems
from train.sampling.chat_template import tokenize_prompt

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainingPrompt:
    """A problem as the tokens of a prompt, and the task by which an answer to it is judged."""

    id: str
    prompt_ids: tuple[int, ...]
    task: Task
    source: str = ""  # where the problem comes from: the column of this name


@dataclass(slots=True)
class _Dataset:
    """The problems of one dataset. offsets: where the line of each begins in the cache."""

    name: str
    offsets: list[int] = field(default_factory=list)
    order: tuple[int, list[int]] = (-1, [])  # an epoch, and the order of its problems


class PromptDataset:
    """The trusted problems of a run's datasets whose prompts are short enough, and a digest of them.

    prompt     the form in which the model is asked
    tokenizer  a tokenizer of transformers with a chat template
    cache      the file that holds the problems, whose tests can be too large for memory

    `n_too_long` counts the prompts that were left out, and `left_out` the rows that are not trusted, by reason.
    `kinds` says what the problems come with.

    Raises CurateError if a folder is not a dataset or was altered, and ConfigError if the model has no chat template
    or no problem of a dataset is left.
    """

    def __init__(self, data: DataConfig, prompt: PromptFormat, tokenizer: Any, *, seed: int, cache: Path) -> None:
        self._seed = seed
        self._tokenizer = tokenizer
        self._template_arguments = prompt.template_arguments
        self._targets = data.target_tokens
        self._cache = cache
        self._mixture = Mixture([weight for _, weight in data.parts()], seed=seed)
        self._datasets = [_Dataset(name) for name, _ in data.parts()]
        self.n_too_long = 0
        self.left_out: Counter[str] = Counter()
        self.kinds = ProblemKinds()
        if tokenizer.chat_template is None:
            raise ConfigError(
                "the model has no chat template: it is a base model. Choose one that was trained to answer."
            )
        digest = hashlib.sha256()
        with cache.open("wb") as file:
            for dataset in self._datasets:
                digest.update(self._store(dataset, data, prompt, file))
        self.digest = digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of problems in all datasets."""
        return sum(len(dataset.offsets) for dataset in self._datasets)

    def prompt_at(self, position: int) -> TrainingPrompt:
        """Return the question at this position. Several threads may ask at the same time."""
        number, place = self._mixture.locate(position)
        problem = self._read(self._datasets[number], place)
        target = None
        if self._targets:
            target = random.Random(f"{self._seed} {position} target").choice(self._targets)
            problem.chat[-1]["content"] += "\n" + length_instruction(target)
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
        """Return the text of some tokens, without special ones."""
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
            ids = tokenize_prompt(self._tokenizer, problem.chat, prompt.template_arguments)
            if len(ids) > data.max_prompt_tokens:
                n_too_long += 1
                continue
            dataset.offsets.append(file.tell())
            line = json.dumps(list(asdict(problem).values())).encode() + b"\n"
            digest.update(line)
            file.write(line)
            self.kinds |= problem.kind
        if not dataset.offsets:
            reasons = list(exclusion_lines(left_out))
            if n_too_long:
                reasons.append(
                    f"{n_too_long} prompts are longer than data.max_prompt_tokens = {data.max_prompt_tokens}"
                )
            raise ConfigError(
                f"{dataset.name}: no problem to train on ({'; '.join(reasons) or 'it has no rows'}). "
                "Choose another dataset, or change what is left out."
            )
        if left_out:
            log.warning("%s", exclusion_message(dataset.name, left_out))
        if unverified:
            log.warning("%s: %s", dataset.name, describe_unverified_rows(unverified, data.include))
        self.left_out += left_out
        self.n_too_long += n_too_long
        return digest.digest()

    def _read(self, dataset: _Dataset, place: int) -> TrainingProblem:
        epoch, number = divmod(place, len(dataset.offsets))
        known, order = dataset.order
        if known != epoch:
            order = list(range(len(dataset.offsets)))
            random.Random(f"{self._seed} {epoch}").shuffle(order)
            dataset.order = epoch, order
        with self._cache.open("rb") as file:
            file.seek(dataset.offsets[order[number]])
            problem = TrainingProblem(*json.loads(file.readline()))
        return replace(problem, strongest_tests=tuple(problem.strongest_tests))
