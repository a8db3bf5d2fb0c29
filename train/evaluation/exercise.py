"""A problem as a model sees it, and how its answers are judged."""

import hashlib
import json
from dataclasses import dataclass

from curate.prompt import Chat
from train.evaluation.judges.judge import Judge
from train.evaluation.statistics.outcomes import Facts

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
