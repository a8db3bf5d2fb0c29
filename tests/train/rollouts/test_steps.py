"""Rewards of steps get from characters to tokens, and from there into the advantages that are trained on."""

from concurrent.futures import Future
from dataclasses import replace

import pytest

from rewards.reward import Reward, Task
from train.config import RolloutConfig as Settings
from train.rollouts.groups import BatchCollector, group_signal, steps_in_tokens
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.protocol import SampledCompletion, SamplingParams

WORDS = ["", "Two ", "and ", "two.\n", "Four", "."]  # the token 0 is special


def decode(ids):
    return "".join(WORDS[id] for id in ids)


@pytest.mark.parametrize(
    ("end", "tokens"),
    [
        pytest.param(0, 0, id="before the text"),
        pytest.param(4, 1, id="behind a token"),
        pytest.param(5, 2, id="within a token"),
        pytest.param(13, 3, id="a line"),
        pytest.param(18, 6, id="the end, with the token that ended the answer"),
        pytest.param(99, 6, id="beyond the end"),
    ],
)
def test_a_step_ends_with_the_token_that_completes_its_text(end, tokens):
    ids = (1, 2, 3, 4, 5, 0)
    assert steps_in_tokens(((end, 0.5),), decode(ids), ids, decode) == ((tokens, 0.5),)


class OneQuestion:
    decode = staticmethod(decode)

    def prompt_at(self, position):
        return TrainingPrompt("q", (1,), Task(), source="math")


class TwoAnswers:
    def sample(self, prompts, sampling):
        for index, _ in enumerate(prompts):
            ids = (1, 2, 3, 4, 5, 0)
            yield index, SampledCompletion(decode(ids), "stop", 6, (1,), ids, (-0.5,) * 6, (0,) * 6)


def process(answer, task):
    future = Future()
    future.set_result(Reward(1.0, "accepted", parts=(("steps", 1.0),), steps=((13, 1.0), (18, 0.0))))
    return future


def test_a_process_reward_teaches_although_all_answers_are_worth_the_same():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from train.config import ObjectiveConfig
    from train.rollouts.groups import to_training_sequences

    settings = Settings(prompts=1, completions=2)
    sampling = SamplingParams(max_tokens=9, logprobs=True)
    (group,) = BatchCollector(
        OneQuestion(), 0, settings, sampling, sampler=TwoAnswers(), submit=process, seed=0, process=True
    )
    assert (group[0].step_rewards, group[0].source, group[0].reward_components) == (
        ((3, 1.0), (6, 0.0)),
        "math",
        (("steps", 1.0),),
    )
    assert group_signal(group) == "all"
    first, _ = to_training_sequences(group, ObjectiveConfig(supervision="process", by_std=False))
    torch.testing.assert_close(first.advantages, (0.0, 0.0, 0.0, -0.5, -0.5, -0.5))
    first, _ = to_training_sequences(group, ObjectiveConfig(supervision="outcome"))
    assert first.advantages == (0.0,) * 6


def test_answers_without_steps_are_one_step():
    (group,) = BatchCollector(
        OneQuestion(), 0, Settings(prompts=1, completions=2, online_filter=False), SamplingParams(max_tokens=9),
        sampler=TwoAnswers(), submit=process, seed=0,
    )  # fmt: skip
    right, wrong = (
        replace(rollout, step_rewards=(), reward=reward) for rollout, reward in zip(group, (1.0, 0.0), strict=True)
    )
    assert group_signal((right, wrong), use_step_rewards=True) == "some"
    assert group_signal((right, right), use_step_rewards=True) == "all"
