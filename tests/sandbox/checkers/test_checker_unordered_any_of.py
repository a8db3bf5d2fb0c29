"""`unordered_lines` counts equal lines; `any_of` applies `lcb` to each accepted answer."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.checkers import any_of, exact, unordered_lines


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("b\na\n", "a\nb", True),
        ("\n b \r\na", "a\nb\n\n", True),
        ("a\n\nb\nc", "c\nb\n \na", True),
        ("", "\n", True),
        ("0\n1\n0", "1\n0\n1", False),
        ("a\na\nb", "a\nb\nb", False),
        ("a\nb", "a\nb\nb", False),
        ("a\n\nb", "a\nb", False),
        ("b a", "a b", False),
        ("1.0", "1", False),
        ("1  2", "1 2", False),
    ],
)
def test_unordered_lines_text(printed: str, expected: str, same: bool) -> None:
    assert unordered_lines.same_output(printed, expected) is same
    assert unordered_lines.same_output(expected, printed) is same


@pytest.mark.parametrize(
    ("returned", "expected", "same"),
    [
        ([3, 1, 2], [1, 2, 3], True),
        ((2, 1.0), [1, 2], True),
        ([[1, 2], (3,)], [[3], [1, 2]], True),
        ([{1: "a"}, None, "x", True, 2], [2, "x", None, True, {"1": "a"}], True),
        ([], [], True),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        (5, 5, True),
        ([1, 1, 2], [1, 2, 2], False),
        ([1, 2], [1, 2, 2], False),
        ([True], [1], False),
        ([[2, 1]], [[1, 2]], False),
        ({"a": [2, 1]}, {"a": [1, 2]}, False),
        ([[1], []], [[[1]]], False),
        ({1, 2}, [1, 2], False),
        ([{1}], [[1]], False),
        ("ab", "ba", False),
        (json.loads("[NaN]"), json.loads("[NaN]"), False),
        ([None], None, False),
    ],
)
def test_unordered_lines_values(returned: object, expected: object, same: bool) -> None:
    assert unordered_lines.same_value(returned, expected) is same
    assert unordered_lines.same_value(expected, returned) is same


def test_unordered_lines_is_not_slowed_down_by_numbers_that_hash_alike() -> None:
    alike = [number * (2**61 - 1) for number in range(100_000)]  # counted by hash, this takes minutes
    assert unordered_lines.same_value(alike, alike[::-1])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 0.5, "", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


def matched_one_by_one(ours: list[object], theirs: list[object]) -> bool:
    theirs = list(theirs)
    for value in ours:
        position = next((i for i, other in enumerate(theirs) if exact.same_value(value, other)), None)
        if position is None:
            return False
        theirs.pop(position)
    return not theirs


@given(st.lists(json_values, max_size=5), st.lists(json_values, max_size=5), st.randoms())
def test_unordered_lines_agrees_with_matching_members_one_by_one(
    ours: list[object], theirs: list[object], chance: random.Random
) -> None:
    shuffled = chance.sample(ours, len(ours))
    assert unordered_lines.same_value(shuffled, ours)
    assert unordered_lines.same_value(ours, theirs) == matched_one_by_one(ours, theirs)


@given(st.lists(st.text("ab 1", min_size=1)), st.randoms())
def test_unordered_lines_accepts_every_order(rows: list[str], chance: random.Random) -> None:
    kept = [row for row in rows if row.strip()]
    assert unordered_lines.same_output("\n".join(chance.sample(kept, len(kept))), "\n".join(kept))


@pytest.mark.parametrize(
    ("printed", "accepted", "same"),
    [
        ("2 1\n", ["1 2", "2 1"], True),
        ("1.0", ["2", "1"], True),
        ("3", ["1", "2"], False),
        ("", [], False),
        ("", [""], True),
        ("\ud800", ["\ud800"], True),
        ("1", [1], False),
        ("1", ["1", 1], False),
        ("1", "1", False),
        ("1", {"1": "1"}, False),
        ("null", None, False),
    ],
)
def test_any_of_text(printed: str, accepted: object, same: bool) -> None:
    assert any_of.same_output(printed, json.dumps(accepted)) is same


@pytest.mark.parametrize("broken", ["", "1 2", "[", '["1"', "1" * 5000, "[" * 100_000])
def test_any_of_accepts_nothing_if_expected_is_not_a_list_of_texts(broken: str) -> None:
    assert not any_of.same_output(broken, broken)
    assert not any_of.same_output("", broken)


@pytest.mark.parametrize(
    ("returned", "expected", "same"),
    [
        ((2, 1), [[1, 2], [2, 1]], True),
        (True, [0, 1], True),
        (3, [1, 2], False),
        ([1, 2], [1, 2], False),
        (1, 1, False),
        ("a", "a", False),
        (1, {"1": 1}, False),
        (None, [], False),
    ],
)
def test_any_of_values(returned: object, expected: object, same: bool) -> None:
    assert any_of.same_value(returned, expected) is same
