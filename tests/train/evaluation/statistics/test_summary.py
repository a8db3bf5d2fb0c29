"""A summary has the numbers of a set of problems; strata and the curve divide the set by what is known of it."""

from datetime import date
from math import isnan, sqrt

import pytest
from lcb_facts import all_problems, in_window, needs_facts
from made_outcomes import outcome, outcomes

from train.evaluation.statistics.comparison import compute_contamination_curve, select_published_since
from train.evaluation.statistics.intervals import compute_solve_rate_interval
from train.evaluation.statistics.outcomes import (
    STRATUM_KEYS,
    ProblemMetadata,
    ProblemOutcomes,
    summarize,
    summarize_groups,
)


def test_a_summary_counts_samples_with_a_verdict():
    summary = summarize(outcomes("1101", "111x", "0000", "xxxx"))
    assert (summary.n_problems, summary.n_unknown, summary.n_samples, summary.n_no_verdict) == (3, 1, 11, 5)
    assert summary.pass_at_1 == pytest.approx((0.75 + 1 + 0) / 3)
    squares = (0.75 - 1.75 / 3) ** 2 + (1 - 1.75 / 3) ** 2 + (1.75 / 3) ** 2
    assert summary.standard_error == pytest.approx(sqrt(squares / 6))
    assert (summary.low, summary.high) == compute_solve_rate_interval([(4, 3), (3, 3), (4, 0)])
    assert list(summary.pass_at) == [1, 2, 3]
    assert summary.pass_at[1] == pytest.approx(summary.pass_at_1)
    assert summary.always_solved_share == pytest.approx(1 / 3)


def test_lengths_are_those_of_samples_with_a_verdict():
    bits, tokens = (True,) * 20 + (None,), (*range(1, 21), 10_000)
    summary = summarize([ProblemOutcomes("p", ProblemMetadata(), bits, tokens, (False,) * 15 + (True,) * 6)])
    assert (summary.tokens_p50, summary.tokens_p95, summary.truncated_share) == (10, 19, 0.25)


def test_without_verdicts_nothing_is_known():
    for summary in summarize([]), summarize(outcomes("xx")):
        numbers = (
            summary.pass_at_1,
            summary.low,
            summary.always_solved_share,
            summary.truncated_share,
            summary.tokens_p50,
        )
        assert all(map(isnan, numbers))
        assert summary.pass_at == {}


def test_strata_come_in_the_order_of_their_fact():
    words = [outcome(f"p{place}", "1", difficulty=name) for place, name in enumerate(("hard", "zen", "easy", "medium"))]
    assert list(summarize_groups([outcome("q", "1"), *words], STRATUM_KEYS["difficulty"])) == [
        "easy",
        "medium",
        "hard",
        "zen",
        "unknown",
    ]
    ratings = [outcome(f"p{rating}", "1", difficulty=rating) for rating in (2000, 800, 1500)]
    assert list(summarize_groups(ratings, STRATUM_KEYS["difficulty"])) == ["800", "1500", "2000"]
    bands = summarize_groups(ratings, lambda facts: "below 1800" if int(facts.difficulty or 0) < 1800 else "from 1800")
    assert {name: summary.n_problems for name, summary in bands.items()} == {"below 1800": 2, "from 1800": 1}


def test_the_curve_since_a_month_counts_this_month_and_later_ones():
    problems = [
        outcome("c", "1", day="2024-10-01"),
        outcome("a", "0", day="2024-08-31"),
        outcome("b", "1", day="2024-08-01"),
        outcome("d", "0"),
    ]
    curve = compute_contamination_curve(problems)
    assert {month: (summary.n_problems, summary.pass_at_1) for month, summary in curve.items()} == {
        "2024-08": (3, pytest.approx(2 / 3)),
        "2024-10": (1, 1),
    }
    assert [problem.id for problem in select_published_since(problems, date(2024, 8, 31))] == ["c", "a"]


@needs_facts
@pytest.mark.parametrize(("model", "whole", "window"), [("o1_preview", 55.57, 42.65), ("o1_mini", 68.41, 51.97)])
def test_published_means_on_livecodebench(model, whole, window):
    assert round(100 * summarize(all_problems(model)).pass_at_1, 2) == whole
    assert round(100 * summarize(in_window(model)).pass_at_1, 2) == window


@needs_facts
@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("difficulty", {"easy": (67, 97.01, 91.04), "medium": (89, 47.19, 67.42), "hard": (123, 9.76, 19.51)}),
        ("platform", {"atcoder": (175, 30.29, 43.43), "leetcode": (104, 63.46, 66.35)}),
    ],
)
def test_published_strata_of_livecodebench(fact, expected):
    preview, mini = (summarize_groups(in_window(model), STRATUM_KEYS[fact]) for model in ("o1_preview", "o1_mini"))
    found = {
        name: (preview[name].n_problems, *(round(100 * of[name].pass_at_1, 2) for of in (preview, mini)))
        for name in preview
    }
    assert list(found.items()) == list(expected.items())


@needs_facts
def test_published_months_of_livecodebench():
    preview, mini = (summarize_groups(in_window(model), STRATUM_KEYS["month"]) for model in ("o1_preview", "o1_mini"))
    assert list(preview) == ["2024-08", "2024-09", "2024-10", "2024-11", "2024-12", "2025-01"]
    found = {
        month: (preview[month].n_problems, *(round(100 * of[month].pass_at_1, 1) for of in (preview, mini)))
        for month in ("2024-08", "2024-10", "2025-01")
    }
    assert found == {"2024-08": (66, 40.9, 50.0), "2024-10": (53, 34.0, 45.3), "2025-01": (7, 57.1, 42.9)}
    curve = compute_contamination_curve(in_window("o1_mini"))
    assert (curve["2024-08"].n_problems, curve["2024-11"].n_problems, curve["2025-01"].n_problems) == (279, 113, 7)
