import pytest

from curate.difficulty.band import SolveRateBand
from curate.errors import CurateError


def test_both_bounds_are_included():
    band = SolveRateBand.parse("0.125:0.5")
    assert [band.find_exclusion_reason(8, n) for n in range(9)] == ["too_hard", *[None] * 4, *["too_easy"] * 4]


@pytest.mark.parametrize("n", [3, 7, 8, 10, 12, 16, 100])
def test_a_bound_that_is_a_possible_rate_is_hit_exactly(n):
    for correct in range(n + 1):
        assert SolveRateBand.parse(f"{correct / n}:{correct / n}").find_exclusion_reason(n, correct) is None


def test_a_bound_may_be_left_open():
    assert SolveRateBand.parse("0.125:").find_exclusion_reason(8, 8) is None
    assert SolveRateBand.parse("0.125:").find_exclusion_reason(8, 0) == "too_hard"
    assert SolveRateBand.parse(":0.5").find_exclusion_reason(8, 0) is None
    assert SolveRateBand.parse(":0.5").find_exclusion_reason(8, 5) == "too_easy"


def test_a_problem_without_samples_has_no_solve_rate():
    assert SolveRateBand.parse("0:1").find_exclusion_reason(0, 0) == "not_sampled"


@pytest.mark.parametrize(
    "text", ["", ":", "0.5", "a:b", "0.6:0.5", "-1:0.5", "0.5:1.5", "nan:1", "0.1:0.2:0.3", "1/8:1"]
)
def test_any_other_text_is_refused(text):
    with pytest.raises(CurateError, match="pass MIN:MAX"):
        SolveRateBand.parse(text)
