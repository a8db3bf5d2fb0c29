"""The rating of a model is the mean over contests, and does not depend on the order of its samples."""

from itertools import permutations, product
from statistics import fmean

import pytest
from made_contests import contest, with_points
from made_outcomes import outcome

from curate.errors import CurateError
from train.evaluation.codeforces.contests import ContestProblem, parse_problem_key
from train.evaluation.codeforces.rating import (
    PercentileTable,
    compute_score_probabilities,
    compute_wrong_attempt_probabilities,
    load_deepcoder_percentiles,
    rate_contest,
    rate_model,
    rate_scores,
)

TABLE = load_deepcoder_percentiles()


def all_orders(bits):
    return list(permutations(bits))


def count_wrong_attempts(order):
    return order.index(True) if True in order else None


@pytest.mark.parametrize("bits", ["1", "0", "10", "0001", "00111", "000000"])
def test_first_right_attempts_are_as_likely_as_among_all_orders(bits):
    values = [bit == "1" for bit in bits]
    chances = compute_wrong_attempt_probabilities(len(values), sum(values))
    found = [count_wrong_attempts(order) for order in all_orders(values)]
    assert chances == pytest.approx({n_wrong: found.count(n_wrong) / len(found) for n_wrong in set(found)})


def test_samples_without_a_verdict_are_no_attempts():
    round = with_points(500.0)
    for bits, as_if in (("x0x1", "01"), ("x0", "0"), ("", "0")):
        found, expected = (rate_contest(round, {"A": outcome("1971A", text)}) for text in (bits, as_if))
        assert found.rating == expected.rating, bits


@pytest.mark.parametrize(("n", "n_correct"), [(2, 3), (2, -1)])
def test_impossible_numbers_are_refused(n, n_correct):
    with pytest.raises(ValueError, match="samples cannot be correct"):
        compute_wrong_attempt_probabilities(n, n_correct)


@pytest.mark.parametrize("points", [(500.0, 2000.0, 100.0), (None, None, None)])
def test_the_rating_is_the_mean_over_all_orders(points):
    """The three problems have 4, 3 and 4 samples, so there are 24 * 6 * 24 orders, many of them alike."""
    round = with_points(*points)
    bits = {"A": "0110", "B": "001", "C": "0000"}
    found = rate_contest(round, {index: outcome(f"1971{index}", text) for index, text in bits.items()})
    in_each_order = []
    for orders in product(*(all_orders([bit == "1" for bit in text]) for text in list(bits.values())[:2])):
        attempts = [count_wrong_attempts(order) for order in orders]
        gains = [
            (0 if n is None else 1 if value is None else value - 50 * n, 10 * (n or 0) if value is None else 0)
            for n, value in zip(attempts, points[:2], strict=True)
        ]
        score = (float(sum(gain for gain, _ in gains)), float(sum(penalty for _, penalty in gains)))
        in_each_order.append(rate_scores(round, [score])[score])
    assert found.rating == pytest.approx(fmean(in_each_order))
    assert (found.n_problems, found.n_judged) == (3, 3)


def test_the_chances_of_scores_add_up_to_one():
    problems = [ContestProblem(index, 500.0 * (1 + place)) for place, index in enumerate("ABCDEFGH")]
    chances = compute_score_probabilities(problems, {index: (8, place) for place, index in enumerate("ABCDEFGH")})
    assert sum(chances.values()) == pytest.approx(1)
    assert min(chances) == (500.0 * (2 + 3 + 4 + 5 + 6 + 7 + 8) - 50 * (7 + 6 + 5 + 4 + 3 + 2 + 1), 0.0)


def test_points_do_not_become_negative():
    problems = [ContestProblem("A", 100.0)]
    assert compute_score_probabilities(problems, {"A": (4, 1)}) == pytest.approx(
        {(100.0, 0.0): 0.25, (50.0, 0.0): 0.25, (0.0, 0.0): 0.5}
    )


