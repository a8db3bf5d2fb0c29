"""Rewards for TRL's trainers, on a dataset that `curate export --to trl` wrote:

    GRPOTrainer(..., reward_funcs=code_reward)
    GRPOTrainer(..., reward_funcs=RewardFunction(Weighted([(1.0, CodeReward(box)), (0.1, FormatReward())])))

Combine rewards by Weighted rather than in a list of reward_funcs: where one function of several gives None, TRL adds up
the others, and only where all do is the completion left out of its group.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rewards.async_rewards import AsyncRewards
from rewards.reward import Answer, Score, Task
from rewards.shared import counted, shared_reward
from sandbox import Suite

log = logging.getLogger(__name__)

_suite = lru_cache(8)(Suite.from_json)  # the completions of a group bring the same text


class RewardFunction:
    """One of our rewards in the form that TRL calls.

    name         in TRL's metrics
    max_tokens   the trainer's max_completion_length, for rewards that look at it
    at_once      completions scored at once

    It takes the dataset's columns `tests` (text of a Suite), `strongest_tests`, `time_limit_seconds`, `expected` and
    `target_tokens`, those that there are. Called, it raises ValueError where the reward needs another.
    """

    def __init__(
        self, reward: Score, *, name: str = "reward", max_tokens: int | None = None, at_once: int = 64
    ) -> None:
        self.__name__ = name
        self._reward = reward
        self._max_tokens = max_tokens
        self._at_once = at_once

    def __call__(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """completions: texts, or conversations whose last message is the answer. None: nothing is known, and TRL
        leaves the completion out of its group instead of punishing it. No single completion raises; SandboxError comes
        for a run of many of which nothing is known (unknown.py), over all calls in this process."""
        texts = [_text(completion) for completion in completions]
        lengths = [0] * len(texts) if completion_ids is None else [len(ids) for ids in completion_ids]
        with AsyncRewards(self._reward, at_once=self._at_once) as rewards:
            futures = [
                rewards.submit(self._answer(text, length), self._task(columns, place))
                for place, (text, length) in enumerate(zip(texts, lengths, strict=True))
            ]
            scored = [future.result() for future in futures]
        if unknown := Counter(reward.verdict for reward in scored if reward.value is None):
            log.warning("nothing is known of %d of %d completions: %s", unknown.total(), len(scored), dict(unknown))
        return [counted(reward) for reward in scored]

    def _answer(self, text: str, n_tokens: int) -> Answer:
        return Answer(text, n_tokens, self._max_tokens is not None and n_tokens >= self._max_tokens)

    def _task(self, columns: dict[str, Any], place: int) -> Task:
        tests, strongest, seconds, expected, target = (
            values[place] if (values := columns.get(name)) is not None else None
            for name in ("tests", "strongest_tests", "time_limit_seconds", "expected", "target_tokens")
        )
        return Task(
            tests=None if tests is None else _suite(tests),
            strongest_tests=tuple(strongest or ()),
            time_limit_seconds=seconds,
            expected=expected or "",
            target_tokens=target,
            max_tokens=self._max_tokens,
        )


def _text(completion: Any) -> str:
    """A completion as text. If it is a conversation, its last message counts, which may be a list of parts, or call a
    tool and say nothing."""
    if not isinstance(completion, str):
        completion = completion[-1].get("content") if completion else None
    if isinstance(completion, list):
        return "".join(part.get("text") or "" for part in completion)
    return completion or ""


def code_reward(completions: Sequence[Any], tests: Sequence[str], **columns: Any) -> list[float | None]:
    """CodeReward in the sandbox of this process, over all tests in the column of that name: the export chose them."""
    if len(tests) != len(completions):
        raise ValueError(f"{len(completions)} completions and {len(tests)} tests")
    return RewardFunction(shared_reward())(completions, tests=tests, **columns)
