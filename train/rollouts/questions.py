"""The problems of a curated dataset as a run asks them: each once an epoch, in an order that the seed decides.

A position counts prompts over all epochs. It is all that a checkpoint has to remember of the data.
"""

import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curate.dataset.reader import Stored, readable
from curate.difficulty.prompt import chat
from rewards.length_budget import words
from rewards.reward import Task
from sandbox import Suite
from train.config import Data
from train.errors import ConfigError
from train.sampling.protocol import Chat

_COLUMNS = ("id", "statement", "starter_code", "tests", "strongest_tests", "time_limit_seconds")


@dataclass(frozen=True, slots=True)
class Question:
    """A problem as it is asked, and what an answer to it is judged by."""

    id: str
    chat: Chat
    task: Task


class Questions:
    """The problems of a dataset that fit, and a digest of them; n_too_long did not. They wait in the file `cache`:
    tests may be large.

    tokenizer: of transformers, with a chat template. Raises CurateError for a folder that is no dataset, ConfigError
    if nothing of it can be asked.
    """

    def __init__(self, data: Data, tokenizer: Any, *, seed: int, cache: Path) -> None:
        self._seed = seed
        self._targets = data.target_tokens
        self._cache = cache
        self._places: list[int] = []  # of the lines of the file
        self._order: tuple[int, list[int]] = (-1, [])  # an epoch and its order
        self.n_too_long = 0
        digest = hashlib.sha256()
        if tokenizer.chat_template is None:
            raise ConfigError("the model has no chat template: it is a base model. Give one that was taught to answer.")
        dataset = Path(data.dataset).expanduser()
        with cache.open("wb") as file, readable(dataset):
            for row in Stored(dataset).columns(*_COLUMNS):
                messages = chat(row["statement"], row["starter_code"], Suite.from_json(row["tests"]).entry_point)
                ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
                if len(ids) > data.max_prompt_tokens:
                    self.n_too_long += 1
                    continue
                self._places.append(file.tell())
                line = json.dumps([row["id"], messages, *(row[name] for name in _COLUMNS[3:])]).encode() + b"\n"
                digest.update(line)
                file.write(line)
        self.digest = digest.hexdigest()
        if not self._places:
            raise ConfigError(
                f"{data.dataset}: no problem to train on ({self.n_too_long} prompts are longer than "
                f"data.max_prompt_tokens = {data.max_prompt_tokens}). Give another dataset, or raise that."
            )

    def __len__(self) -> int:
        """Problems in an epoch."""
        return len(self._places)

    def at(self, position: int) -> Question:
        """The question at this position."""
        epoch, number = divmod(position, len(self))
        if self._order[0] != epoch:
            order = list(range(len(self)))
            random.Random(f"{self._seed} {epoch}").shuffle(order)
            self._order = epoch, order
        with self._cache.open("rb") as file:
            file.seek(self._places[self._order[1][number]])
            id, messages, tests, strongest, limit = json.loads(file.readline())
        target = None
        if self._targets:
            target = random.Random(f"{self._seed} {position} target").choice(self._targets)
            messages[-1]["content"] += "\n" + words(target)
        return Question(id, messages, Task(Suite.from_json(tests), tuple(strongest or ()), limit, target_tokens=target))
