"""Few tests that reject what all reject."""

from curate.strength.greedy_cover import cover


def test_a_cover_takes_what_kills_most_of_what_is_left():
    killers = [frozenset({0, 1}), frozenset({0, 2}), frozenset({0, 3}), frozenset({2, 3}), frozenset({4})]
    assert cover(killers, [4, 3, 2, 1, 0]) == (0, 4, 3)


def test_a_cover_of_nothing_is_empty():
    assert cover([], [0, 1]) == ()
