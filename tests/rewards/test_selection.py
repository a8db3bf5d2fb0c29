"""A reward runs a selection of the tests."""

import pytest

from rewards.case_selection import order_by_length, select_cases
from sandbox import Case, Limits, Suite

SUITE = Suite(
    [Case("x" * length, str(place)) for place, length in enumerate([3, 9, 1, 9, 5, 7])],
    checker="exact",
    limits=Limits(wall_seconds=2.5),
)


def places(suite):
    return [int(case.expected) for case in suite.cases]


def test_all_selects_every_case():
    assert select_cases(SUITE, "all", budget=2) == SUITE


def test_the_longest_inputs_are_chosen_and_among_equals_the_first():
    assert places(select_cases(SUITE, "longest", budget=4)) == [1, 3, 5, 4]
    assert order_by_length(SUITE) == [1, 3, 5, 4, 0, 2]


def test_the_strongest_come_in_the_given_order():
    assert places(select_cases(SUITE, "strongest", budget=2, strongest=[4, 2, 0])) == [4, 2]


def test_the_remaining_places_are_drawn_from_the_others_the_same_way_each_time():
    chosen = [places(select_cases(SUITE, "strongest", budget=5, strongest=[4, 2])) for _ in range(3)]
    assert chosen[0][:2] == [4, 2]
    assert len(set(chosen[0])) == 5
    assert chosen[0] == chosen[1] == chosen[2]


@pytest.mark.parametrize("unknown", [None, []])
def test_without_a_measurement_cases_are_drawn_at_random(unknown):
    chosen = places(select_cases(SUITE, "strongest", budget=3, strongest=unknown))
    assert len(set(chosen)) == 3
    assert chosen != [0, 1, 2]


@pytest.mark.parametrize("how", ["longest", "strongest"])
def test_fewer_tests_than_the_budget_are_all_chosen(how):
    assert sorted(places(select_cases(SUITE, how))) == [0, 1, 2, 3, 4, 5]


def test_selection_changes_nothing_but_the_cases():
    chosen = select_cases(SUITE, "longest", budget=1)
    assert (chosen.checker, chosen.limits, chosen.entry_point) == ("exact", SUITE.limits, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "best"}, "longest, strongest, all"),
        ({"strategy": "longest", "budget": 0}, "at least 1"),
        ({"strategy": "strongest", "strongest": [6]}, "6 cases"),
        ({"strategy": "strongest", "strongest": [1, 1]}, "6 cases"),
    ],
)
def test_impossible_selections_are_refused_with_the_reason(arguments, message):
    with pytest.raises(ValueError, match=message):
        select_cases(SUITE, **arguments)
