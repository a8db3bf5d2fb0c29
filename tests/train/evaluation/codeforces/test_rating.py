"""An evaluation on Codeforces problems gives a rating, if the standings of their contests are there."""

import json
from dataclasses import replace

import pytest
from made_contests import contest, with_points
from made_outcomes import outcome

from curate.errors import CurateError
from curate.json_records import from_json, to_json
from train.evaluation.codeforces.contests import ContestProblem, get_default_contests_path, write_contests
from train.evaluation.codeforces.rating import (
    Rating,
    find_contests,
    load_deepcoder_percentiles,
    rate_evaluation,
    rate_model,
)

ROUNDS = [with_points(1000.0, 2000.0, id=id) for id in (1971, 1972, 1973)]
BITS = {"1971/A": "1111", "1971/B": "0110", "1972/A": "0011", "1973/A": "1000", "1973/B": "0000"}


def solved(id, bits, tests="official", difficulty=None):
    found = outcome(f"codeforces/{id}", bits, difficulty=difficulty)
    return replace(found, metadata=replace(found.metadata, tests_source=tests))


def lines(ratings):
    return [line for rating in json.loads(json.dumps(ratings)) for line in from_json(Rating, rating).lines]


def rate(outcomes, contests):
    """Return the rating, which must be the only one."""
    (rating,) = rate_evaluation(outcomes, contests)
    return to_json(rating)


def test_with_standings_a_model_is_rated_by_contests():
    outcomes = [solved(id, bits) for id, bits in BITS.items()]
    found = rate(outcomes, ROUNDS)
    expected = rate_model(
        [replace(one, id=id) for id, one in zip(BITS, outcomes, strict=True)], ROUNDS, load_deepcoder_percentiles()
    )
    assert found == to_json(expected)
    assert (found["by"], found["attempts"]) == ("contests", 4)
    assert (found["tests"], found["is_upper_bound"]) == ("official", False)
    first, *remarks = lines([found])
    value = f"{expected.rating:.0f} ({expected.low:.0f}-{expected.high:.0f})"
    percentile = f"{expected.percentile:.1f} ({expected.percentile_low:.1f}-{expected.percentile_high:.1f})"
    assert first == (
        f"Codeforces rating {value} over 3 contests with 4 attempts, percentile {percentile} of ratings_2024 "
        "(DeepCoder); tests: official"
    )
    assert "1 problems of these contests were not evaluated and count as not solved" in remarks[0]
    assert remarks[1] == "  the rating is the mean over all orders of the samples"


def test_examples_as_tests_make_a_rating_an_upper_bound():
    found = rate([solved(id, bits, "examples") for id, bits in BITS.items()], ROUNDS)
    assert found["is_upper_bound"]
    first, remark, *_ = lines([found])
    assert first.endswith("; tests: examples, an upper bound")
    assert "wrong programs may pass, so the rating is an upper bound" in remark
    both = rate([solved("1971/A", "1"), solved("1971/B", "1", "examples")], ROUNDS)
    assert (both["tests"], both["is_upper_bound"]) == ("examples, official", True)


def test_without_standings_a_model_has_no_rating():
    outcomes = [solved(id, bits, difficulty=1500) for id, bits in BITS.items()]
    assert rate_evaluation(outcomes, []) == ()
    assert rate_evaluation(outcomes, [with_points(500.0, id=1)]) == ()  # a contest of other problems


def test_a_row_of_no_known_contest_is_in_none():
    round = contest(ContestProblem("A", 500.0, 1200), ContestProblem("B", 500.0, None))
    found = rate([solved("1971/A", "1100"), solved("1971/B", "1000"), solved("row-7", "10")], [round])
    assert found["contests"][0]["n_judged"] == 2


def test_a_problem_of_two_contests_counts_in_both():
    rounds = ROUNDS[:2]
    found = rate([solved("1971/A,1972/B", "11"), solved("1972/B", "00")], rounds)
    first, second = found["contests"]
    assert (first["n_judged"], second["n_judged"]) == (1, 1)
    assert first["rating"] > second["rating"]  # its own row goes first
    first, second = rate([solved("1971/A,1972/A", "11")], rounds)["contests"]
    assert first["rating"] == second["rating"]


def test_numbers_that_are_unknown_are_null_in_a_result_and_said_in_words():
    entry = rate([solved("1971/A", "11")], ROUNDS[:1])
    assert entry["low"] is None
    assert from_json(Rating, entry).low is None
    assert "(no interval) over 1 contests with 2 attempts, percentile" in lines([entry])[0]
    without_verdict = rate_evaluation([solved("1971/A", "xx")], ROUNDS)
    assert (without_verdict, lines(without_verdict)) == ((), [])


def test_problems_of_other_suites_give_no_rating():
    assert rate_evaluation([outcome("livecodebench/1873_A", "11"), outcome("HumanEval/0", "1")], ROUNDS) == ()


def test_contests_are_read_from_the_named_file_or_from_where_they_were_fetched(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_contests(None, ["codeforces/1971/A"]) == []
    assert "type `curate evaluations fetch codeforces` once" in caplog.text
    get_default_contests_path().parent.mkdir()
    write_contests(get_default_contests_path(), ROUNDS[:1])
    write_contests(tmp_path / "mine.parquet", ROUNDS[1:])
    assert find_contests(None, ["codeforces/1971/A"]) == ROUNDS[:1]
    assert find_contests(tmp_path / "mine.parquet", ["codeforces/1971/A"]) == ROUNDS[1:]
    assert find_contests(tmp_path / "mine.parquet", ["HumanEval/0"]) == []
    outcomes = [solved("1971/A", "10")]
    assert to_json(rate_evaluation(outcomes)) == [rate(outcomes, ROUNDS[:1])]
    assert rate_evaluation([outcome("HumanEval/0", "1")]) == ()


def test_a_damaged_file_that_nobody_named_only_costs_the_rating_by_contests(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    get_default_contests_path().parent.mkdir()
    get_default_contests_path().write_text("half a file")
    assert rate_evaluation([solved("1971/A", "10", difficulty=800)]) == ()
    assert "there is no rating by contests" in caplog.text
    with pytest.raises(CurateError, match="cannot be read as a file of contests"):
        find_contests(get_default_contests_path(), ["codeforces/1971/A"])


@pytest.mark.parametrize("wrong", [{"rating": "high"}, {"by": "contests"}, {"tests": "x"}])
def test_a_damaged_rating_is_refused_with_words(tmp_path, wrong):
    from made_results import write

    from train.evaluation.results.result import read_result

    with pytest.raises(CurateError, match="is damaged"):
        read_result(write(tmp_path / "r.json", [], content={"ratings": [wrong]}))
