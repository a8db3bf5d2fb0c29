"""The outcomes of a problem are in a result file what they are in memory."""

import json
from datetime import date

import pytest

from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes, count_passes

ENTRY = {
    "id": "abc365_d",
    "facts": {"difficulty": "medium", "platform": "atcoder", "date": "2024-08-03"},
    "bits": "11x0",
    "tokens": [812, 790, 0, 4096],
    "cut_off": "0001",
    "tests": "9f2c",
}
FACTS = ProblemMetadata("medium", "atcoder", date(2024, 8, 3))
OUTCOMES = ProblemOutcomes(
    "abc365_d", FACTS, (True, True, None, False), (812, 790, 0, 4096), (False,) * 3 + (True,), "9f2c"
)


def test_an_entry_is_read_and_written_as_it_was():
    assert ProblemOutcomes.from_json(ENTRY) == OUTCOMES
    assert json.loads(json.dumps(OUTCOMES.to_json())) == ENTRY
    bare = {"id": "p", "facts": {}, "bits": "", "tokens": [], "cut_off": ""}
    assert ProblemOutcomes.from_json(bare).to_json() == bare
    rated = bare | {"facts": {"difficulty": 1500}}
    assert ProblemOutcomes.from_json(rated).metadata.difficulty == 1500


def test_other_fields_of_an_entry_are_ignored():
    assert ProblemOutcomes.from_json(ENTRY | {"colour": "blue"}) == OUTCOMES


def test_samples_without_a_verdict_do_not_count():
    assert (OUTCOMES.n, OUTCOMES.n_correct) == (3, 2)
    unknown = ProblemOutcomes("q", ProblemMetadata(), (None, None), (0, 0), (False, False))
    assert count_passes([OUTCOMES, unknown]) == [(3, 2)]


def test_months_begin_the_date():
    assert FACTS.month == "2024-08"
    assert ProblemMetadata().month is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": "11y0"}, "abc365_d: bits must contain only 0, 1 and x, not 'y'"),
        ({"bits": "110"}, "one value for each sample, but they have 3, 4 and 4"),
        ({"bits": None}, "abc365_d: bits is missing or is not of type str"),
        ({"cut_off": "00x1"}, "abc365_d: cut_off must contain only 0 and 1"),
        ({"tokens": [1, 2, 3, -1]}, "tokens must be integers >= 0"),
        ({"tokens": [1, 2, 3, True]}, "tokens must be integers >= 0"),
        ({"facts": {"date": "2024-08-03T00:00:00"}}, "date must be a day such as 2024-08-03"),
        ({"facts": {"date": 20240803}}, "date must be a day such as 2024-08-03"),
        ({"facts": {"difficulty": 1.5}}, "difficulty must be a text or an integer"),
        ({"facts": {"platform": 1}}, "platform must be a text"),
        ({"id": 7}, "a problem: id is missing or is not of type str"),
    ],
)
def test_a_damaged_entry_is_refused_with_the_name_of_the_field(change, message):
    with pytest.raises(ValueError, match=message):
        ProblemOutcomes.from_json(ENTRY | change)


def test_what_is_no_entry_is_refused():
    with pytest.raises(ValueError, match="expected an object, not list"):
        ProblemOutcomes.from_json([ENTRY])
