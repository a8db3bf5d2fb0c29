"""Find out which mutants the tests kill, and choose a few tests that kill all of these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from curate.strength.greedy_cover import greedy_cover
from curate.strength.mutation import Mutant
from curate.verification.metered_sandbox import MeteredSandbox
from rewards.case_selection import order_by_length, with_cases
from sandbox import Program, Suite, Verdict

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
