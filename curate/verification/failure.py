"""How a solution failed on one test."""

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
