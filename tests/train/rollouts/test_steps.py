"""Rewards of steps get from characters to tokens, and from there into the advantages that are trained on."""

from dataclasses import replace

import pytest

from train.rollouts.groups import Rollout, classify_group_signal, convert_steps_to_tokens

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
    assert convert_steps_to_tokens(((end, 0.5),), decode(ids), ids, decode) == ((tokens, 0.5),)


def group_of_two():
    """Return a group of two right answers whose steps have rewards of their own."""
    steps = convert_steps_to_tokens(((13, 1.0), (18, 0.0)), decode((1, 2, 3, 4, 5, 0)), (1, 2, 3, 4, 5, 0), decode)
    answer = Rollout(
        "q",
        (1,),
        (1, 2, 3, 4, 5, 0),
        (-0.5,) * 6,
        (0,) * 6,
        False,
        "Two and two.",
        1.0,
        "accepted",
        0.1,
        step_rewards=steps,
    )
    return answer, answer


def test_a_process_reward_teaches_although_all_answers_are_worth_the_same():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from train.config import ObjectiveConfig
    from train.rollouts.groups import to_training_sequences

    group = group_of_two()
    assert group[0].step_rewards == ((3, 1.0), (6, 0.0))
    assert classify_group_signal(group) == "all"
    first, _ = to_training_sequences(group, ObjectiveConfig(supervision="process", by_std=False))
    torch.testing.assert_close(first.advantages, (0.0, 0.0, 0.0, -0.5, -0.5, -0.5))
    first, _ = to_training_sequences(group, ObjectiveConfig(supervision="outcome"))
    assert first.advantages == (0.0,) * 6


def test_answers_without_steps_are_one_step():
    right, wrong = (
        replace(rollout, step_rewards=(), reward=reward)
        for rollout, reward in zip(group_of_two(), (1.0, 0.0), strict=True)
    )
    assert classify_group_signal((right, wrong), use_step_rewards=True) == "some"
    assert classify_group_signal((right, right), use_step_rewards=True) == "all"
