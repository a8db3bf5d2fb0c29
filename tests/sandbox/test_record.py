"""A record is read strictly: each error names the field at fault."""

from typing import Any

import pytest

from sandbox import Limits
from sandbox.judge_record import parse

RECORD = {"id": 7, "code": "", "kind": "stdin", "tests": [{"input": "", "output": ""}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_limit_s": "3"}, "field 'time_limit_s' must be a number, not '3'"),
        ({"time_limit_s": None}, "field 'time_limit_s' must be a number, not None"),
        ({"time_limit_s": True}, "field 'time_limit_s' must be a number, not True"),
        ({"time_limit_s": float("nan")}, "field 'time_limit_s' must be a number, not nan"),
        ({"time_limit_s": 0}, "field 'time_limit_s' must be above zero and at most 100,000, not 0.0"),
        ({"memory_limit_mb": 64.5}, "field 'memory_limit_mb' must be a whole number, not 64.5"),
        ({"memory_limit_mb": 10**9}, "field 'memory_limit_mb' must be above zero and at most 16,777,216"),
        ({"language": ["python"]}, "field 'language' must be a string"),
        ({"checker": 3}, "field 'checker' must be a string, not 3"),
        (
            {"tests": [{"input": "", "output": ""}, 3]},
            r"field 'tests\[1\]' must be an object with strings input, output and perhaps trial, not 3",
        ),
        ({"referee": {"code": "", "language": 3}}, "field 'language' of a referee must be a string, not 3"),
        ({"time_limit": 2}, "unknown field 'time_limit'. Did you mean 'time_limit_s'?"),
        ({"x" * 10**6: 2}, "unknown field 'x{80}'"),
    ],
)
def test_an_error_names_the_field_at_fault(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse({**RECORD, **change})


def test_limits_are_those_of_the_record_or_the_defaults() -> None:
    assert parse({**RECORD, "time_limit_s": 2, "memory_limit_mb": 64.0})[2].limits == Limits(2.0, memory_mb=64)
    assert parse(RECORD)[2].limits == Limits()
