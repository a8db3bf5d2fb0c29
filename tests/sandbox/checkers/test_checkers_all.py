"""Every checker gives a verdict for whatever a program prints or returns, and never raises."""

import json
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import checkers
from sandbox.checkers import _text

NAMES = ["any_of", "codeforces", "exact", "floats", "lcb", "python", "tokens", "unordered_lines"]
REFLEXIVE = [name for name in NAMES if name not in ("any_of", "python")]  # any_of: expected lists what is accepted
each = pytest.mark.parametrize("name", NAMES)
each_reflexive = pytest.mark.parametrize("name", REFLEXIVE)

numbers = [
    "0",
    "1.0",
    "1e3",
    "-1",
    "1e999999999999",
    "nan",
    "sNaN",
    "inf",
    "\uff15",
    "1_0",
    ".",
    "[",
    '["1"]',
]
pieces = st.sampled_from([*numbers, " ", "\t", "\n", "\r\n", "\r", "\x00", "\ud800", "\u00a0", "x"])
texts = st.lists(pieces, max_size=10).map("".join) | st.text(st.characters(codec=None))

keys = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.tuples(st.integers())
huge = st.integers(5000, 5001).map(lambda digits: 10**digits)  # longer than CPython writes out
scalars = keys | st.sets(keys) | st.frozensets(keys) | huge
plain_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys | huge, inner),
    max_leaves=8,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_the_checkers_are_these() -> None:
    assert list(checkers.list_names()) == NAMES


def test_an_unknown_checker_is_named_together_with_the_choices() -> None:
    with pytest.raises(ValueError, match="'_text'; choose one of any_of, codeforces, exact"):
        checkers.load("_text")


@each
@given(texts, texts)
def test_any_two_texts_get_a_verdict(name: str, printed: str, expected: str) -> None:
    assert checkers.load(name).same_output(printed, expected) in (True, False)


@each
@given(plain_values, plain_values)
def test_any_two_values_get_a_verdict(name: str, returned: object, expected: object) -> None:
    assert checkers.load(name).same_value(returned, expected) in (True, False)
    assert checkers.load(name).same_value(returned, [expected, returned]) in (True, False)


@each_reflexive
@given(texts)
def test_a_text_is_the_same_as_itself(name: str, text: str) -> None:
    assert checkers.load(name).same_output(text, text)


@each_reflexive
@given(texts)
def test_line_ends_of_the_other_system_and_a_last_newline_do_not_matter(name: str, text: str) -> None:
    unix = text.replace("\r", "")
    assert checkers.load(name).same_output(unix.replace("\n", "\r\n") + "\r\n", unix)


@each_reflexive
@given(json_values)
def test_a_json_value_is_the_same_as_itself(name: str, value: object) -> None:
    assert checkers.load(name).same_value(value, value)


@pytest.mark.parametrize("name", ["exact", "lcb", "unordered_lines"])
@given(texts, texts)
def test_checkers_without_tolerance_are_symmetric_on_text(name: str, one: str, other: str) -> None:
    same = checkers.load(name).same_output
    assert same(one, other) == same(other, one)


@pytest.mark.parametrize("name", ["exact", "unordered_lines"])
@given(plain_values, plain_values)
def test_checkers_without_tolerance_are_symmetric_on_values(name: str, one: object, other: object) -> None:
    same_value = checkers.load(name).same_value
    assert same_value(one, other) == same_value(other, one)


@pytest.mark.parametrize("name", ["exact", "tokens", "floats", "codeforces"])
@given(texts, texts)
def test_what_exact_accepts_is_accepted_by_the_milder_ones(name: str, printed: str, expected: str) -> None:
    if checkers.load("exact").same_output(printed, expected):
        assert checkers.load(name).same_output(printed, expected)


def nested(levels: int) -> list[object]:
    value: list[object] = [0]
    for _ in range(levels):
        value = [value]
    return value


@each_reflexive
@pytest.mark.parametrize("levels", [200, sys.getrecursionlimit(), pytest.param(100_000, marks=pytest.mark.thorough)])
def test_deep_values_are_walked_without_recursion(name: str, levels: int) -> None:
    same_value = checkers.load(name).same_value
    assert same_value(nested(levels), nested(levels))
    assert not same_value(nested(levels), nested(levels - 1))
    assert not same_value(nested(levels), [0])


