"""Find out which mutants the tests kill, which few tests kill all of these, and which of the others are wrong."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from curate.strength.extra_inputs import extra_inputs
from curate.strength.mutation import Mutant
from curate.verification.metered_sandbox import MeteredSandbox
from curate.verification.program_outputs import collect_outputs
from rewards.case_selection import order_by_length, with_cases
from sandbox import Case, Program, Suite, Verdict

_SECONDS = 10.0  # CPU time of a problem's mutants after which no more are tried; most problems need a second
_BATCH = 8  # mutants to try before checking the time

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class KilledMutant:
    """A mutant that was killed.

    killing_test    place of the first case that killed it
    survived_tests  places of the earlier cases, which did not kill it
    verdict         the verdict at the case that killed it
    """

    mutant: Mutant
    killing_test: int
    survived_tests: frozenset[int]
    verdict: Verdict


def run_mutants(
    mutants: Sequence[Mutant], suite: Suite, sandbox: MeteredSandbox
) -> tuple[list[KilledMutant], list[Mutant]]:
    """Return the mutants that the suite kills, and those that it does not kill.

    Once _SECONDS of CPU time are used, no more mutants are tried, and the remaining ones are in neither list.
    """
    indices = order_by_length(suite)  # the longest input kills most mutants
    ordered = with_cases(suite, indices)
    kills: list[KilledMutant] = []
    alive: list[Mutant] = []
    for batch in _batches(mutants, sandbox):
        judgements = sandbox.judge_many([(Program(mutant.source), ordered) for mutant in batch])
        for mutant, judgement in zip(batch, judgements, strict=True):
            if judgement.accepted:
                alive.append(mutant)
            else:
                end = len(judgement.cases) - 1
                kills.append(KilledMutant(mutant, indices[end], frozenset(indices[:end]), judgement.verdict))
    return kills, alive


def strongest_tests(kills: Sequence[KilledMutant], suite: Suite, sandbox: MeteredSandbox) -> tuple[int, ...]:
    """Return the places of a few cases that together kill all these mutants, the strongest first.

    They are chosen from the cases that were the first to kill a mutant, and only these cases are tried on all mutants.
    A matrix of all cases and all mutants would cost many times as much, and the result would hardly be better.
    """
    first_killers = {kill.killing_test for kill in kills}
    indices = [index for index in order_by_length(suite) if index in first_killers]
    killers = [{kill.killing_test} for kill in kills]
    untried = [_untried(kill, indices) for kill in kills]
    for batch in _batches([number for number, some in enumerate(untried) if some], sandbox):
        pairs = [(Program(kills[number].mutant.source), with_cases(suite, untried[number])) for number in batch]
        for number, judgement in zip(batch, sandbox.judge_many(pairs, run_all=True), strict=True):
            cases = zip(untried[number], judgement.cases, strict=False)
            killers[number] |= {index for index, case in cases if case.verdict is not Verdict.ACCEPTED}
    return greedy_cover([frozenset(row) for row in killers], indices)


def greedy_cover(killing_tests: Collection[frozenset[int]], indices: Sequence[int]) -> tuple[int, ...]:
    """Return a few places such that each mutant is killed at one of them, beginning with the one that kills most.

    killing_tests  for each mutant, the places that kill it
    indices        all places; among equally good places, the first in this order is chosen
    """
    left = list(killing_tests)
    chosen: list[int] = []
    while left:
        chosen.append(max(indices, key=lambda index: sum(index in row for row in left)))
        left = [row for row in left if chosen[-1] not in row]
    return tuple(chosen)


def _untried(kill: KilledMutant, indices: Sequence[int]) -> list[int]:
    if kill.verdict is Verdict.TIME_LIMIT:
        return []  # each further run would take just as long
    return [index for index in indices if index != kill.killing_test and index not in kill.survived_tests]


def _batches(items: Sequence[Item], sandbox: MeteredSandbox) -> Iterator[Sequence[Item]]:
    """Yield the items in batches until the sandbox has spent _SECONDS on them."""
    enough = sandbox.spent_seconds + _SECONDS
    for start in range(0, len(items), _BATCH):
        if sandbox.spent_seconds > enough:
            return
        yield items[start : start + _BATCH]


def classify_survivors(
    alive: Sequence[Mutant], reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int
) -> tuple[list[Mutant], list[Case]]:
    """Return the mutants that differ from the reference on a further input, and for each of them such an input.

    If no further input can be made, all mutants are returned, and no inputs.
    """
    cases = _confirmed_answers(reference, suite, sandbox, seed=seed)
    if not cases:
        return list(alive), []
    further = replace(suite, cases=tuple(cases))
    wrong: list[Mutant] = []
    telling: list[Case] = []
    judgements = sandbox.judge_many([(Program(mutant.source), further) for mutant in alive])
    for mutant, judgement in zip(alive, judgements, strict=True):
        if not judgement.accepted:
            wrong.append(mutant)
            telling.append(cases[len(judgement.cases) - 1])
    return wrong, telling


def _confirmed_answers(reference: Program, suite: Suite, sandbox: MeteredSandbox, *, seed: int) -> list[Case]:
    """Return those further inputs, with the reference's answers, for which a second run confirms the answer.

    An answer that is not confirmed cannot show that a mutant is wrong.
    """
    inputs = extra_inputs(suite, seed=seed)
    cases = list(collect_outputs(reference, inputs, suite, partial(sandbox.run, limits=suite.limits)))
    if not cases:
        return []
    again = sandbox.judge(reference, replace(suite, cases=tuple(cases)), run_all=True)
    return [case for case, judged in zip(cases, again.cases, strict=False) if judged.verdict is Verdict.ACCEPTED]
