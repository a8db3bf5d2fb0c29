"""Measurement of the strength of a problem's tests: the share of mutants of its reference that they kill.

The tests kill a mutant if its verdict is not `accepted`. A surviving mutant may be equivalent to the reference, so both
run on extra inputs. If they agree on all of these, the mutant counts as equivalent and is excluded from the share. If
they differ, the tests miss a mistake, and the record keeps the input.

Each mutant runs up to the first test that kills it; only the survivors, usually few, run on the extra inputs. A mutant
that hangs costs its whole time limit, so the limit is reduced to five times the slowest test of the reference. A limit
of CPU time may stop the measurement before all mutants are tried.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from curate.json_records import json_key
from curate.judging import MeteredSandbox, collect_outputs
from curate.problem import Problem
from curate.strength.extra_inputs import generate_extra_inputs
from curate.strength.mutants import MAX_MUTANTS, Mutant, generate_mutants
from rewards.case_selection import keep_cases, order_by_length
from sandbox import Case, Judgement, Program, Suite, Verdict
from sandbox.suite import INTERACTIVE

log = logging.getLogger(__name__)

_REFERENCE_FACTOR, _EXTRA_SECONDS = 5.0, 0.25
_MAX_MISSED_INPUTS, _MAX_MISSED_CHARACTERS = 3, 500  # number of missed inputs to record, and length of each
_MAX_CPU_SECONDS = 10.0  # for the mutants of a problem; most problems need a second
_BATCH = 8  # mutants to judge between checks of the CPU time

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class StrengthRecord:
    """The result of running a reference's mutants on the tests.

    n_mutants          number of mutants tried
    n_killed           number of mutants that the tests rejected
    n_equivalent       number of mutants that never differed from the reference
    survivors          numbers of nonequivalent mutants that the tests accept, by kind of mistake
    missed_inputs      inputs on which survivors differ from the reference, with its outputs; these inputs may be
                       invalid by the statement
    strongest          indices of cases; each kills most of the mutants that survive the cases before it
    spent_cpu_seconds  CPU time of all executed programs
    """

    n_mutants: int = 0
    n_killed: int = 0
    n_equivalent: int = 0
    survivors: tuple[tuple[str, int], ...] = ()
    missed_inputs: tuple[Case, ...] = field(default=(), metadata=json_key("holes"))
    strongest: tuple[int, ...] = ()
    spent_cpu_seconds: float = field(default=0.0, metadata=json_key("spent_seconds"))

    @property
    def share(self) -> float | None:
        """Share of killed mutants among the nonequivalent ones; None if there are none."""
        wrong = self.n_mutants - self.n_equivalent
        return self.n_killed / wrong if wrong else None


def is_measurable(problem: Problem) -> bool:
    """Return whether the problem has a Python reference and is not interactive."""
    reference = problem.reference
    return reference is not None and reference.language == "python" and problem.tests.checker != INTERACTIVE


def measure(problem: Problem, sandbox: MeteredSandbox, *, max_count: int = MAX_MUTANTS, seed: int) -> StrengthRecord:
    """Measure the strength of a problem's tests. The record is empty if it is not measurable. Raises SandboxError."""
    if not is_measurable(problem):
        return StrengthRecord()
    assert problem.reference is not None
    baseline = sandbox.judge(problem.reference, problem.tests, run_all=True)
    # Verification accepted the reference twice, so it is flaky, and a killed mutant would prove nothing.
    if not baseline.accepted:
        log.warning("%s: flaky reference, now %s; test strength not measured", problem.id, baseline.verdict.value)
        return StrengthRecord(spent_cpu_seconds=sandbox.spent_seconds)
    suite = _tighten_limits(problem.tests, baseline)
    mutants = generate_mutants(
        problem.reference.source, suite, n_shown_cases=problem.n_public_tests, seed=seed, max_count=max_count
    )
    kills, unkilled = run_mutants(mutants, suite, sandbox)
    survivors, missed = (
        split_survivors(unkilled, problem.reference, suite, sandbox, seed=seed) if unkilled else ([], [])
    )
    return StrengthRecord(
        n_mutants=len(kills) + len(unkilled),
        n_killed=len(kills),
        n_equivalent=len(unkilled) - len(survivors),
        survivors=tuple(sorted(Counter(mutant.kind for mutant in survivors).items())),
        missed_inputs=tuple(
            case for case in dict.fromkeys(missed) if len(case.input + case.expected) <= _MAX_MISSED_CHARACTERS
        )[:_MAX_MISSED_INPUTS],
        strongest=find_strongest_tests(kills, suite, sandbox),
        spent_cpu_seconds=round(sandbox.spent_seconds, 6),
    )


def _tighten_limits(suite: Suite, baseline: Judgement) -> Suite:
    seconds = _REFERENCE_FACTOR * max(case.cpu_seconds for case in baseline.cases) + _EXTRA_SECONDS
    wall_seconds = min(seconds, suite.limits.wall_seconds)
    cpu_seconds = min(seconds, suite.limits.cpu_seconds or suite.limits.wall_seconds)
    return replace(suite, limits=replace(suite.limits, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds))


