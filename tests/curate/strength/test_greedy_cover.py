"""A few tests are chosen that reject everything that all tests together reject."""

from curate.strength.measurement import find_greedy_cover


def test_a_cover_takes_the_test_that_kills_most_of_the_remaining_mutants():
    killers = [frozenset({0, 1}), frozenset({0, 2}), frozenset({0, 3}), frozenset({2, 3}), frozenset({4})]
    assert find_greedy_cover(killers, [4, 3, 2, 1, 0]) == (0, 4, 3)


def test_a_cover_of_nothing_is_empty():
    assert find_greedy_cover([], [0, 1]) == ()