def test_a_model_is_rated_over_its_contests():
    rounds = [with_points(1000.0, 2000.0, id=id) for id in (1971, 1972, 1973, 1974)]
    unrated = contest(ContestProblem("A", 500.0), id=1975, scores=[(1.0, 0.0)] * 150, old_ratings=[1500] * 150)
    bits = {"1971A": "1111", "1971B": "1111", "1972A": "0110", "1973A": "x1", "1973B": "xx", "1975A": "1"}
    outcomes = [outcome(id, text) for id, text in bits.items()]
    found = rate_model(outcomes, [*rounds, unrated], TABLE)
    assert [rating.contest for rating in found.contests] == [1971, 1972, 1973]
    assert [rating.n_judged for rating in found.contests] == [2, 1, 1]
    assert found.unrated_contests == (1974, 1975)
    assert found.rating == pytest.approx(fmean(rating.rating for rating in found.contests))
    ascending = sorted(rating.rating for rating in found.contests)
    assert (found.low, found.high) == (ascending[0], ascending[-1])  # one of 27 sets of three is all alike
    assert found.low < found.rating < found.high
    assert found == rate_model(outcomes, [*rounds, unrated], TABLE)
    assert found.percentile_low < found.percentile < found.percentile_high
    assert (found.percentile, found.table) == (TABLE.compute_percentile(found.rating), "ratings_2024 (DeepCoder)")


def test_one_contest_has_no_interval():
    found = rate_model([outcome("1971A", "1")], [with_points(500.0)], TABLE)
    assert (found.low, found.high, found.percentile_low, found.percentile_high) == (None,) * 4
    assert found.rating == found.contests[0].rating


def test_more_right_samples_never_lower_the_rating():
    round = with_points(500.0, 1500.0)
    for order in "01111", "00011":
        found = [rate_contest(round, {"B": outcome("1971B", "1" * n + "0" * (5 - n))}).rating for n in range(6)]
        assert found == sorted(found), order
    assert found[0] < found[1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["abc365_d"], "'abc365_d' is not the id of a Codeforces problem, such as 1971A"),
        (["1971A", "1971/a"], "The problem 1971/a occurs twice"),
        (["1999A"], "No problem with a verdict belongs to a contest with standings"),
        ([], "No problem with a verdict"),
    ],
)
def test_models_that_cannot_be_rated_are_explained(ids, message):
    with pytest.raises(CurateError, match=message):
        rate_model([outcome(id, "1") for id in ids], [with_points(500.0)], TABLE)


@pytest.mark.parametrize("id", ["1971D2", "1971/D2", "1971_D2", "1971d2", "CF1971D2", "codeforces/1971/D2", " 1971-D2"])
def test_ids_of_problems_are_read_in_all_their_forms(id):
    assert parse_problem_key(id) == (1971, "D2")


@pytest.mark.parametrize(
    ("rating", "percentile"),
    [
        (615, 1.9),
        (963, 28.5),
        (1658, 88.5),
        (1791, 92.7),
        (1918, 94.9),
        (1948, 95.4),
        (1991, 96.1),
        (1936, 95.2),
        (1937, 95.3),
        (-100, 0.0),
        (5000, 100.0),
    ],
)
def test_percentiles_are_those_that_deepcoder_published(rating, percentile):
    assert TABLE.compute_percentile(rating) == percentile


def test_the_shipped_table_is_whole():
    assert (len(TABLE.ratings), TABLE.n_below[-1]) == (2502, 89352)


def test_a_percentile_counts_users_with_a_lower_rating():
    table = PercentileTable.from_counts("small", {1000: 2, 1200: 1, 1500: 1})
    assert [table.compute_percentile(rating) for rating in (1000, 1000.5, 1200, 1500, 1501)] == [0, 50, 50, 75, 100]
    with pytest.raises(ValueError, match="has no users"):
        PercentileTable.from_counts("empty", {})
