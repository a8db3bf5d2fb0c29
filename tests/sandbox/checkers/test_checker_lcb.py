"""`lcb` gives LiveCodeBench's verdicts, quirks included."""

import decimal
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.checkers import lcb

LONG = "9" * 1_000_000


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("6.0", "6"),
        ("0.30", "0.3"),
        ("1e3", "1000"),
        ("1_000", "1000"),
        ("_1__0_", "10"),
        ("+5", "005"),
        ("005", "5"),
        ("-0", "0"),
        ("Infinity", "inf"),
        ("-INF", "-Infinity"),
        ("1  2", "1 2"),
        ("1\t2.0", "1 2"),
        ("1\u00a02", "1 2"),
        ("\uff15", "5"),
        ("1\r\n2\r\n", "1\n2\n"),
        ("\n\n 1 \n", "1"),
        ("YES", "YES"),
        ("a \n b", "a\nb"),
        ("nan", "nan"),
        ("sNaN x", "sNaN x"),
        ("", "\n"),
        ("1e999999999999", "10e999999999998"),
        ("\ud800", "\ud800 "),
        pytest.param(LONG + ".0", LONG, id="a million digits"),
    ],
)
def test_lcb_accepts(printed: str, expected: str) -> None:
    assert lcb.same_output(printed, expected)
    assert lcb.same_output(expected, printed)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("a  b", "a b"),
        ("Yes", "YES"),
        ("YES", "NO"),
        ("a b c", "x y z"),
        ("0.30000000000000004", "0.3"),
        ("100000000000000000", "100000000000000001"),
        ("1\n\n2", "1\n2"),
        ("1 2", "1\n2"),
        ("1", "1\n2"),
        ("", "1"),
        ("0\n1\n0", "1\n0\n1"),
        ("a 1", "a 1.0"),
        ("nan 1", "nan 1.0"),
        ("nan", "NaN"),
        ("sNaN", "1"),
        ("sNaN", "nan"),
        ("1\r2", "1 3"),
        ("1\x00", "1"),
        ("\ud800", "1"),
        ("0x10", "16"),
        ("inf", "-inf"),
        ("1e999999999999", "1"),
        ("1e999999999999", "1e-999999999999"),
        ("1e999999999999999999999999", "inf"),
        pytest.param(LONG, LONG[:-1] + "8", id="a million digits"),
    ],
)
def test_lcb_refuses(printed: str, expected: str) -> None:
    assert not lcb.same_output(printed, expected)
    assert not lcb.same_output(expected, printed)


def test_lcb_does_not_depend_on_the_callers_decimal_context() -> None:
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.InvalidOperation] = False
        assert lcb.same_output("123456.0", "123456")
        assert not lcb.same_output("123456", "123457")
        assert not lcb.same_output("x", "y")
        assert not lcb.same_output("sNaN", "1")


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (True, 1),
        (1, 1.0),
        (0, False),
        ((1, 2), [1, 2]),
        ([[1, 2]], [[1, 2]]),
        ({"a": [1.0]}, {"a": [1]}),
        ([10**5000], [10**5000]),
        ("\ud800", "\ud800"),
        (None, None),
        (math.inf, math.inf),
    ],
)
def test_lcb_accepts_values(returned: object, expected: object) -> None:
    assert lcb.same_value(returned, expected)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([(1, 2)], [[1, 2]]),
        ({1: 2}, {"1": 2}),
        ({1, 2}, [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "c": 2}, {"a": 1, "b": 2}),
        ([1], [1, 2]),
        ([2, 1], [1, 2]),
        ("1", 1),
        (None, False),
        ([], {}),
        (0.1 + 0.2, 0.3),
        (10**17, 10**17 + 1),
        (float(10**17), 10**17 + 1),
        (math.nan, math.nan),
        (json.loads("[NaN]"), json.loads("[NaN]")),
        ({"a": json.loads("NaN")}, {"a": json.loads("NaN")}),
        ({math.nan: 1}, {math.nan: 1}),
        ({1}, {1}),
    ],
)
def test_lcb_refuses_values(returned: object, expected: object) -> None:
    assert not lcb.same_value(returned, expected)


# The rule restated as plainly as possible: all lines in lists, all tokens in lists of Decimals.


def plainly_same(printed: str, expected: str) -> bool:
    ours = [line.strip() for line in printed.strip().split("\n")]
    theirs = [line.strip() for line in expected.strip().split("\n")]
    if len(ours) != len(theirs):
        return False
    return all(a == b or plainly_equal_numbers(a, b) for a, b in zip(ours, theirs, strict=True))


def plainly_equal_numbers(ours: str, theirs: str) -> bool:
    try:
        return [decimal.Decimal(word) for word in ours.split()] == [decimal.Decimal(word) for word in theirs.split()]
    except decimal.InvalidOperation:  # no numbers, or a signalling NaN was compared: -4 in LiveCodeBench
        return False


numbers = ["0", "-0", "1", "01", "1.0", "+1", "1e0", "1_0", "10", "10.0", "1e1", "1E+1", "100e-1", "\uff11"]
extremes = ["inf", "Infinity", "-inf", "nan", "NaN", "sNaN", "1e999999999", "10e999999998", "1e-999999999"]
words = st.sampled_from([*numbers, *extremes, "x", "X", ".", "_", "e1", "\x00", "\ud800"])
spaces = st.sampled_from([" ", "  ", "\t", "\n", "\n\n", "\r\n", "\r", "\f", "\x1c", "\x85", "\u00a0", ""])
texts = st.lists(st.one_of(words, spaces), max_size=12).map("".join)


def respaced(text: str) -> st.SearchStrategy[str]:
    """Generate texts that are often equal to the given one: a few of its pieces are written differently."""
    swaps = st.tuples(words | spaces, words | spaces)
    return st.lists(swaps, max_size=2).map(
        lambda pairs: text if not pairs else text.replace(*pairs[0]).replace(*pairs[-1])
    )


@given(texts.flatmap(lambda text: st.tuples(st.just(text), respaced(text) | texts)))
def test_lcb_agrees_with_the_rule_restated(pair: tuple[str, str]) -> None:
    assert lcb.same_output(*pair) == plainly_same(*pair)


@given(st.text(), st.text())
def test_lcb_agrees_with_the_rule_restated_on_arbitrary_text(printed: str, expected: str) -> None:
    assert lcb.same_output(printed, expected) == plainly_same(printed, expected)


@given(st.lists(st.decimals(allow_nan=False), min_size=1), st.sampled_from(["{}", "{:E}", "{:+}", " {} "]))
def test_lcb_accepts_every_way_to_write_a_number(numbers: list[decimal.Decimal], style: str) -> None:
    expected = " ".join(map(str, numbers))
    printed = " ".join(style.format(number) for number in numbers)
    assert lcb.same_output(printed, expected)


scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 0.5, "", "1", "a"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["", "1", "a"]) | st.integers(-1, 1) | st.none(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(values, values)
def test_lcb_agrees_with_python_on_values(returned: object, expected: object) -> None:
    top = list(returned) if isinstance(returned, tuple) else returned
    assert lcb.same_value(returned, expected) == (top == expected)
    assert lcb.same_value(top, json.loads(json.dumps(top))) == (top == json.loads(json.dumps(top)))
