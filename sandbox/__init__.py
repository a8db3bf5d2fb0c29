"""Run untrusted programs and judge them."""

from sandbox.box import Sandbox
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
    "Sandbox",
    "SandboxError",
    "Suite",
    "Verdict",
]
