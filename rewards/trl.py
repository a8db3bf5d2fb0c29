"""Rewards for TRL's trainers, with a dataset that `curate export --to trl` wrote:

    GRPOTrainer(..., reward_funcs=code_reward)
    GRPOTrainer(..., reward_funcs=RewardFunction(WeightedReward([(1.0, CodeReward(box)), (0.1, FormatReward())])))

Combine rewards with WeightedReward rather than in a list of reward_funcs: TRL skips functions that return None, and
excludes a completion from its group only if all return None.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rewards.argument_checks import check_callable, check_int, check_str
from rewards.async_rewards import AsyncRewards
from rewards.process_singletons import get_shared_reward, record_and_get_value
from rewards.reward import Completion, RewardCallable, Task
from sandbox import Suite

log = logging.getLogger(__name__)

_suite = lru_cache(8)(Suite.from_json)  # the completions of a group have the same text


class RewardFunction:
    """An adapter of a reward to TRL's reward-function signature.

    reward          the reward, such as CodeReward or WeightedReward
    name            its name in TRL's metrics
    max_tokens      the trainer's max_completion_length, for rewards that need it
    max_concurrent  maximum number of completions to score concurrently

    It reads these columns of the dataset, if present: `tests` (JSON text of a Suite), `strongest_tests`,
    `time_limit_seconds`, `expected` and `target_tokens`. A call raises ValueError if the reward needs a missing column.
    Raises TypeError and ValueError for invalid parameters.
    """

    def __init__(
        self, reward: RewardCallable, *, name: str = "reward", max_tokens: int | None = None, max_concurrent: int = 64
    ) -> None:
        check_callable("reward", reward, "CodeReward(box)")
        check_str("name", name)
        check_int("max_concurrent", max_concurrent)
        if max_tokens is not None:
            check_int("max_tokens", max_tokens)
        self.__name__ = name
        self._reward = reward
        self._max_tokens = max_tokens
        self._max_concurrent = max_concurrent

    def __call__(
        self,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return the reward of each completion; None, which TRL excludes from the group, if unknown.

        completions      texts, or conversations whose last message counts
        completion_ids   the tokens of each completion, for its length
        columns          the other columns of the dataset

        Raises TooManyUnknownRewards, a SandboxError, after many unknown rewards in this process.
        """
        texts = [_extract_text(completion) for completion in completions]
        lengths = [0] * len(texts) if completion_ids is None else [len(ids) for ids in completion_ids]
        with AsyncRewards(self._reward, max_concurrent=self._max_concurrent) as rewards:
            futures = [
                rewards.submit(self._make_completion(text, length), self._make_task(columns, row))
                for row, (text, length) in enumerate(zip(texts, lengths, strict=True))
            ]
            scored = [future.result() for future in futures]
        if unknown := Counter(reward.verdict for reward in scored if reward.value is None):
            log.warning("%d of %d rewards are unknown: %s", unknown.total(), len(scored), dict(unknown))
        return [record_and_get_value(reward) for reward in scored]

    def _make_completion(self, text: str, n_tokens: int) -> Completion:
        return Completion(text, n_tokens, truncated=self._max_tokens is not None and n_tokens >= self._max_tokens)

    def _make_task(self, columns: dict[str, Any], row: int) -> Task:
        tests, strongest, seconds, expected, target = (
            values[row] if (values := columns.get(name)) is not None else None
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


def _extract_text(completion: Any) -> str:
    """Return the text of a completion, or of the last message of a conversation.

    The content of a message may be a list of parts, or missing if the message calls a tool.
    """
    content = completion
    if not isinstance(completion, str):
        content = completion[-1].get("content") if completion else None
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def code_reward(completions: Sequence[Any], tests: Sequence[str], **columns: Any) -> list[float | None]:
    """Return the code reward of each completion, None if unknown, in the sandbox of this process.

    Runs all tests in the column `tests`, because the export has selected them.
    """
    if len(tests) != len(completions):
        raise ValueError(f"got {len(completions)} completions but {len(tests)} tests")
    return RewardFunction(get_shared_reward())(completions, tests=tests, **columns)
