"""`tokens`: lines matter, blanks do not, integers are exact, decimals are within 1e-6."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.checkers import tokens


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1 2\n3\n", "1 2\n3"),
        ("\n \n1  2 \t\n\n", "1 2\n"),
        ("1\r\n2\r\n", "1\n2\n"),
        ("a\v\fb", "a b"),
        ("", " \n\n"),
        ("a\n \nb", "a\n\nb"),
        ("0.30000000000000004", "0.3"),
        ("5", "5.0"),
        ("5", "5."),
        ("0.5", ".5"),
        ("1000", "1e3"),
        ("1000", "1E3"),
        ("1000000.9", "1000000.0"),
        ("0.0000009", "0.0"),
        ("-0.0", "0.0"),
        ("x 1.0000001", "x 1.0"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("1e400", "1e400"),
        ("\uff15", "\uff15"),
        ("\ud800", "\ud800\n"),
        pytest.param("1." + "0" * 1_000_000 + "1", "1.0", id="a million digits"),
    ],
)
def test_tokens_accepts(printed: str, expected: str) -> None:
    assert tokens.same_output(printed, expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("YES", "NO"),
        ("Yes", "YES"),
        ("1\n2", "1 2"),
        ("1 2", "1\n2"),
        ("1\n\n2", "1\n2"),
        ("1", "1\n2"),
        ("1 2 3", "1 2"),
        ("1", "1 2"),
        ("", "0"),
        ("ab", "a b"),
        ("2 1", "1 2"),
        ("0\n1\n0", "1\n0\n1"),
        ("007", "7"),
        ("7.0", "7"),
        ("+7", "7"),
        ("-0", "0"),
        ("1_000", "1000"),
        ("\uff15", "5"),
        ("\uff15", "5.0"),
        ("1_0", "10.0"),
        ("0x10", "16.0"),
        ("100000000000000000", "100000000000000001"),
        ("1000002", "1000000.0"),
        ("0.000002", "0.0"),
        ("nan", "1.0"),
        ("nan", "NaN"),
        ("inf", "1e308"),
        ("1e400", "1e401"),
        ("1e308", "-1e308"),
        ("e", "1e3"),
        (".", "0.0"),
        ("1.0.", "1.0"),
        ("1\u00a02", "1 2"),
        ("5\r", "5"),
        ("1\x00", "1"),
        ("\ud800", "1.0"),
        pytest.param("9" * 1_000_000 + "x", "9.0", id="a million digits and a letter"),
        pytest.param("9" * 1_000_000, "9.0", id="a million digits"),
    ],
)
def test_tokens_refuses(printed: str, expected: str) -> None:
    assert not tokens.same_output(printed, expected)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([(1, 2), ((),)], [[1, 2], [[]]]),
        ({1: "a", -2: "b"}, {"-2": "b", "1": "a"}),
        ({None: 1, False: 2, 1.5: 3}, {"null": 1, "false": 2, "1.5": 3}),
        (0.1 + 0.2, 0.3),
        ([1.0000001], [1.0]),
        (1, 1.0),
        (5.0, 5),
        ([10**5000], [10**5000]),
        (math.inf, math.inf),
        ("\ud800", "\ud800"),
    ],
)
def test_tokens_accepts_values(returned: object, expected: object) -> None:
    assert tokens.same_value(returned, expected)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (0, False),
        (True, 1),
        (True, 1.0),
        (1.0000001, 1),
        (10**17 + 1, 10**17),
        (10**400, 1e308),
        (math.nan, math.nan),
        (math.nan, 1.0),
        (math.inf, 1e308),
        ({1, 2}, [1, 2]),
        (frozenset([1]), [1]),
        ({1}, {1}),
        ({1: "a", "1": "b"}, {"1": "b"}),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ({10**5000: 1}, {"1": 1}),
        ({}, []),
        ("1", 1),
        ("1.0", "1.00"),
        ([1, 2], [2, 1]),
        ([[1]], [1]),
        ([[], []], [[[]]]),
    ],
)
def test_tokens_refuses_values(returned: object, expected: object) -> None:
    assert not tokens.same_value(returned, expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_tokens_accepts_a_float_however_it_is_rounded_to_eight_places(number: float) -> None:
    assert tokens.same_output(f"{number:.8f}", repr(number))
    assert tokens.same_value(float(f"{number:.8f}"), number)


@given(st.integers(), st.integers())
def test_tokens_tells_any_two_integers_apart(printed: int, expected: int) -> None:
    assert tokens.same_output(str(printed), str(expected)) == (printed == expected)
    assert tokens.same_value(printed, expected) == (printed == expected)


@given(st.lists(st.lists(st.sampled_from(["a", "7", "1.5"]), min_size=1), min_size=1), st.data())
def test_tokens_ignores_the_width_of_blanks(rows: list[list[str]], data: st.DataObject) -> None:
    blank = st.text(" \t\v\f", min_size=1, max_size=3)
    line_end = st.sampled_from(["\n", "\r\n", " \n"])
    printed = "".join(data.draw(blank).join(row) + data.draw(line_end) for row in rows)
    assert tokens.same_output(printed, "\n".join(" ".join(row) for row in rows))
