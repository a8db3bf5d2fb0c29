"""Two models on the same problems: the difference, its error, and whether it can be chance."""

import random
from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, isnan, sqrt

import pytest
from lcb_facts import in_window, needs_facts
from made_outcomes import drawn, outcome, outcomes

from curate.errors import CurateError
from train.evaluation.statistics.comparison import (
    compare,
    compare_with_reference,
    compute_sign_flip_p,
    correct_p_values,
    find_best_model,
)
from train.evaluation.statistics.intervals import compute_standard_error


@needs_facts
def test_the_two_published_models_differ_as_published():
    preview, mini = in_window("o1_preview"), in_window("o1_mini")
    found = compare(preview, mini)
    assert found.n_problems == 279
    percent = [round(100 * value, 2) for value in (found.difference, found.standard_error, found.low, found.high)]
    assert percent == [9.32, 2.53, 4.23, 14.27]
    assert Counter(found.differences.values()) == {1.0: 39, -1.0: 13}
    assert round(found.p, 5) == 0.00041
    shares = [[float(problem.n_correct) for problem in model] for model in (preview, mini)]
    # If it were unpaired.
    assert round(100 * sqrt(sum(compute_standard_error(values) ** 2 for values in shares)), 2) == 4.22


def test_equal_models_do_not_differ():
    found = compare(outcomes("10", "11", "0x"), outcomes("01", "11", "00"))
    assert (found.difference, found.standard_error, found.p) == (0, 0, 1)
    assert found.low == -found.high < 0
    assert isnan(found.minimum_detectable)
    assert found.differences == {}


def test_one_problem_says_nothing_about_others():
    found = compare(outcomes("0"), outcomes("1"))
    assert (found.difference, found.p) == (1, 1)
    assert isnan(found.standard_error)
    assert (found.low, found.high) == (pytest.approx(-0.97, abs=0.01), 1)


def test_problems_without_a_verdict_are_left_out_and_counted():
    found = compare(outcomes("1", "x", "0"), outcomes("1", "1", "x"))
    assert (found.n_problems, found.n_unknown, found.difference) == (1, 2, 0)
    with pytest.raises(CurateError, match="No problem has a verdict in both evaluations"):
        compare(outcomes("x"), outcomes("1"))


def test_other_problems_or_other_tests_are_refused():
    with pytest.raises(CurateError, match="1 are only in the first and 0 only in the second, such as p1"):
        compare(outcomes("1", "1"), outcomes("1"))
    with pytest.raises(CurateError, match="several problems with the id p0"):
        compare([outcome("p0", "1"), outcome("p0", "0")], outcomes("1"))
    with pytest.raises(CurateError, match="judged 1 problems with different tests, such as p0"):
        compare([outcome("p0", "1", tests="a")], [outcome("p0", "1", tests="b")])
    assert compare([outcome("p0", "1", tests="a")], [outcome("p0", "1")]).n_problems == 1  # one does not say


def test_the_order_of_problems_does_not_matter():
    first, second = outcomes("10", "11", "00", "01"), outcomes("11", "11", "00", "11")
    assert compare(first, second) == compare(first, second[::-1])


@pytest.mark.parametrize("seed", range(4))
def test_the_permutation_test_counts_all_choices_of_signs(seed):
    rng = random.Random(seed)
    differences = [Fraction(rng.randint(-4, 5), rng.choice((3, 4, 8))) for _ in range(10)]
    sums = [
        sum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in product((-1, 1), repeat=10)
    ]
    as_far = sum(abs(total) >= abs(sum(differences)) for total in sums)
    assert compute_sign_flip_p(differences) == as_far / 2**10


def test_twenty_differences_are_counted_exactly_whatever_they_are():
    differences = [Fraction(1, n) for n in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)]
    assert compute_sign_flip_p([*differences, Fraction(0)]) == 2 / 2**20


def test_where_not_all_signs_can_be_counted_some_are_drawn_always_the_same():
    rng = random.Random(0)
    differences = [Fraction(rng.randint(-50, 60), rng.randint(61, 97)) for _ in range(30)]
    found = compute_sign_flip_p(differences)
    assert found == compute_sign_flip_p(differences)
    assert found != compute_sign_flip_p(differences, seed=1)
    rounded = [Fraction(round(100 * value), 100) for value in differences]  # nearly the same, and can be counted
    assert found == pytest.approx(compute_sign_flip_p(rounded), abs=0.02)
    far = [Fraction(n, n + 1) for n in range(60, 100)]
    assert compute_sign_flip_p(far) == 1 / 10_001  # never zero


def test_with_one_sample_of_each_problem_the_test_is_mcnemars():
    for only_first, only_second in ((0, 0), (1, 0), (3, 3), (13, 39), (2, 9)):
        n = only_first + only_second
        as_far = [i for i in range(n + 1) if abs(2 * i - n) >= abs(only_first - only_second)]
        differences = [Fraction(-1)] * only_first + [Fraction(1)] * only_second
        assert compute_sign_flip_p([*differences, Fraction(0)]) == sum(comb(n, i) for i in as_far) / 2**n


def test_holm_corrects_as_in_the_example_of_his_method():
    assert correct_p_values({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    assert correct_p_values({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert correct_p_values({}) == {}


def test_if_the_best_was_selected_all_pairs_of_the_models_that_are_left_count():
    assert correct_p_values({"a": 0.004, "b": 0.03, "c": 0.01}, all_pairs=True) == pytest.approx(
        {"a": 6 * 0.004, "b": 0.03, "c": 3 * 0.01}
    )
    assert correct_p_values({"a": 0.04}, all_pairs=True) == {"a": 0.04}


@pytest.mark.parametrize("k", [1, 4])
def test_of_five_equal_models_one_is_seldom_significantly_worse_than_the_best(k):
    rng, n_false, n_holm = random.Random(0), 0, 0
    for _ in range(400):
        rates = [rng.choice((0.1, 0.5, 0.9)) for _ in range(60)]
        models = {name: drawn(rates, k, rng) for name in "abcde"}
        best = find_best_model(models)
        n_false += any(other.differs for other in compare_with_reference(best, models, is_selected=True).values())
        n_holm += any(other.differs for other in compare_with_reference(best, models).values())
    assert n_false <= 0.05 * 400
    assert n_false < n_holm  # Holm's correction does not allow for the selection


def test_models_are_compared_with_the_best_of_them():
    models = {
        "weak": outcomes(*["0"] * 9, "1"),
        "unknown": outcomes(*["x"] * 10),
        "strong": outcomes(*["1"] * 9, "0"),
        "good": outcomes(*["1"] * 8, "0", "0"),
    }
    assert find_best_model(models) == "strong"
    del models["unknown"]
    found = compare_with_reference("strong", models)
    assert list(found) == ["weak", "good"]
    assert found["weak"].comparison.difference == pytest.approx(-0.8)
    assert found["weak"].p_corrected == 2 * found["weak"].comparison.p
    assert (
        compare_with_reference("strong", models, is_selected=True)["weak"].p_corrected == 3 * found["weak"].comparison.p
    )
    assert (found["weak"].differs, found["good"].differs) == (True, False)
