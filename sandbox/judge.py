"""Was it right? The only place that knows accepted from wrong_answer; runs in the trusted parent."""

from dataclasses import dataclass
from enum import Enum




class Verdict(Enum):
    """The field's words for what became of a submission. A sandbox that broke is an exception, not a member."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    RUNTIME_ERROR = "runtime_error"
    COMPILE_ERROR = "compile_error"
    SANDBOX_VIOLATION = "sandbox_violation"


@dataclass(frozen=True, slots=True)
class CaseJudgement:
    """What one test showed. detail is for people: the end of stderr, or what was printed instead."""

    verdict: Verdict
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a suite showed: the first verdict that is not accepted, and one entry for each case that was run,
    in the order of the suite. Judging stops at the first failure unless all cases were asked for."""

    verdict: Verdict
    cases: tuple[CaseJudgement, ...]
    n_cases: int

    @property
    def accepted(self) -> bool:
        return self.verdict is Verdict.ACCEPTED

    @property
    def pass_rate(self) -> float:
        """Share of the suite's cases that were accepted; cases not run count as not accepted."""
        return sum(case.verdict is Verdict.ACCEPTED for case in self.cases) / self.n_cases
