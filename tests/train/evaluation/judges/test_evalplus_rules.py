"""Outputs are compared as EvalPlus compares them, though outside the sandbox."""

import json

import pytest

from train.evaluation.judges.call_judge import find_first_mismatch
from train.evaluation.judges.call_run import CallOutput
from train.evaluation.judges.sandbox_runner import digest, encode

NAN, INF = float("nan"), float("inf")


def small(value):
    return CallOutput(json.dumps(encode(value)), False, 0.0)


def large(value):
    return CallOutput(digest(value), True, 0.0)


def right(given, expected, *, entry_point="f", tolerance=0.0, arguments=()):
    inputs = [json.dumps(encode(list(arguments)))]
    return find_first_mismatch(entry_point, tolerance, inputs, [small(given)], [small(expected)]) is None


class Whole(int):
    """A class of an answer, whose instances are equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("given", "expected", "is_right"),
    [
        (1, 1, True),
        (True, 1, True),
        (1, 1.0, True),
        ((1, 2), [1, 2], False),
        ([1, 2], [1, 2], True),
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}, True),
        ({1, 2}, {2, 1}, True),
        ("1", 1, False),
        (None, 0, False),
        (Whole(3), 3, True),
        (Whole(3), 4, False),
        (range(3), [0, 1, 2], False),
        (0.1 + 0.2, 0.3, True),
        (0.3001, 0.3, False),
        ([0.1 + 0.2], [0.3], True),
        ((0.1 + 0.2,), [0.3], False),
        ([0.1 + 0.2, 1.0], [0.3], False),
        ([0.1 + 0.2, 1], [0.3, 1], False),
        ([[0.1 + 0.2]], [[0.3]], False),
        (3, 3.0000001, False),
        (NAN, NAN, False),
        (INF, INF, True),
        ("a", 0.5, False),
        (10**4000, 10**4000, True),
    ],
)
def test_equal_in_pythons_sense_or_floats_that_are_close(given, expected, is_right):
    assert right(given, expected) is is_right


@pytest.mark.parametrize(
    ("given", "expected", "is_right"),
    [
        (3, 3.00001, False),
        (3.0, 3.00001, True),
        ([3.0, 1], [3.00001, 1], True),
        ([[3.0], [1.0]], [[3.00001], [1.0]], True),
        (3.0, 3.1, False),
        ("a", "b", False),
        (10**400, 10**400 + 1, False),
    ],
)
def test_a_task_with_a_tolerance_has_it_for_all_numbers(given, expected, is_right):
    assert right(given, expected, tolerance=1e-4) is is_right


def test_the_tolerance_for_floats_stays_for_later_inputs():
    off = [[0.1 + 0.2], 7]  # a list of more than floats
    expected = [small([[0.3], 7]), small(0.5), small([[0.3], 7])]
    outputs = [small([[0.3], 7]), small(0.5), small(off)]
    inputs = ["[]"] * 3
    assert find_first_mismatch("f", 0.0, inputs, outputs, expected) == 2  # numpy reads no such list
    expected, outputs = [small([[0.3]]), small(0.5), small([[0.3]])], [small([[0.3]]), small(0.5), small([[0.1 + 0.2]])]
    assert find_first_mismatch("f", 0.0, inputs, outputs, expected) is None
    assert find_first_mismatch("f", 0.0, inputs[1:], outputs[2:], expected[2:]) == 0


def test_large_outputs_are_compared_by_their_digests():
    big, other = [1.0] * 50_000, [1.0] * 49_999 + [2.0]
    assert find_first_mismatch("f", 0.0, ["[]"], [large(big)], [large(big)]) is None
    assert find_first_mismatch("f", 0.0, ["[]"], [large([1] * 50_000)], [large(big)]) is None
    assert find_first_mismatch("f", 0.0, ["[]"], [large(other)], [large(big)]) == 0
    assert find_first_mismatch("f", 0.0, ["[]"], [small([1])], [large(big)]) == 0
    nan = [NAN] * 50_000
    assert find_first_mismatch("f", 0.0, ["[]"], [large(nan)], [large(nan)]) == 0


@pytest.mark.parametrize(
    ("entry_point", "given", "expected", "arguments", "is_right"),
    [
        ("similar_elements", (2, 1), (1, 2), (), True),
        ("similar_elements", [1, 2], (1, 2), (), True),
        ("similar_elements", {1, 2}, (1, 2), (), True),
        ("similar_elements", map(int, "12"), (1, 2), (), True),
        ("similar_elements", {1: 0, 2: 0}.keys(), (1, 2), (), True),
        ("similar_elements", (1, 2, 3), (1, 2), (), False),
        ("similar_elements", None, (), (), False),
        ("common_in_nested_lists", [[1]], [1], (), False),
        ("find_char_long", "ab", ["a", "b"], (), True),
        ("check_str", object(), "a match", (), True),
        ("check_str", True, "a match", (), True),
        ("check_str", False, "a match", (), False),
        ("check_str", None, "a match", (), False),
        ("check_str", "Found", None, (), False),
        ("check_str", None, None, (), True),
        ("are_equivalent", "anything", True, (), True),
        ("sum_div", 0, 7, (), True),
        ("sum_div", 1, 7, (), False),
        ("surface_Area", 35.0, 34, (3, 4), True),
        ("surface_Area", 33, 34, (3, 4), False),
        ("digit_distance_nums", 9, 0, (100, 256), False),
        ("digit_distance_nums", 12, 0, (100, 256), True),
        ("digit_distance_nums", 1, 0, (23, 123), True),
    ],
)
def test_functions_with_rules_of_their_own(entry_point, given, expected, arguments, is_right):
    assert right(given, expected, entry_point=entry_point, arguments=arguments) is is_right


def test_any_zero_of_a_polynomial_is_right():
    def zero(given):
        return right(given, 1.0, entry_point="find_zero", tolerance=1e-4, arguments=[[-1.0, 0.0, 1.0]])

    assert zero(-1.0)
    assert zero(1)
    assert not zero(0.5)
    assert not zero(10**400)
    assert not zero("1")


@pytest.mark.parametrize(
    "claim",
    [
        "[1",
        "[" * 60_000,
        '{"t": 3}',
        '{"d": [[1]]}',
        '{"i": "x"}',
        '{"r": [1, 0]}',
        '{"c": [1]}',
        '{"o": []}',
        '{"x": 1}',
        "{}",
        '{"a": []}',
        "1" * 5000,
        "[" + "[1]," * 10_000 + "1]",
    ],
)
@pytest.mark.parametrize("entry_point", ["f", "similar_elements", "surface_Area", "find_zero"])
@pytest.mark.parametrize("expected", [0.3, [0.3] * 10_001, (1, 2)])
def test_whatever_a_program_claims_is_wrong_and_nothing_more(claim, entry_point, expected):
    arguments = {"surface_Area": [3, 4], "find_zero": [[1.0, 1.0]]}.get(entry_point, [])
    output = CallOutput(claim, False, 0.0)
    assert find_first_mismatch(entry_point, 0.0, [json.dumps(arguments)], [output], [small(expected)]) == 0


def test_values_with_equal_hashes_take_no_time_together():
    """Ten thousand members of one hash would take a set a minute."""
    prime = 2**61 - 1
    members = [number * prime for number in range(1, 3000)]
    claim = CallOutput(json.dumps({"s": [encode(number) for number in members]}), False, 0.0)
    assert find_first_mismatch("f", 0.0, ["[]"], [claim], [small(set(members[:9]))]) == 0
    assert find_first_mismatch("similar_elements", 0.0, ["[]"], [claim], [small(tuple(members))]) is None
