"""The checker `python` agrees with Python's ==, on values that were encoded in one process and read in another."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import literals, return_values
from sandbox.checkers import python
from sandbox.checkers._python_values import OpaqueValue, ReturnedDict, ReturnedSet, describe
from sandbox.languages.python import to_json

finite = st.floats(allow_nan=False)
atoms = (
    st.none() | st.booleans() | st.integers() | finite | st.text() | st.binary() | st.complex_numbers(allow_nan=False)
)
near = st.sampled_from([0, 1, -1, 0.0, -0.0, 1.0, True, False, 2**53, float(2**53), 2**53 + 1, 1 + 0j, 0.5, "1", b"1"])
hashable = st.recursive(
    atoms | near, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner), max_leaves=6
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=10,
)


def encoded(value: Any) -> bytes:
    return json.dumps(to_json(value, is_literal=True)).encode()


def rebuilt(value: Any) -> Any:
    """Return a decoded value with real sets and dicts."""
    match value:
        case ReturnedSet(members):
            return frozenset(map(rebuilt, members))
        case ReturnedDict(items):
            return {rebuilt(key): rebuilt(item) for key, item in items}
        case list():
            return list(map(rebuilt, value))
        case tuple():
            return tuple(map(rebuilt, value))
    return value


@given(values)
def test_a_value_arrives_as_it_was(value: Any) -> None:
    decoded = return_values.decode_literal(encoded(value))
    assert rebuilt(decoded) == value
    assert python.same_value(decoded, value)
    assert python.same_value(value, decoded)


@given(values, values)
def test_two_values_are_the_same_if_python_says_so(one: Any, other: Any) -> None:
    assert python.same_value(return_values.decode_literal(encoded(one)), other) == (one == other)


@given(values)
def test_the_text_of_a_value_is_read_and_its_encoding_is_never_too_large(value: Any) -> None:
    text = repr(value).replace("inf", 'float("inf")') if "inf" in repr(value) else repr(value)
    try:
        expected = literals.parse_literal(text)
    except ValueError:
        assert "inf" in text  # inside a string, or in a complex number
        return
    little = return_values._SMALL_BYTES
    try:
        return_values._SMALL_BYTES = 0
        assert expected != value or return_values.may_equal_literal(encoded(value), text)
    finally:
        return_values._SMALL_BYTES = little


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        pytest.param((1,), [1], False, id="a tuple is not a list"),
        pytest.param(True, 1.0, True, id="a bool is a number"),
        pytest.param({1: "a"}, {1.0: "a"}, True, id="keys are numbers"),
        pytest.param({1: "a"}, {"1": "a"}, False, id="a key is not text"),
        pytest.param(b"a", "a", False, id="bytes are not text"),
        pytest.param({1}, {1: None}, False, id="a set is not a dict"),
        pytest.param(Fraction(1, 2), 0.5, True, id="a fraction is a number"),
        pytest.param(0.1 + 0.2, 0.3, False, id="without tolerance"),
        pytest.param(float("nan"), float("nan"), False, id="NaN equals nothing"),
        pytest.param([float("nan")], [float("nan")], False, id="NaN in a list equals nothing"),
        pytest.param(-0.0, 0, True, id="a negative zero"),
        pytest.param(10**400, 1e308 * 10, False, id="a number beyond all floats"),
        pytest.param([1, [2]], [1, 2], False, id="shape counts"),
        pytest.param("ab", ["a", "b"], False, id="a text is not a list"),
        pytest.param(object(), object(), False, id="an object equals nothing"),
        pytest.param(range(3), [0, 1, 2], False, id="a range is not a list"),
    ],
)
def test_values_are_compared_as_python_compares_them(value: Any, expected: Any, same: bool) -> None:
    assert python.same_value(return_values.decode_literal(encoded(value)), expected) is same


def test_a_set_whose_members_all_have_the_same_hash_costs_no_more_than_another() -> None:
    members = ReturnedSet(tuple(n * (2**61 - 1) for n in range(20_000)))
    assert not python.same_value(members, {1})
    assert not python.same_value(ReturnedSet((1, True)), {1})
    assert not python.same_value(ReturnedDict(((1, 2), (1.0, 2))), {1: 2})


def test_deep_values_are_unequal_rather_than_an_error() -> None:
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]
    assert not python.same_value(value, [[[]]])
    assert not python.same_value([[[]]], value)


@pytest.mark.parametrize(
    "text",
    [
        "{'a': [1, (2, 3.5), {4}], b'x': None}",
        "frozenset({1, 2})",
        "frozenset()",
        "set()",
        "-1",
        "1 + 2j",
        "-1.5 - 2j",
        "(float('inf'), -float('inf'), True)",
        "''",
        "'a' 'b'",
    ],
)
def test_literals_are_read(text: str) -> None:
    assert literals.parse_literal(text) == eval(text)


@pytest.mark.parametrize(
    "text", ["", "x", "f(1)", "[1", "1 + 1", "open('x')", "1; 2", "()[0]", "...", "f'{1}'", "{[]}"]
)
def test_texts_that_are_not_literals_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a Python literal"):
        literals.parse_literal(text)


@pytest.mark.parametrize("text", ["f()", "f((1, 2), k=3)", "S().f([1])", "S.f(-1)", "S(1).g(2).h({'a': set()})"])
def test_calls_with_literal_arguments_are_calls(text: str) -> None:
    literals.check_call(text, ["f", "S"])


@pytest.mark.parametrize(
    "text", ["f", "f(x)", "f(*[1])", "f(**{})", "g(1)", "f(g(1))", "f(1) + 1", "[f][0](1)", "f(", ""]
)
def test_other_expressions_are_not_calls(text: str) -> None:
    with pytest.raises(ValueError, match="must be a call"):
        literals.check_call(text, ["f", "S"])


def test_what_is_shown_reads_as_python() -> None:
    assert describe(ReturnedSet((1,))) == "{1}"
    assert describe(ReturnedSet(())) == "set()"
    assert describe(ReturnedDict(((1, OpaqueValue("Evil")),))) == "{1: <a value of type Evil>}"
