"""Turn a suite into a record of `curate judge`. This is the inverse of sandbox.judge_record.parse_suite."""

from dataclasses import replace
from typing import Literal, NotRequired, TypedDict

from sandbox import Case, Limits, Suite

UNSUPPORTED_LIMITS_MESSAGE = "limits of its own beside wall time and memory, which a record cannot express"


class CaseRecord(TypedDict):
    input: str
    output: str
    trial: NotRequired[str]


class RefereeRecord(TypedDict):
    code: str
    language: str
    convention: str


class SuiteRecord(TypedDict):
    """The fields of a record that determine how a program is judged."""

    kind: Literal["stdin", "function", "assertions"]
    fn_name: str | None
    tests: list[CaseRecord]
    time_limit_s: float
    memory_limit_mb: int
    checker: str
    referee: NotRequired[RefereeRecord]
    names: NotRequired[list[str]]
    classes: NotRequired[list[str]]
    given: NotRequired[str]
    setup: NotRequired[str]


def has_nondefault_limits(suite: Suite) -> bool:
    """Say whether the suite has limits that a record cannot express."""
    default = Limits()
    return replace(suite.limits, wall_seconds=default.wall_seconds, memory_mb=default.memory_mb) != default


def suite_record(suite: Suite) -> SuiteRecord:
    """Return the fields of a record for a suite."""
    record: SuiteRecord = {
        "kind": "stdin" if suite.entry_point is None else "function",
        "fn_name": suite.entry_point,
        "tests": list(map(_case_record, suite.cases)),
        "time_limit_s": suite.limits.wall_seconds,
        "memory_limit_mb": suite.limits.memory_mb,
        "checker": suite.checker,
    }
    if suite.referee is not None:
        program, convention = suite.referee.program, suite.referee.convention
        record["referee"] = {"code": program.source, "language": program.language, "convention": convention.value}
    if suite.assertions is not None:
        record["kind"] = "assertions"
        record["names"], record["classes"] = list(suite.assertions.names), list(suite.assertions.classes)
        record["given"], record["setup"] = suite.assertions.given, suite.assertions.setup
    return record


def _case_record(case: Case) -> CaseRecord:
    record: CaseRecord = {"input": case.input, "output": case.expected}
    return {**record, "trial": case.trial} if case.trial else record
