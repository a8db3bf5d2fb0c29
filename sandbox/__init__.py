"""Run untrusted programs and judge them."""

from sandbox.cases import Case, Suite
from sandbox.errors import BackendUnavailable, ExecutionLost, SandboxError
from sandbox.judge import CaseJudgement, Judgement, Verdict
from sandbox.program import Limits, Outcome, Program, RunResult

__all__ = [
    "BackendUnavailable",
    "Case",
    "CaseJudgement",
    "ExecutionLost",
    "Judgement",
    "Limits",
    "Outcome",
    "Program",
    "RunResult",
    "SandboxError",
    "Suite",
    "Verdict",
]
