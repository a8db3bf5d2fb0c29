"""Run untrusted programs and judge them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.box import Sandbox
    from sandbox.cases import Case, Convention, Referee, Suite
    from sandbox.concurrency.cancellation import Cancellation
    from sandbox.errors import (
        BackendUnavailable,
        Cancelled,
        ExecutionLost,
        KilledFromOutside,
        RefereeFailed,
        SandboxError,
    )
    from sandbox.judge import CaseJudgement, Judgement, Verdict
    from sandbox.program import Invocation, Limits, Outcome, Program, RunResult

__all__ = [
    "BackendUnavailable",
    "Cancellation",
    "Cancelled",
    "Case",
    "CaseJudgement",
    "Convention",
    "ExecutionLost",
    "Invocation",
    "Judgement",
    "KilledFromOutside",
    "Limits",
    "Outcome",
    "Program",
    "Referee",
    "RefereeFailed",
    "RunResult",
    "Sandbox",
    "SandboxError",
    "Suite",
    "Verdict",
]

_HOMES = {
    "box": ["Sandbox"],
    "concurrency.cancellation": ["Cancellation"],
    "cases": ["Case", "Convention", "Referee", "Suite"],
    "errors": [
        "BackendUnavailable",
        "Cancelled",
        "ExecutionLost",
        "KilledFromOutside",
        "RefereeFailed",
        "SandboxError",
    ],
    "judge": ["CaseJudgement", "Judgement", "Verdict"],
    "program": ["Invocation", "Limits", "Outcome", "Program", "RunResult"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: zygotes live in this package, too, and what a zygote holds, each of its forks pays for.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