@each
def test_a_flood_of_lines_or_tokens_is_refused(name: str) -> None:
    same = checkers.load(name).same_output
    for flood in (
        "1\n" * 1_000_000,
        "1 " * 1_000_000,
        "\n" * 1_000_000 + "1",
        "9" * 1_000_000,
        "\r" * 1_000_000,
    ):
        assert not same(flood, "1 2\n3")


FLOOD = 16 << 20
FLOODS = {
    "lines": "1\n" * (FLOOD // 2),
    "lines of the other system": "1\r\n" * (FLOOD // 3),
    "tokens": "1 " * (FLOOD // 2),
    "tokens after a blank line": "\n" + "1 " * (FLOOD // 2),
    "one number": "1" * FLOOD,
    "one number with a point": "1." + "0" * FLOOD,
    "one word": "x" * FLOOD,
    "words of JSON": "[" + '"1",' * (FLOOD // 4) + '"1"]',
    "blank lines inside": "1 2" + "\n" * FLOOD + "3",
    "blanks inside": "1" + " " * FLOOD + "2\n3",
}


def _peak_mb(name: str, printed: str, expected: str) -> float:
    same = checkers.load(name).same_output
    tracemalloc.start()
    try:
        assert not same(printed, expected)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@each
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_is_not_split(name: str, flood: str) -> None:
    expected = "1 2\n3\n"
    assert _peak_mb(name, flood, json.dumps([expected] * 100) if name == "any_of" else expected) < 20


@pytest.mark.parametrize(
    ("name", "end"),
    [
        pytest.param("tokens", " ", id="tokens"),
        pytest.param("lcb", "\n", id="lcb, lines"),
        *(
            pytest.param(name, end, id=f"{name}, {ends}", marks=pytest.mark.thorough)
            for name in ("any_of", "floats", "lcb", "tokens")
            for end, ends in ((" ", "tokens"), ("\n", "lines"))
            if (name, end) not in (("tokens", " "), ("lcb", "\n"))
        ),
    ],
)
def test_long_texts_are_split_lazily(name: str, end: str) -> None:
    printed, expected = f"1.0 {end}" * 500_000 + "3", f"1.0{end}" * 500_000 + "4"
    texts_mb = 2 * (len(printed) + len(expected)) / 2**20
    assert _peak_mb(name, printed, json.dumps([expected]) if name == "any_of" else expected) < 60 + texts_mb


@pytest.mark.parametrize("name", ["floats", "lcb", "tokens"])
@pytest.mark.parametrize("blank", [" ", "\t", "  "])
@pytest.mark.parametrize("end", ["", " ", "\n"])
def test_long_lines_are_the_same_as_short_ones(
    name: str, blank: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_text, "_BLOCK_CHARS", 1 << 13)
    monkeypatch.setattr(_text, "_LENGTH_SLACK", 1 << 13)
    same = checkers.load(name).same_output
    numbers = [f"{number}.5" for number in range(3000)]
    assert same(blank.join(numbers) + end, " ".join(numbers))
    assert same(blank * (2 << 13) + blank.join(numbers) + end, " ".join(numbers))
    assert not same(blank.join(numbers[:-1]) + end, " ".join(numbers))
    assert not same(blank.join([*numbers, "1"]) + end, " ".join(numbers))
    assert not same(blank.join([*numbers[:-1], "7"]) + end, " ".join(numbers))


@each
@pytest.mark.parametrize("end", [" ", "\n", "\r\n"])
def test_trailing_blanks_do_not_make_an_answer_too_long(name: str, end: str) -> None:
    expected = json.dumps(["7", "8"]) if name == "any_of" else "7"
    assert checkers.load(name).same_output("7" + end * (3 << 20), expected) == (
        name not in ("exact", "python") or end != " "
    )


@each
def test_a_value_of_a_custom_class_equals_nothing(name: str) -> None:
    class Yes(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            raise AssertionError("the checker asked the value")

    same_value = checkers.load(name).same_value
    assert not same_value(Yes(1), 1)
    assert not same_value([Yes(1)], [1])
    assert not same_value({"a": Yes(1)}, {"a": 1})
