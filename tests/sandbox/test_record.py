"""A record is read strictly: each error names the field at fault."""

import json
from typing import Any

import pytest

from sandbox import Assertions, Case, Limits, Program, Referee, RefereeConvention, Suite
from sandbox.json_codec import decode, dumps, loads
from sandbox.judge_record import Record

RECORD = {"id": 7, "code": "", "kind": "stdin", "tests": [{"input": "", "output": ""}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_limit_s": "3"}, "field 'time_limit_s' must be a number, not '3'"),
        ({"time_limit_s": None}, "field 'time_limit_s' must be a number, not None"),
        ({"time_limit_s": True}, "field 'time_limit_s' must be a number, not True"),
        ({"time_limit_s": float("nan")}, "field 'time_limit_s' must be above zero and at most 100,000, not nan"),
        ({"time_limit_s": 0}, "field 'time_limit_s' must be above zero and at most 100,000, not 0.0"),
        ({"memory_limit_mb": 64.5}, "field 'memory_limit_mb' must be a whole number, not 64.5"),
        ({"memory_limit_mb": 10**9}, "field 'memory_limit_mb' must be above zero and at most 16,777,216"),
        ({"language": ["python"]}, "field 'language' must be a string"),
        ({"checker": 3}, "field 'checker' must be a string, not 3"),
        (
            {"tests": [{"input": "", "output": ""}, 3]},
            r"field 'tests\[1\]' must be an object, not 3",
        ),
        ({"referee": {"code": "", "language": 3}}, r"field 'referee\.language' must be a string, not 3"),
        ({"time_limit": 2}, "unknown field 'time_limit'. Did you mean 'time_limit_s'?"),
        ({"x" * 10**6: 2}, "unknown field 'x{80}'"),
        ({"x` - at `$.tests[9]": 2}, r"unknown field 'x` - at `\$\.tests\[9\]'\. The fields are id, code,"),
        ({"kind": "x` - at `$.tests[9]"}, "field 'kind' must be one of stdin, function, assertions, not 'x"),
    ],
)
def test_an_error_names_the_field_at_fault(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        decode(Record, {**RECORD, **change}).to_suite()


def test_limits_are_those_of_the_record_or_the_defaults() -> None:
    written = loads(json.dumps({**RECORD, "time_limit_s": 2, "memory_limit_mb": 64.0}))
    assert decode(Record, written).to_suite().limits == Limits(2.0, memory_mb=64)
    assert decode(Record, RECORD).to_suite().limits == Limits()


@pytest.mark.parametrize("suite", [
    Suite([Case("1", "2"), Case("3", "4", "5")], limits=Limits(2, memory_mb=64)),
    Suite([Case("[1]", "2")], entry_point="f", checker="exact"),
    Suite([Case("", "")], checker="program", referee=Referee(Program("1", "cpp"), RefereeConvention.PRINTED)),
    Suite([Case("f()", "1")], checker="python", assertions=Assertions(("f", "C"), "import re", "x = 1", ("C",))),
])  # fmt: skip
def test_the_record_of_a_submission_says_the_same(suite: Suite) -> None:
    program = Program("print(1)", "cpp")
    written = loads(dumps(Record.from_submission("a", program, suite)))
    record = decode(Record, written)
    assert (record.id, record.program, record.to_suite()) == ("a", program, suite)
