"""The reward for TRL's trainers: `GRPOTrainer(..., reward_funcs=code_reward)` on a dataset that
`curate export --to trl` wrote."""

import logging
from collections.abc import Sequence
from typing import Any

from rewards.execution import rewards, shared_sandbox
from sandbox import Suite

log = logging.getLogger(__name__)


def code_reward(completions: Sequence[Any], tests: Sequence[str], **columns: Any) -> list[float | None]:
    """completions: texts, or conversations whose last message is the answer; tests: the column of that name.

    None where the sandbox or the suite's own checker failed: TRL leaves such a completion out of its group
    instead of punishing it.
    """
    texts = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    scores = rewards(zip(texts, map(Suite.from_json, tests), strict=True), shared_sandbox())
    if lost := scores.count(None):
        log.warning(
            "nothing is known of %d of %d completions, because the sandbox or a checker failed; no reward",
            lost,
            len(scores),
        )
    return scores
