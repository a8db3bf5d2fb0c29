import pytest

from curate.trust import TrustPolicy, format_exclusions

TRUSTED = {"verified": True, "suspect": False, "checker": "lcb"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param({}, None, id="verified"),
        pytest.param({"verified": False}, "unverified", id="not verified"),
        pytest.param({"suspect": True}, "suspects", id="several right answers, one accepted"),
        pytest.param({"suspect": True, "checker": "program"}, None, id="several right answers and a referee"),
        pytest.param({"suspect": True, "checker": "any_of"}, None, id="several right answers and all of them known"),
        pytest.param({"verified": False, "suspect": True}, "unverified", id="both: the first reason counts"),
    ],
)
def test_a_row_is_taken_if_it_is_verified_and_its_tests_are_not_suspected(row, reason):
    assert TrustPolicy().find_exclusion_reason(**TRUSTED | row) == reason


def test_what_is_included_is_taken():
    assert TrustPolicy.from_choices(["unverified"]).find_exclusion_reason(**TRUSTED | {"verified": False}) is None
    assert TrustPolicy.from_choices(["suspects"]).find_exclusion_reason(**TRUSTED | {"suspect": True}) is None
    assert TrustPolicy.from_choices(["suspects"]).find_exclusion_reason(**TRUSTED | {"verified": False}) == "unverified"
    with pytest.raises(ValueError, match="only unverified, suspects, altered can be included, not 'all'"):
        TrustPolicy.from_choices(["all"])


def test_a_line_says_how_many_rows_were_left_out_why_and_what_to_type():
    assert list(format_exclusions({"unverified": 6})) == [
        "left out: unverified 6 (no reference has passed the tests; --include unverified adds these rows)"
    ]
