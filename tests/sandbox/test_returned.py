"""A hostile return value costs the trusted side no more than an expected one, and no right value is rejected."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Case, Limits, Program, Sandbox, Suite, Verdict, checkers, return_values
from sandbox.judge import CaseRun, judge
from sandbox.languages.python import to_json
from sandbox.program import Outcome, RunResult

MB = 1 << 20
FLOODS = {
    "empty lists": b"[" + b"[]," * (16 * MB // 3) + b"[]]",
    "empty texts": b"[" + b'"",' * (16 * MB // 3) + b'""]',
    "numbers": b"[" + b"1," * (8 * MB) + b"1]",
    "empty tuples": b"[" + b'{"tuple":[]},' * MB + b"1]",
    "members": b'{"dict":[' + b'["a",1],' * (2 * MB) + b'["b",1]]}',
    "a wide text": b'"\\ud83d\\ude00' + b"a" * (16 * MB) + b'"',
    "an endless number": b"1" * (16 * MB),
    "nothing but blanks": b" " * (16 * MB),
    "levels": b"[" * (16 * MB),
}
keys = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.text("[]{},:\\\"'"),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def judged(encoded: bytes, expected: str, checker: str) -> Verdict:
    suite = Suite([Case("[]", expected)], entry_point="f", checker=checker)
    return judge(suite, lambda *_: CaseRun(RunResult(Outcome.EXITED, 0, b"", b"", 0, 0, 0, encoded))).verdict


def peak_mb(work: Callable[[], Any]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / MB
    finally:
        tracemalloc.stop()


CHECKERS = [name for name in checkers.list_names() if name != "python"]  # whose suites are of another kind


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_is_refused_before_it_is_built(flood: bytes, checker: str) -> None:
    verdicts: list[Verdict] = []
    assert peak_mb(lambda: verdicts.append(judged(flood, '[[1, 2], {"a": [3]}]', checker))) < 5
    assert verdicts == [Verdict.WRONG_ANSWER]


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_flood_of_lists_where_many_numbers_are_expected_is_refused_before_it_is_built(checker: str) -> None:
    expected = json.dumps([list(range(100_000))] if checker == "any_of" else list(range(100_000)))
    flood = b"[" + b"[]," * 99_999 + b"[]]"
    numbers = peak_mb(lambda: json.loads(expected))
    assert peak_mb(lambda: judged(flood, expected, checker)) < 2 * numbers


@given(values, st.booleans())
def test_a_right_value_is_never_too_large(value: Any, ascii_only: bool) -> None:
    expected = json.dumps(json.loads(json.dumps(value)), ensure_ascii=ascii_only)
    encoded = json.dumps(to_json(value)).encode()
    little = return_values._SMALL_BYTES
    try:
        return_values._SMALL_BYTES = 0
        assert return_values.may_equal(encoded, expected)
    finally:
        return_values._SMALL_BYTES = little


def test_a_large_right_value_is_accepted_whatever_it_is_built_from(box: Sandbox) -> None:
    limits = Limits(wall_seconds=5, memory_mb=512)
    value = {str(number): [[number, number / 3], "[{,:\u00e9\U0001f600"] for number in range(20_000)}
    source = (
        "def f(n): return {i: ((i, i / 3), '[{,:\\u00e9\\U0001f600') for i in range(n)}\n"
        "class Texts(str): pass\ndef g(n): return tuple(Texts('\\0\\U0001f600' * 30) for _ in range(n))"
    )
    for name, expected in (("f", value), ("g", ["\0\U0001f600" * 30] * 20_000)):
        suite = Suite(
            [Case("[20000]", json.dumps(expected, ensure_ascii=False))], name, checker="tokens", limits=limits
        )
        assert box.judge(Program(source), suite).accepted


def test_numbers_with_many_more_digits_than_expected_are_close(box: Sandbox) -> None:
    expected = json.dumps([1e300] * 5_000)
    suite = Suite([Case("[]", expected)], entry_point="f", checker="floats", limits=Limits(memory_mb=256))
    assert box.judge(Program("def f(): return [10**300] * 5000"), suite).accepted
