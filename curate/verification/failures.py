"""How solutions failed: on which test, with which verdict, and the cause in one fixed word."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from curate.json_records import json_key
from sandbox import Judgement, Verdict


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A solution's failure on one test.

    solution_index  place of the solution among the candidates of the problem
    test_index      place of the test in the suite
    verdict         the verdict on this test, never "accepted"
    detail          what the sandbox said about it, which is short
    """

    solution_index: int = field(metadata=json_key("solution"))
    test_index: int = field(metadata=json_key("test"))
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class SolutionOutput:
    """What one solution did on a test.

    solution_index  place of the solution among the candidates of the problem
    verdict         the verdict on the test
    detail          the sandbox's explanation of the verdict
    output          its output or return value, truncated; None if there is none to show
    """

    solution_index: int = field(metadata=json_key("solution"))
    verdict: Verdict
    detail: str
    output: str | None


def first_failure(solution: int, judgement: Judgement) -> CaseFailure:
    """Return the first failure of a solution that is not accepted."""
    test, case = next(pair for pair in enumerate(judgement.cases) if pair[1].verdict is not Verdict.ACCEPTED)
    return CaseFailure(solution, test, case.verdict, case.detail)


def wrong_answers(solution: int, judgement: Judgement) -> dict[int, CaseFailure]:
    """Return the wrong answers of a solution, by the places of the tests."""
    return {
        test: CaseFailure(solution, test, case.verdict, case.detail)
        for test, case in enumerate(judgement.cases)
        if case.verdict is Verdict.WRONG_ANSWER
    }


def choose_informative_failures(failures: Sequence[CaseFailure]) -> tuple[CaseFailure, ...]:
    """Return the failures on one test: the one with most wrong answers, or with most failures if none is wrong."""
    wrong = [failure for failure in failures if failure.verdict is Verdict.WRONG_ANSWER]
    counts = Counter(failure.test_index for failure in wrong or failures)
    test = min(counts, key=lambda test: (-counts[test], test), default=None)
    return tuple(failure for failure in wrong or failures if failure.test_index == test)


def failure_cause(judgement: Judgement) -> str:
    """Return the cause of a judgement that is not accepted: its verdict, or one of these words:

    no_module     it imports a module that is not installed in the sandbox
    input_ended   it reads more input than there is, usually because the tests have another form than it expects
    empty_output  it prints nothing, usually because it defines a function that is never called
    """
    detail = next((case.detail for case in judgement.cases if case.verdict is not Verdict.ACCEPTED), "")
    last_line = detail.rstrip().rpartition("\n")[2]
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith(("ModuleNotFoundError:", "ImportError:")):
        return "no_module"
    if judgement.verdict is Verdict.RUNTIME_ERROR and last_line.startswith("EOFError:"):
        return "input_ended"
    if judgement.verdict is Verdict.WRONG_ANSWER and not detail.strip():
        return "empty_output"
    return judgement.verdict.value
