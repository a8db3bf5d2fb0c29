"""`exact` forgives the end of the text only; `floats` compares every number within 1e-6."""

import math

import pytest

from sandbox.checkers import exact, floats


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("a\n", "a", True),
        ("a", "a\n\n\n", True),
        ("a\r\nb\r\n", "a\nb", True),
        ("", "\n", True),
        ("\ud800\n", "\ud800", True),
        ("a \n", "a\n", False),
        ("\na", "a", False),
        ("a\n\nb", "a\nb", False),
        ("a  b", "a b", False),
        ("a\rb", "a\nb", False),
        ("A", "a", False),
        ("1.0", "1", False),
    ],
)
def test_exact_text(printed: str, expected: str, same: bool) -> None:
    assert exact.same_output(printed, expected) is same
    assert exact.same_output(expected, printed) is same


@pytest.mark.parametrize(
    ("returned", "expected", "same"),
    [
        ([(1, 2)], [[1, 2]], True),
        ({1: {2: 3}}, {"1": {"2": 3}}, True),
        (1, 1.0, True),
        (True, 1, False),
        ([False], [0], False),
        (0.1 + 0.2, 0.3, False),
        (10**400, 10**400 + 1, False),
        (math.nan, math.nan, False),
        ([math.nan], [math.nan], False),
        ({1}, [1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ],
)
def test_exact_values(returned: object, expected: object, same: bool) -> None:
    assert exact.same_value(returned, expected) is same


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("5", "5.0", True),
        ("5.0", "5", True),
        ("5.0000001 x", "5 x", True),
        ("007", "7", True),
        ("1000000001", "1000000000", True),
        ("nan", "nan", True),
        ("1e400", "1e400", True),
        (" 1\r\n\r\n2\n", "1\n\n2", True),
        ("5.1", "5", False),
        ("nan", "NaN", False),
        ("inf", "1e308", False),
        ("1e400", "1e401", False),
        ("\uff15", "5", False),
        ("1_000", "1000", False),
        ("x", "y", False),
        ("1 2", "1\n2", False),
        ("1\n\n2", "1\n2", False),
        ("1 2 3", "1 2", False),
    ],
)
def test_floats_text(printed: str, expected: str, same: bool) -> None:
    assert floats.same_output(printed, expected) is same


@pytest.mark.parametrize(
    ("returned", "expected", "same"),
    [
        (5.0000001, 5, True),
        (5, 5.0, True),
        ((1, (2.0000001,)), [1, [2]], True),
        (10**400, 10**400, True),
        (math.inf, math.inf, True),
        (10**400, 10**400 + 1, False),
        (10**400, math.inf, False),
        (math.inf, 1e308, False),
        (math.nan, math.nan, False),
        (True, 1, False),
        ("5", 5, False),
        (5.1, 5, False),
    ],
)
def test_floats_values(returned: object, expected: object, same: bool) -> None:
    assert floats.same_value(returned, expected) is same
