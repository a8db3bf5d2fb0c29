"""The problems of a curated dataset as prompts: each once in an epoch, in an order that the seed decides.

A position counts prompts over all epochs. A checkpoint needs to remember nothing else about the data.
"""

import hashlib
import json
import logging
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.dataset.integrity import check_trusted
from curate.dataset.locate import dataset_folder
from curate.dataset.reader import Stored, readable
from curate.prompt import Prompt
from curate.trust import Trust, left_out_lines, left_out_text
from rewards.length_budget import length_instruction
from rewards.reward import Task
from sandbox import Suite
from train.config import Data
from train.errors import ConfigError
from train.sampling.chat_template import prompt_ids

log = logging.getLogger(__name__)

_KEPT = ("tests", "strongest_tests", "time_limit_seconds")  # columns that are needed to judge answers
_COLUMNS = ("id", "source", "statement", "starter_code", *_KEPT, "verified", "multi_answer_suspect")


@dataclass(frozen=True, slots=True)
class Question:
    """A problem as the tokens of a prompt, and the task by which an answer to it is judged."""

    id: str
    prompt_ids: tuple[int, ...]
    task: Task
    source: str = ""  # where the problem comes from: the column of this name


class Questions:
    """The trusted problems of a dataset whose prompts are short enough, and a digest of them.

    prompt     the form in which the model is asked
    tokenizer  a tokenizer of transformers with a chat template
    cache      the file that holds the problems, whose tests can be too large for memory

    `n_too_long` counts the prompts that were left out, and `left_out` the rows that are not trusted, by reason.

    Raises CurateError if the folder is not a dataset or was altered, and ConfigError if the model has no chat template
    or no problem is left.
    """

    def __init__(self, data: Data, prompt: Prompt, tokenizer: Any, *, seed: int, cache: Path) -> None:
        self._seed = seed
        self._tokenizer = tokenizer
        self._template_arguments = prompt.template_arguments
        self._targets = data.target_tokens
        self._cache = cache
        self._offsets: list[int] = []  # where each line of the file begins
        self._order: tuple[int, list[int]] = (-1, [])  # an epoch, and the order of its problems
        self.n_too_long = 0
        self.left_out: Counter[str] = Counter()
        digest = hashlib.sha256()
        if tokenizer.chat_template is None:
            raise ConfigError(
                "the model has no chat template: it is a base model. Choose one that was trained to answer."
            )
        dataset, trust = dataset_folder(data.dataset), Trust.including(data.include)
        check_trusted(dataset, trust)
        with cache.open("wb") as file, readable(dataset):
            for row in Stored(dataset).columns(*_COLUMNS):
                suite = Suite.from_json(row["tests"])
                objection = trust.objection(
                    verified=row["verified"], suspect=row["multi_answer_suspect"], checker=suite.checker
                )
                if objection is not None:
                    self.left_out[objection] += 1
                    continue
                messages = prompt.chat(row["statement"], row["starter_code"], suite)
                ids = prompt_ids(tokenizer, messages, prompt.template_arguments)
                if len(ids) > data.max_prompt_tokens:
                    self.n_too_long += 1
                    continue
                self._offsets.append(file.tell())
                line = json.dumps([row["id"], row["source"], messages, *(row[name] for name in _KEPT)]).encode() + b"\n"
                digest.update(line)
                file.write(line)
        self.digest = digest.hexdigest()
        if not self._offsets:
            reasons = list(left_out_lines(self.left_out))
            if self.n_too_long:
                reasons.append(
                    f"{self.n_too_long} prompts are longer than data.max_prompt_tokens = {data.max_prompt_tokens}"
                )
            raise ConfigError(
                f"{data.dataset}: no problem to train on ({'; '.join(reasons) or 'it has no rows'}). "
                "Choose another dataset, or change what is left out."
            )
        if self.left_out:
            log.warning("%s", left_out_text(data.dataset, self.left_out))

    def __len__(self) -> int:
        """Return the number of problems in an epoch."""
        return len(self._offsets)

    def at(self, position: int) -> Question:
        """Return the question at this position."""
        epoch, number = divmod(position, len(self))
        if self._order[0] != epoch:
            order = list(range(len(self)))
            random.Random(f"{self._seed} {epoch}").shuffle(order)
            self._order = epoch, order
        with self._cache.open("rb") as file:
            file.seek(self._offsets[self._order[1][number]])
            id, source, messages, tests, strongest, limit = json.loads(file.readline())
        target = None
        if self._targets:
            target = random.Random(f"{self._seed} {position} target").choice(self._targets)
            messages[-1]["content"] += "\n" + length_instruction(target)
        ids = prompt_ids(self._tokenizer, messages, self._template_arguments)
        task = Task(
            Suite.from_json(tests),
            tuple(strongest or ()),
            limit,
            target_tokens=target,
            id=id,
            prompt=messages[-1]["content"],
        )
        return Question(id, tuple(ids), task, source)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of some tokens, without special ones."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return text