@dataclass(frozen=True, slots=True)
class KilledMutant:
    """A killed mutant.

    killing_test    index of the first case that killed it
    survived_tests  indices of the earlier cases, which it passed
    verdict         the verdict on the killing test
    """

    mutant: Mutant
    killing_test: int
    survived_tests: frozenset[int]
    verdict: Verdict


def run_mutants(
    mutants: Sequence[Mutant], suite: Suite, sandbox: MeteredSandbox
) -> tuple[list[KilledMutant], list[Mutant]]:
    """Return the mutants that the suite kills, and the survivors.

    Stops after _MAX_CPU_SECONDS; the remaining mutants are in neither list.
    """
    # The longest inputs kill the most mutants.
    indices = order_by_length(suite)
    ordered = keep_cases(suite, indices)
    kills: list[KilledMutant] = []
    unkilled: list[Mutant] = []
    for batch in _split_batches(mutants, sandbox):
        judgements = sandbox.judge_many([(Program(mutant.source), ordered) for mutant in batch])
        for mutant, judgement in zip(batch, judgements, strict=True):
            if judgement.accepted:
                unkilled.append(mutant)
            else:
                end = len(judgement.cases) - 1
                kills.append(KilledMutant(mutant, indices[end], frozenset(indices[:end]), judgement.verdict))
    return kills, unkilled


def find_strongest_tests(kills: Sequence[KilledMutant], suite: Suite, sandbox: MeteredSandbox) -> tuple[int, ...]:
    """Return the indices of a few cases that together kill all these mutants, the strongest first.

    The candidates are the cases that were the first to kill a mutant; all mutants run on these. Running all mutants on
    all cases would cost many times as much, for hardly a better result.
    """
    first_killers = {kill.killing_test for kill in kills}
    indices = [index for index in order_by_length(suite) if index in first_killers]
    killers = [{kill.killing_test} for kill in kills]
    untried = [_list_untried(kill, indices) for kill in kills]
    for batch in _split_batches([number for number, cases in enumerate(untried) if cases], sandbox):
        pairs = [(Program(kills[number].mutant.source), keep_cases(suite, untried[number])) for number in batch]
        for number, judgement in zip(batch, sandbox.judge_many(pairs, run_all=True), strict=True):
            results = zip(untried[number], judgement.cases, strict=False)
            killers[number] |= {index for index, case in results if case.verdict is not Verdict.ACCEPTED}
    return find_greedy_cover([frozenset(row) for row in killers], indices)


def find_greedy_cover(killing_tests: Collection[frozenset[int]], indices: Sequence[int]) -> tuple[int, ...]:
    """Return a small set of cases that together kill every mutant, beginning with the one that kills most.

    killing_tests  for each mutant, the cases that kill it
    indices        all cases, in order of preference
    """
    remaining = list(killing_tests)
    cover: list[int] = []
    while remaining:
        cover.append(max(indices, key=lambda index: sum(index in row for row in remaining)))
        remaining = [row for row in remaining if cover[-1] not in row]
    return tuple(cover)


def _list_untried(kill: KilledMutant, indices: Sequence[int]) -> list[int]:
    # A mutant that timed out would probably time out again.
    if kill.verdict is Verdict.TIME_LIMIT:
        return []
    return [index for index in indices if index != kill.killing_test and index not in kill.survived_tests]


def _split_batches(items: Sequence[Item], sandbox: MeteredSandbox) -> Iterator[Sequence[Item]]:
    """Yield the items in batches until the sandbox has spent _MAX_CPU_SECONDS on them."""
    deadline = sandbox.spent_seconds + _MAX_CPU_SECONDS
    for start in range(0, len(items), _BATCH):
        if sandbox.spent_seconds > deadline:
            return
        yield items[start : start + _BATCH]


def split_survivors(
    unkilled: Sequence[Mutant], reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int
) -> tuple[list[Mutant], list[Case]]:
    """Return the nonequivalent mutants, with an extra input for each on which it differs from the reference.

    If there are no extra inputs, returns all mutants and no inputs.
    """
    cases = _make_extra_cases(reference, suite, sandbox, seed=seed)
    if not cases:
        return list(unkilled), []
    extra_suite = replace(suite, cases=tuple(cases))
    survivors: list[Mutant] = []
    missed: list[Case] = []
    judgements = sandbox.judge_many([(Program(mutant.source), extra_suite) for mutant in unkilled])
    for mutant, judgement in zip(unkilled, judgements, strict=True):
        if not judgement.accepted:
            survivors.append(mutant)
            missed.append(cases[len(judgement.cases) - 1])
    return survivors, missed


def _make_extra_cases(reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int) -> list[Case]:
    """Return the extra inputs for which the reference gives the same output twice, with these outputs."""
    inputs = generate_extra_inputs(suite, seed=seed)
    cases = list(collect_outputs(reference, inputs, suite, sandbox))
    if not cases:
        return []
    again = sandbox.judge(reference, replace(suite, cases=tuple(cases)), run_all=True)
    return [case for case, result in zip(cases, again.cases, strict=False) if result.verdict is Verdict.ACCEPTED]
