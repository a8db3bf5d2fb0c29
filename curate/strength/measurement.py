"""Measure the strength of a problem's tests: the share of wrong programs, made from its reference, that they reject.

A mutant is killed if its verdict is not `accepted`. A mutant that survives may be no worse than the reference, so both
are given further inputs. If they agree on all of these, the mutant counts as equivalent and is left out of the share.
If they differ, there is a hole in the tests, and the input is remembered as one that might close it.

Each problem costs a judgement of its reference, a judgement of each mutant up to the first test that kills it, and the
further inputs for the survivors, which are usually few. A mutant that never ends costs its whole time limit, so the
limit is reduced to several times the time that the reference needs for its slowest test. If programs are slow, fewer
mutants are tried.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

from curate.problem import Problem
from curate.strength.mutant_runs import classify_survivors, run_mutants, strongest_tests
from curate.strength.mutation import MAX_MUTANTS, mutants
from curate.strength.strength_record import StrengthRecord
from curate.verification.metered_sandbox import MeteredSandbox
from curate.verification.retries import map_with_retries
from sandbox import Judgement, Sandbox, Suite
from sandbox.suite import INTERACTIVE

log = logging.getLogger(__name__)

_REFERENCE_FACTOR, _EXTRA_SECONDS = 5.0, 0.25
_HOLES, _HOLE_LENGTH = 3, 500  # maximum number of holes to remember, and of characters of each, for people to look at


def fingerprint(problem: Problem, *, max_count: int = MAX_MUTANTS, seed: int) -> str:
    """Return a hash of everything that a problem's StrengthRecord depends on."""
    reference = problem.reference and asdict(problem.reference)
    content = [problem.tests.to_json(), reference, problem.n_public_tests, max_count, seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def is_measurable(problem: Problem) -> bool:
    """Say whether the problem has a Python reference to make mistakes in and is not interactive."""
    reference = problem.reference
    return reference is not None and reference.language == "python" and problem.tests.checker != INTERACTIVE


def measure_strength(
    problems: Iterable[Problem], sandbox: Sandbox, *, max_count: int = MAX_MUTANTS, seed: int
) -> Iterator[tuple[Problem, StrengthRecord]]:
    """Yield the strength of each problem's tests as it becomes known. It is empty if nothing can be measured.

    max_count  maximum number of mutants of each reference
    seed       seed for choosing mutants and further inputs

    Raises CurateError if the sandbox fails again and again. Nothing is then known about the remaining problems.
    """
    return map_with_retries(
        problems,
        lambda problem: measure(problem, MeteredSandbox(sandbox), max_count=max_count, seed=seed),
        sandbox,
    )


def measure(problem: Problem, sandbox: MeteredSandbox, *, max_count: int = MAX_MUTANTS, seed: int) -> StrengthRecord:
    """Measure the strength of one problem's tests. Raises SandboxError if the sandbox fails."""
    if not is_measurable(problem):
        return StrengthRecord()
    assert problem.reference is not None
    pace = sandbox.judge(problem.reference, problem.tests, run_all=True)
    if not pace.accepted:  # although it was accepted twice before, so its mutants show nothing
        log.warning("%s: its reference is now judged %s; its tests are not measured", problem.id, pace.verdict.value)
        return StrengthRecord(spent_cpu_seconds=sandbox.spent_seconds)
    suite = _hurried(problem.tests, pace)
    wrong_programs = mutants(
        problem.reference.source, suite, n_shown_cases=problem.n_public_tests, seed=seed, max_count=max_count
    )
    kills, alive = run_mutants(wrong_programs, suite, sandbox)
    survivors, holes = classify_survivors(alive, problem.reference, suite, sandbox, seed=seed) if alive else ([], [])
    return StrengthRecord(
        n_mutants=len(kills) + len(alive),
        n_killed=len(kills),
        n_equivalent=len(alive) - len(survivors),
        survivors=tuple(sorted(Counter(mutant.kind for mutant in survivors).items())),
        missed_inputs=tuple(hole for hole in dict.fromkeys(holes) if len(hole.input + hole.expected) <= _HOLE_LENGTH)[
            :_HOLES
        ],
        strongest=strongest_tests(kills, suite, sandbox),
        spent_cpu_seconds=round(sandbox.spent_seconds, 6),
    )


def _hurried(suite: Suite, pace: Judgement) -> Suite:
    """Return the suite with limits for programs that should take no longer than the reference did."""
    seconds = _REFERENCE_FACTOR * max(case.cpu_seconds for case in pace.cases) + _EXTRA_SECONDS
    wall_seconds = min(seconds, suite.limits.wall_seconds)
    cpu_seconds = min(seconds, suite.limits.cpu_seconds or suite.limits.wall_seconds)
    return replace(suite, limits=replace(suite.limits, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds))
