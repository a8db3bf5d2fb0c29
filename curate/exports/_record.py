"""A suite in the words of a `curate judge` record: the inverse of sandbox.record.suite_of."""

from dataclasses import replace
from typing import Any

from sandbox import Limits, Suite

LIMITS = "limits of its own beside wall time and memory, which a record does not have"


def has_other_limits(suite: Suite) -> bool:
    """Whether the suite bounds more than a record can say."""
    default = Limits()
    return replace(suite.limits, wall_seconds=default.wall_seconds, memory_mb=default.memory_mb) != default


def record(suite: Suite) -> dict[str, Any]:
    """The fields that say how a program is judged."""
    fields: dict[str, Any] = {
        "kind": "stdin" if suite.entry_point is None else "function",
        "fn_name": suite.entry_point,
        "tests": [{"input": case.input, "output": case.expected} for case in suite.cases],
        "time_limit_s": suite.limits.wall_seconds,
        "memory_limit_mb": suite.limits.memory_mb,
        "checker": suite.checker,
    }
    if suite.referee is not None:
        program, convention = suite.referee.program, suite.referee.convention
        fields["referee"] = {"code": program.source, "language": program.language, "convention": convention.value}
    return fields
