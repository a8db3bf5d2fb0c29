"""A score in a contest is worth the rating that CodeElo computes."""

import pytest
from made_contests import contest

from train.evaluation.codeforces.rating import compute_rank, is_rated, rate_scores


@pytest.mark.parametrize(
    ("points", "place", "rating"),
    [
        (5000, 0, 2894),
        (4000, 1, 2894),
        (3005, 100, 2312),
        (2005, 200, 1802),
        (1005, 300, 1292),
        (500, 351, 1000),
        (0, 400, 183),
    ],
)
def test_ratings_of_four_hundred_participants(points, place, rating):
    four_hundred = contest()
    score = (float(points), 0.0)
    assert compute_rank(four_hundred, score) == place
    assert rate_scores(four_hundred, [score]) == {score: rating}


def test_ratings_where_all_participants_have_the_same_rating():
    equals = contest(scores=[(float(400 - i), 0.0) for i in range(400)], old_ratings=[1500] * 400)
    better_than_half, better_than_ten = (200.5, 0.0), (10.5, 0.0)
    assert [compute_rank(equals, score) for score in (better_than_half, better_than_ten)] == [200, 390]
    assert rate_scores(equals, [better_than_half, better_than_ten]) == {better_than_half: 1501, better_than_ten: 880}


def seed(old_ratings, rating):
    return 1 + sum(1 / (1 + 10 ** ((rating - other) / 400)) for other in old_ratings)


@pytest.mark.parametrize(
    "old_ratings",
    [
        pytest.param([0] * 100 + [1200 + 3 * i for i in range(150)], id="newcomers"),
        pytest.param([-40, -3] + [900 + i for i in range(250)], id="negative"),
        pytest.param([1500] * 220, id="equal"),
    ],
)
def test_the_rating_is_the_largest_whose_seed_reaches_the_rank(old_ratings):
    n = len(old_ratings)
    ranked = contest(scores=[(float(n - i), 0.0) for i in range(n)], old_ratings=old_ratings)
    scores = [(n - place + 0.5, 0.0) for place in range(0, n + 1, 17)]
    worth = rate_scores(ranked, scores)
    seeds = [seed(old_ratings, rating) for rating in range(max(old_ratings) + 100)]
    for score in scores:
        place = compute_rank(ranked, score)
        reaching = [rating for rating, reached in enumerate(seeds) if reached >= place]
        assert worth[score] == max(reaching, default=0)


def test_a_better_score_is_never_worth_less():
    four_hundred = contest()
    scores = [(float(points), penalty) for points in range(0, 4200, 35) for penalty in (20.0, 10.0, 0.0)]
    values = list(rate_scores(four_hundred, scores).values())
    assert values == sorted(values)
    assert values[0] < 200 < 2800 < values[-1]


def test_penalties_decide_between_equal_points():
    minutes = contest(scores=[(5.0, float(i)) for i in range(300)], old_ratings=[1500] * 300)
    scores = [(5.0, 10.0), (5.0, 0.0), (6.0, 900.0), (4.0, 0.0)]
    assert [compute_rank(minutes, score) for score in scores] == [11, 1, 0, 300]


def test_contests_with_two_hundred_participants_are_not_rated():
    assert [is_rated(contest(scores=[(1.0, 0.0)] * n, old_ratings=[1500] * n)) for n in (200, 201)] == [False, True]
