"""Each side reads exactly what the other one sends, or says what it does not understand."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Case, Judgement, Limits, Program, Referee, RefereeConvention, RunResult, Suite, Verdict
from sandbox.json_codec import decode, dumps, loads
from sandbox.judge import CaseJudgement
from sandbox.program import Invocation, Outcome
from sandbox.request import JudgeRequest, RunRequest

TEXT = st.text(st.characters(), max_size=20)  # lone surrogates, too
ARGUMENT = st.text(st.characters(exclude_characters="\0"), max_size=20)
NUMBER = st.floats(0, 1e9)
PROGRAM = st.builds(Program, TEXT, st.sampled_from(["python", "cpp"]))
LIMITS = st.builds(
    Limits, st.floats(0.001, 1e5), st.none() | st.floats(0.001, 1e5), st.integers(1, 1 << 24), st.integers(1, 99)
)
REFEREE = st.builds(Referee, PROGRAM, st.sampled_from(RefereeConvention))
CASES = st.lists(st.builds(Case, TEXT, TEXT), max_size=4)
SUITE = st.builds(Suite, CASES, st.none() | TEXT, TEXT, LIMITS, st.none() | REFEREE)
FILES = st.dictionaries(
    st.from_regex(r"[a-z]{1,9}(/[a-z]{1,9})?", fullmatch=True), st.binary(max_size=20), max_size=3
).filter(lambda files: not any(name.partition("/")[0] in files for name in files if "/" in name))
INVOCATION = st.builds(
    Invocation, st.binary(max_size=50), st.lists(ARGUMENT, max_size=3).map(tuple), FILES, FILES.map(tuple)
)
CASE_JUDGEMENT = st.builds(CaseJudgement, st.sampled_from(Verdict), NUMBER, NUMBER, NUMBER, TEXT, NUMBER)
ANYTHING = st.one_of(
    st.builds(RunRequest, PROGRAM, INVOCATION, LIMITS),
    st.builds(JudgeRequest, PROGRAM, SUITE, st.booleans()),
    st.builds(
        RunResult,
        st.sampled_from(Outcome),
        st.integers(-64, 255),
        st.binary(max_size=50),
        st.binary(max_size=50),
        NUMBER,
        NUMBER,
        NUMBER,
        st.none() | st.binary(max_size=9),
        FILES,
    ),
    st.builds(Judgement, st.sampled_from(Verdict), st.lists(CASE_JUDGEMENT, max_size=3).map(tuple), st.integers(1, 99)),
)


@given(ANYTHING)
def test_what_arrives_is_what_was_sent(message: Any) -> None:
    assert decode(type(message), loads(dumps(message))) == message


@given(st.sampled_from([RunRequest, JudgeRequest, RunResult, Judgement]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["program", "source", "suite", "cases", "limits", "stdin", "verdict", "x"]), inner
    ),
))  # fmt: skip
def test_nothing_else_is_taken_for_a_message(kind: type, anything: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode(kind, anything)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "field 'program' is missing"),
        ({"program": {"source": 1}}, "field 'program.source' must be a string, not 1"),
        ({"program": {"source": "", "version": 1}}, "unknown field 'program.version'"),
        ({"program": {"source": ""}, "limits": {"memory_mb": 1.5}}, "'limits.memory_mb' must be a whole number"),
        ({"program": {"source": ""}, "limits": {"wall_seconds": True}}, "'limits.wall_seconds' must be a number"),
        ({"program": {"source": ""}, "limits": {"wall_seconds": 10**400}}, "'limits.wall_seconds' must be a number"),
        (
            {"program": {"source": ""}, "limits": {"wall_seconds": math.inf}},
            "wall_seconds must be above zero and at",
        ),
        ({"program": {"source": ""}, "limits": {"wall_seconds": 0}}, "field 'limits': Limits.wall_seconds must be"),
        ({"program": {"source": ""}, "invocation": {"stdin": "é"}}, "field 'invocation.stdin' must be base64"),
        ({"program": {"source": ""}, "invocation": {"arguments": ["a", 2]}}, "field 'invocation.arguments[1]' must be"),
        (
            {"program": {"source": ""}, "invocation": {"files": {"a": 2}}},
            "field 'invocation.files[...]' must be base64, not {'a': 2}",
        ),
        ({"program": {"source": ""}, "invocation": {"files": {"../a": ""}}}, "short relative path"),
    ],
)
def test_errors_name_the_field_at_fault(content: Any, words: str) -> None:
    with pytest.raises(ValueError, match=".") as error:
        decode(RunRequest, content)
    assert words in str(error.value)


def test_whole_numbers_may_be_written_with_a_decimal_point() -> None:
    request = decode(RunRequest, loads(b'{"program": {"source": ""}, "limits": {"memory_mb": 64.0}}'))
    assert request.limits == Limits(memory_mb=64)


@pytest.mark.parametrize("number", ["1e400", "-1e400"])
def test_a_number_that_no_float_can_hold_is_refused_where_it_stands(number: str) -> None:
    result = loads(b'{"verdict": "accepted", "cpu_seconds": %b, "wall_seconds": 0, "memory_mb": 0}' % number.encode())
    with pytest.raises(ValueError, match="field 'cpu_seconds' must be a number in range, not -?1000"):
        decode(CaseJudgement, result)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "[-Infinity]", "[" * 100_000, "9" * 5000, "", "{]"])
def test_what_is_not_json_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        loads(text.encode())


def test_numbers_unknown_to_json_are_not_sent() -> None:
    with pytest.raises(ValueError, match="JSON"):
        dumps(CaseJudgement(Verdict.ACCEPTED, cpu_seconds=math.inf, wall_seconds=0, memory_mb=0))


def test_messages_are_plain_json() -> None:
    content = json.loads(dumps(RunRequest(Program("1"), Invocation(b"\xff"))))
    assert content["invocation"]["stdin"] == "/w=="
