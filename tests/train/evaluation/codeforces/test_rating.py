"""An evaluation on Codeforces problems gives a rating: by contests if their standings are there."""

import json
from dataclasses import replace

import pytest
from made_contests import contest, with_points
from made_outcomes import outcome

from curate.errors import CurateError
from train.evaluation.codeforces.contests import ContestProblem, default_path, write_contests
from train.evaluation.codeforces.rating import (
    deepcoder_2024,
    known_contests,
    rate,
    rate_by_difficulty,
    rate_model,
    ratings_as_json,
    solved_problems,
)
from train.evaluation.results.ratings import rating_lines, stored_ratings

ROUNDS = [with_points(1000.0, 2000.0, id=id) for id in (1971, 1972, 1973)]
BITS = {"1971/A": "1111", "1971/B": "0110", "1972/A": "0011", "1973/A": "1000", "1973/B": "0000"}


def solved(id, bits, tests="official", difficulty=None):
    found = outcome(f"codeforces/{id}", bits, difficulty=difficulty)
    return replace(found, metadata=replace(found.metadata, tests_source=tests))


def lines(rating):
    return rating_lines(stored_ratings({"ratings": json.loads(json.dumps(rating.to_json()))}))


def test_with_standings_a_model_is_rated_by_contests():
    outcomes = [solved(id, bits) for id, bits in BITS.items()]
    found = rate(outcomes, ROUNDS)
    expected = rate_model([outcome(id, bits) for id, bits in BITS.items()], ROUNDS, deepcoder_2024())
    assert found.contest_rating == expected
    assert (found.tests_source, found.is_upper_bound, found.by_difficulty) == ("official", False, None)
    first, *remarks = lines(found)
    value = f"{expected.rating:.0f} ({expected.low:.0f}-{expected.high:.0f})"
    percentile = f"{expected.percentile:.1f} ({expected.percentile_low:.1f}-{expected.percentile_high:.1f})"
    assert first == (
        f"Codeforces rating {value} over 3 contests with 4 attempts, percentile {percentile} of ratings_2024 "
        "(DeepCoder); tests: official"
    )
    assert "1 problems of these contests were not evaluated and count as not solved" in remarks[0]
    assert remarks[1] == "  it is the mean over all orders of the samples"


def test_examples_as_tests_make_a_rating_an_upper_bound():
    found = rate([solved(id, bits, "examples") for id, bits in BITS.items()], ROUNDS)
    assert found.is_upper_bound
    first, remark, *_ = lines(found)
    assert first.endswith("; tests: examples, an upper bound")
    assert "wrong programs pass, too, so the rating is an upper bound" in remark
    both = rate([solved("1971/A", "1"), solved("1971/B", "1", "examples")], ROUNDS)
    assert (both.tests_source, both.is_upper_bound) == ("examples, official", True)


def test_without_standings_a_model_is_rated_by_the_difficulty_of_problems():
    bits = {800: "1111", 1200: "1110", 1600: "1100", 2000: "1000", 2400: "0000"}
    outcomes = [solved(f"19{n}/A", text, difficulty=n) for n, text in bits.items()]
    found = rate(outcomes, [])
    assert found.contest_rating is None
    assert (round(found.by_difficulty.rating, 1), round(found.by_difficulty.error, 1)) == (1600.0, 131.7)
    first, remark = lines(found)
    assert first.startswith("Codeforces rating by problem difficulty 1600 (")
    assert first.endswith("), standard error 132; tests: official")
    assert "cannot be compared with a rating by contests" in remark
    assert "curate evaluations fetch codeforces" in remark
    assert rate(outcomes, [with_points(500.0, id=1)]).contest_rating is None  # a contest of other problems


def test_contests_know_the_difficulty_of_problems_that_do_not_state_it():
    round = contest(ContestProblem("A", 500.0, 1200), ContestProblem("B", 500.0, None))
    outcomes = [solved("1971/A", "1100"), solved("1971/B", "1000"), solved("row-7", "10")]
    found = rate(outcomes, [round])
    known = solved_problems([outcome("1971A", "1100", difficulty=1200)])
    assert found.by_difficulty == rate_by_difficulty(known)
    assert found.n_difficulties == 1
    assert found.contest_rating.contests[0].n_judged == 2  # the row of no known contest is in none
    assert [entry["by"] for entry in found.to_json()] == ["contests", "problem difficulty"]


def test_a_problem_of_two_contests_counts_in_both():
    rounds = ROUNDS[:2]
    found = rate([solved("1971/A,1972/B", "11"), solved("1972/B", "00")], rounds)
    assert [one.n_judged for one in found.contest_rating.contests] == [1, 1]
    assert found.contest_rating.contests[0].rating > found.contest_rating.contests[1].rating  # its own row goes first
    shared = rate([solved("1971/A,1972/A", "11")], rounds)
    assert shared.contest_rating.contests[0].rating == shared.contest_rating.contests[1].rating


def test_numbers_that_are_unknown_are_null_in_a_result_and_said_in_words():
    one = rate([solved("1971/A", "11")], ROUNDS[:1])
    (entry,) = one.to_json()
    assert entry["low"] is None
    assert stored_ratings({"ratings": [entry]})[0].low is None
    assert "(no interval) over 1 contests with 2 attempts, percentile" in lines(one)[0]
    without_verdict = rate([solved("1971/A", "xx")], ROUNDS)
    assert (without_verdict.contest_rating, without_verdict.by_difficulty) == (None, None)
    assert lines(without_verdict) == []
    everything = rate([solved("1971/A", "11", difficulty=800)], [])
    assert "mostly that of a prior" in lines(everything)[1]


def test_problems_of_other_suites_give_no_rating():
    assert rate([outcome("livecodebench/1873_A", "11"), outcome("HumanEval/0", "1")], ROUNDS) is None


def test_contests_are_read_from_the_named_file_or_from_where_they_were_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known_contests(None, ["codeforces/1971/A"]) == []
    default_path().parent.mkdir()
    write_contests(default_path(), ROUNDS[:1])
    write_contests(tmp_path / "mine.parquet", ROUNDS[1:])
    assert known_contests(None, ["codeforces/1971/A"]) == ROUNDS[:1]
    assert known_contests(tmp_path / "mine.parquet", ["codeforces/1971/A"]) == ROUNDS[1:]
    assert known_contests(tmp_path / "mine.parquet", ["HumanEval/0"]) == []
    outcomes = [solved("1971/A", "10")]
    assert ratings_as_json(outcomes) == rate(outcomes, ROUNDS[:1]).to_json()
    assert ratings_as_json([outcome("HumanEval/0", "1")]) == []


def test_a_damaged_file_that_nobody_named_only_costs_the_rating_by_contests(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    default_path().parent.mkdir()
    default_path().write_text("half a file")
    assert ratings_as_json([solved("1971/A", "10", difficulty=800)])[0]["by"] == "problem difficulty"
    assert "there is no rating by contests" in caplog.text
    with pytest.raises(CurateError, match="cannot be read as a file of contests"):
        known_contests(default_path(), ["codeforces/1971/A"])


@pytest.mark.parametrize("wrong", [{"rating": "high"}, {"by": "contests"}, {"tests": "x"}])
def test_a_damaged_rating_is_refused_with_words(tmp_path, wrong):
    from made_results import write

    from train.evaluation.results.result import read_result

    with pytest.raises(CurateError, match="is damaged"):
        read_result(write(tmp_path / "r.json", [], ratings=[wrong]))
