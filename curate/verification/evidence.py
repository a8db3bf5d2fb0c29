"""Gather the evidence for a verdict on a problem: what its solutions answer to the test on which they fail.

Journals keep only the verdicts of tests, because outputs can be large. So the few solutions that are worth showing are
executed once more, on one test, for the problems whose verdict a reader may want to check.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from curate.json_records import json_key
from curate.problem import Problem
from curate.reading.solutions import candidate_solutions
from curate.text.excerpt import excerpt
from curate.verification.failure import CaseFailure
from curate.verification.metered_sandbox import MeteredSandbox
from curate.verification.program_outputs import collect_outputs
from curate.verification.references import ReferenceRecord, final_suite
from curate.verification.retries import map_with_retries
from sandbox import Program, Sandbox, Suite, Verdict
from sandbox.suite import INTERACTIVE

MAX_SHOWN = 3  # solutions that fail; more of them seldom say more


@dataclass(frozen=True, slots=True)
class SolutionOutput:
    """What one solution did on the test.

    solution_index  place of the solution among the candidates of the problem
    verdict         the verdict on the test
    detail          the sandbox's explanation of the verdict
    output          its output or return value, truncated; None if there is none to show
    """

    solution_index: int = field(metadata=json_key("solution"))
    verdict: Verdict
    detail: str
    output: str | None


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """What some solutions of a problem did on one of its tests.

    test_index         place of the test in the suite
    outputs            the answers; that of the reference, if there is one, comes first
    spent_cpu_seconds  CPU time of everything that was executed
    """

    test_index: int = field(metadata=json_key("test"))
    outputs: tuple[SolutionOutput, ...] = field(metadata=json_key("answers"))
    spent_cpu_seconds: float = field(metadata=json_key("spent_seconds"))


def choose_informative_failures(failures: Sequence[CaseFailure]) -> tuple[CaseFailure, ...]:
    """Return the failures on one test: the one with most wrong answers, or with most failures if none is wrong."""
    wrong = [failure for failure in failures if failure.verdict is Verdict.WRONG_ANSWER]
    counts = Counter(failure.test_index for failure in wrong or failures)
    test = min(counts, key=lambda test: (-counts[test], test), default=None)
    return tuple(failure for failure in wrong or failures if failure.test_index == test)


def gather_evidence(
    problems: Iterable[Problem],
    failures: Mapping[str, Sequence[CaseFailure]],
    references: Mapping[str, ReferenceRecord],
    sandbox: Sandbox,
    *,
    languages: Sequence[str],
) -> Iterator[tuple[Problem, EvidenceRecord]]:
    """Execute the first solutions that fail, and the reference, on the test on which they fail.

    problems    the problems as they were read from their sources
    failures    failures of a problem's solutions on one test, by problem id
    references  results of `find_references` with the same `languages`, by problem id
    sandbox     where the solutions are executed
    languages   languages of the solutions that may be executed

    Raises CurateError if the sandbox fails again and again.
    """

    def gather(problem: Problem) -> EvidenceRecord:
        reference, shown = references[problem.id], failures[problem.id][:MAX_SHOWN]
        test = shown[0].test_index
        without_outputs = [
            SolutionOutput(failure.solution_index, failure.verdict, failure.detail, None) for failure in shown
        ]
        if reference.passing_index is not None and reference.passing_index not in {
            failure.solution_index for failure in shown
        }:
            without_outputs.insert(0, SolutionOutput(reference.passing_index, Verdict.ACCEPTED, "", None))
        suite = final_suite(problem, reference)
        programs = candidate_solutions(problem, languages)
        metered = MeteredSandbox(sandbox)
        complete = tuple(
            replace(answer, output=_output(answer, programs[answer.solution_index], test, suite, metered))
            for answer in without_outputs
        )
        return EvidenceRecord(test, complete, round(metered.spent_seconds, 6))

    return map_with_retries(problems, gather, sandbox)


def _output(answer: SolutionOutput, program: Program, test: int, suite: Suite, sandbox: MeteredSandbox) -> str | None:
    case = suite.cases[test]
    # A program that fails in another way has no answer, and a conversation and statements that raise have no output.
    if answer.verdict not in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        return None
    if suite.checker == INTERACTIVE or (suite.assertions is not None and not case.expected):
        return None
    observed = next(collect_outputs(program, [case.input], suite, partial(sandbox.run, limits=suite.limits)), None)
    return None if observed is None else excerpt(observed.expected)
