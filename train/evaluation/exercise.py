"""A problem as a model sees it, and how its answers are judged."""

import hashlib
import json
from dataclasses import dataclass

from curate.prompt import Chat
from train.evaluation.judges.judge import Judge


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a problem besides its text; "" where it is unknown.

    difficulty   a word such as "easy", or a level, as its source gives it
    platform     where it comes from, such as "atcoder"
    date         the day on which it was published, as YYYY-MM-DD
    """

    difficulty: str = ""
    platform: str = ""
    date: str = ""


NOTHING_KNOWN = Facts()


@dataclass(frozen=True, slots=True)
class Exercise:
    id: str
    chat: Chat
    judge: Judge
    facts: Facts = NOTHING_KNOWN

    @property
    def name(self) -> str:
        """Return a digest of everything that an answer and its verdict depend on, except the model and its sampling."""
        return hashlib.sha256(json.dumps([self.id, self.chat, *self.judge.identity]).encode()).hexdigest()[:32]
