"""The formulas are compared with the same formulas written number by number in plain Python."""

import math
import random
from statistics import mean, stdev

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.learning.objectives import (  # noqa: E402
    compute_clipped_loss,
    compute_constant_length_mean,
    compute_outcome_advantages,
    compute_ratio,
    compute_sequence_mean,
    compute_step_advantages,
    compute_token_mean,
    compute_truncated_importance_weights,
    estimate_kl,
    mask_mismatched_sequences,
    mask_overlong,
    zero_overlong_advantages,
)

NAN = math.nan


def numbers(n, low=-2.0, high=0.0, seed=0):
    rng = random.Random(seed)
    return [rng.uniform(low, high) for _ in range(n)]


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def close(found, expected):
    torch.testing.assert_close(found, tensor(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("by_std", [True, False])
def test_advantages_follow_the_paper(by_std):
    rewards = [numbers(4, 0, 1, seed=n) for n in range(3)]
    expected = [[(r - mean(row)) / (stdev(row) + 1e-4 if by_std else 1) for r in row] for row in rewards]
    close(compute_outcome_advantages(tensor(rewards), by_std=by_std), expected)


def test_the_walk_through_of_grpo_has_its_published_numbers():
    """Hugging Face's LLM course, chapter 12: eight answers to 2 + 2 * 6, of which four are 14; epsilon 0.2."""
    answers = [14, 10, 16, 14, 10, 14, 16, 14]
    (advantages,) = compute_outcome_advantages(
        tensor([[float(answer == 14) for answer in answers]]), by_std=True
    ).tolist()
    assert [round(advantage, 2) for advantage in advantages] == [0.94 if answer == 14 else -0.94 for answer in answers]
    # Its probabilities of an answer under the old and the new policy: ratios 1.4, 1.8 and 0.4, cut off to [0.8, 1.2].
    old, new = tensor([0.5, 0.5, 0.5]).log(), tensor([0.7, 0.9, 0.2]).log()
    right, wrong = tensor([max(advantages)] * 3), tensor([min(advantages)] * 3)
    close(compute_clipped_loss(new, old, right, low=0.2, high=0.2) / right, [-1.2, -1.2, -0.4])
    close(compute_clipped_loss(new, old, wrong, low=0.2, high=0.2) / wrong, [-1.4, -1.8, -0.8])


def test_a_reward_without_signal_takes_no_part_and_has_advantage_zero():
    found = compute_outcome_advantages(tensor([[1, 0, NAN, 0], [NAN, NAN, NAN, 1], [NAN] * 4]), by_std=True)
    centre, std = 1 / 3, stdev([1, 0, 0])
    close(found[0], [(1 - centre) / (std + 1e-4), -centre / (std + 1e-4), 0, -centre / (std + 1e-4)])
    close(found[1:], [[0.0] * 4] * 2)


@pytest.mark.parametrize("epsilon", [1e-4, 0.0])
def test_groups_whose_rewards_are_the_same_teach_nothing(epsilon):
    given = tensor([[1, 1, 1], [0, 0, 0], [0.1, 0.1, 0.1], [NAN, 0.3, 0.3]])
    close(compute_outcome_advantages(given, by_std=True, epsilon=epsilon), [[0.0] * 3] * 4)


@pytest.mark.parametrize("by_std", [True, False])
def test_process_advantages_follow_deepseekmath(by_std):
    rng = random.Random(5)
    lengths = [9, 4, 12]
    steps = [[(rng.randint(1, length), rng.uniform(-1, 1)) for _ in range(rng.randint(1, 4))] for length in lengths]
    rewards = [reward for of_one in steps for _, reward in of_one]
    found = compute_step_advantages(steps, lengths, by_std=by_std, epsilon=1e-6)
    for of_one, length, advantages in zip(steps, lengths, found, strict=True):
        assert len(advantages) == length
        for token in range(length):  # its advantage: sum of the normalised rewards of steps that end at it or later
            later = [reward - mean(rewards) for end, reward in of_one if end > token]
            assert advantages[token] == pytest.approx(sum(later) / (stdev(rewards) + 1e-6 if by_std else 1))


def test_outcomes_are_steps_that_take_the_whole_answer():
    rewards, lengths = [1.0, 0.0, 0.25], [3, 1, 2]
    found = compute_step_advantages([[(n, r)] for n, r in zip(lengths, rewards, strict=True)], lengths, by_std=True)
    (expected,) = compute_outcome_advantages(tensor([rewards]), by_std=True).tolist()
    assert found == [[advantage] * length for advantage, length in zip(expected, lengths, strict=True)]


def test_an_answer_without_tokens_counts_in_the_mean_of_the_steps_and_has_no_advantages():
    found = compute_step_advantages([[(0, 1.0)], [(2, 0.0)]], [0, 2], by_std=False)
    assert found == [[], [-0.5, -0.5]]


def by_hand(logp, old, advantage, low, high, delta):
    r = math.exp(logp - old)
    bounded = r if delta is None else min(r, delta)
    return -min(bounded * advantage, min(max(r, 1 - low), 1 + high) * advantage)


@pytest.mark.parametrize(("low", "high", "delta"), [(0.2, 0.2, None), (0.2, 0.28, None), (0.2, 0.2, 4.0)])
def test_the_clipped_loss_follows_the_papers(low, high, delta):
    logp, old, advantage = numbers(200, seed=1), numbers(200, -4, 0, seed=2), numbers(200, -1, 1, seed=3)
    expected = [by_hand(*row, low, high, delta) for row in zip(logp, old, advantage, strict=True)]
    close(compute_clipped_loss(tensor(logp), tensor(old), tensor(advantage), low=low, high=high, delta=delta), expected)


def test_two_sided_clipping_is_dual_clip_under_another_name():
    logp, old, advantage = numbers(200, seed=1), numbers(200, -6, 0, seed=2), numbers(200, -1, 1, seed=3)
    found = compute_clipped_loss(tensor(logp), tensor(old), tensor(advantage), low=0.2, high=0.28, delta=3.0)
    expected = []
    for row in zip(logp, old, advantage, strict=True):
        loss = by_hand(*row, 0.2, 0.28, None)
        expected.append(min(loss, -3.0 * row[2]) if row[2] < 0 else loss)  # verl's clip_ratio_c
    close(found, expected)


def test_a_good_token_beyond_the_upper_clip_has_no_gradient_but_a_bad_one_has():
    logp = tensor([0.0, 0.0]).requires_grad_()
    compute_clipped_loss(logp, tensor([-1.0, -1.0]), tensor([1.0, -1.0]), low=0.2, high=0.28).sum().backward()
    assert logp.grad[0] == 0
    assert logp.grad[1] == pytest.approx(math.e)


def test_ratios_stay_finite():
    assert compute_ratio(tensor([0.0]), tensor([-1000.0])).isfinite().all()


def test_k3_follows_the_paper_and_is_never_negative():
    logp, reference = numbers(100, seed=4), numbers(100, seed=5)
    expected = [math.exp(q - p) - (q - p) - 1 for p, q in zip(logp, reference, strict=True)]
    found = estimate_kl(tensor(logp), tensor(reference))
    close(found, expected)
    assert (found >= 0).all()


def test_sampler_weights_are_truncated_and_carry_no_gradient():
    old = tensor([0.0, -1.0, -3.0]).requires_grad_()
    found = compute_truncated_importance_weights(old, tensor([-3.0, -1.5, -1.0]), cap=2.0)
    close(found, [2.0, math.exp(0.5), math.exp(-2.0)])
    assert not found.requires_grad


def test_completions_that_another_model_sampled_are_left_out():
    sample = torch.tensor([0, 0, 0, 1, 1, 2])
    old, sampler = tensor([-1, -1, -9, -1, -1, -1]), tensor([-1, -1, -1, -1.5, -1.5, -1.0001])
    mask = tensor([1, 1, 0, 1, 1, 1])  # the token that differs most does not count
    found = mask_mismatched_sequences(old, sampler, mask, sample, 3, low=0.9, high=1.1)
    close(found, [1, 1, 0, 0, 0, 1])


LENGTHS = [5, 1, 3, 7]
SAMPLE = [n for n, length in enumerate(LENGTHS) for _ in range(length)]


def batch():
    loss, mask = numbers(16, seed=6), [float(n % 5 != 0) for n in range(16)]
    return loss, mask


@pytest.mark.parametrize("split", [[[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 0], [2, 1]]])
def test_no_aggregation_depends_on_how_the_batch_is_split(split):
    loss, mask = batch()
    counted = [sum(m for m, s in zip(mask, SAMPLE, strict=True) if s == n) for n in range(4)]
    by_sample = [sum(x * m for x, m, s in zip(loss, mask, SAMPLE, strict=True) if s == n) for n in range(4)]
    alive = sum(count > 0 for count in counted)
    expected = {
        "token_mean": sum(by_sample) / sum(counted),
        "sequence_mean": sum(x / max(c, 1) for x, c in zip(by_sample, counted, strict=True)) / alive,
        "constant_length": sum(by_sample) / (alive * 8),
    }
    found = dict.fromkeys(expected, 0.0)
    for part in split:
        places = [place for place, s in enumerate(SAMPLE) if s in part]
        loss_T, mask_T = tensor([loss[p] for p in places]), tensor([mask[p] for p in places])
        sample_T = torch.tensor([part.index(SAMPLE[p]) for p in places])
        tokens_N = tensor([counted[n] for n in part])
        found["token_mean"] += compute_token_mean(loss_T, mask_T, n_tokens=sum(counted)).item()
        found["sequence_mean"] += compute_sequence_mean(
            loss_T, mask_T, sample_T, tokens_N=tokens_N, n_sequences=alive
        ).item()
        found["constant_length"] += compute_constant_length_mean(loss_T, mask_T, n_sequences=alive, max_tokens=8).item()
    assert found == pytest.approx(expected)


def test_the_loss_of_a_batch_without_counting_tokens_is_zero_and_not_nan():
    loss, mask, sample = tensor([1.0, 2.0]), tensor([0.0, 0.0]), torch.tensor([0, 1])
    assert compute_token_mean(loss, mask, n_tokens=0) == 0
    assert compute_sequence_mean(loss, mask, sample, tokens_N=tensor([0, 0]), n_sequences=0) == 0
    assert compute_constant_length_mean(loss, mask, n_sequences=0, max_tokens=8) == 0


def test_overlong_answers_are_removed_from_the_mask():
    found = mask_overlong(tensor([1, 0, 1]), torch.tensor([True, False]), torch.tensor([0, 0, 1]))
    close(found, [0, 0, 1])


def test_deepcoders_code_zeroes_only_answers_that_were_cut_off_and_failed():
    found = zero_overlong_advantages(tensor([-1, 1, -1]), tensor([0, 1, 0]), torch.tensor([True, True, False]))
    close(found, [0, 1, -1])
