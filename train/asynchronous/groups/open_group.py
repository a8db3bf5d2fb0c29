"""One group that was asked: its answers, its rewards, and what a learner takes of it."""

import math
from dataclasses import dataclass, field
from enum import Enum

from train.asynchronous.binary_arrays import unpack_logprobs, unpack_tokens
from train.asynchronous.groups import events
from train.asynchronous.groups.events import GroupDispatched, ResultScored
from train.asynchronous.messages import SampleResult
from train.rollouts.batch_collector import Group, Rollout


class GroupState(Enum):
    LEASED = "leased"  # a worker samples it
    FINISHED = "finished"  # all answers are there
    SCORED = "scored"  # all rewards are there
    READY = "ready"  # it can be trained on


@dataclass(slots=True)
class OpenGroup:
    """A group from being asked to being used, lost or rejected."""

    dispatched: GroupDispatched
    state: GroupState = GroupState.LEASED
    answers: dict[int, events.ResultReceived] = field(default_factory=dict)
    scores: dict[int, ResultScored] = field(default_factory=dict)

    def rewards(self) -> list[tuple[float, bool]]:
        """Return the reward of each answer, nan if it is unknown, and whether the answer was cut off."""
        return [
            (_or_nan(self.scores[number].reward), answered.answer.finish_reason == "length")
            for number, answered in sorted(self.answers.items())
        ]

    def step_rewards(self) -> list[list[float]]:
        """Return the rewards of the steps of each answer."""
        return [[value for _, value in self.scores[number].step_rewards] for number in sorted(self.answers)]

    def rollouts(self) -> Group:
        """Return the group as the learner takes it. All its answers must be scored."""
        prompt_ids = tuple(unpack_tokens(self.dispatched.prompt))
        return tuple(
            self._rollout(prompt_ids, answered.answer, answered.text, self.scores[number])
            for number, answered in sorted(self.answers.items())
        )

    def _rollout(self, prompt_ids: tuple[int, ...], answer: SampleResult, text: str, scored: ResultScored) -> Rollout:
        return Rollout(
            problem_id=self.dispatched.problem_id,
            prompt_ids=prompt_ids,
            token_ids=tuple(unpack_tokens(answer.tokens)),
            logprobs=tuple(unpack_logprobs(answer.logprobs)),
            versions=tuple(version for version, start, end in answer.spans for _ in range(start, end)),
            truncated=answer.finish_reason == "length",
            text=text,
            reward=_or_nan(scored.reward),
            verdict=scored.verdict,
            reward_seconds=scored.seconds,
            source=self.dispatched.source,
            reward_components=scored.reward_components,
            step_rewards=scored.step_rewards,
        )


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
