"""How much the tests of a problem catch: the share of wrong programs, made from its reference, that they reject.

A mutant is killed if its verdict is not accepted. One that survives may be no worse than the reference: both then get
further inputs, and if they agree on all of them it counts as equivalent and is left out of the share. Where they
differ there is a hole in the tests, and the input is remembered as one that might close it.

What a problem costs: a judgement of its reference, one of each mutant that stops at the first test that kills it, and
for the survivors, few as a rule, the further inputs. A mutant that never ends costs its time limit, so that is drawn
in to several times what the slowest test takes the reference; and where programs are slow, fewer mutants are tried.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from curate.problem import Problem
from curate.strength.extra_inputs import extra_inputs
from curate.strength.greedy_cover import cover
from curate.strength.mutation import MOST, Mutant, mutants
from curate.verification.observed import answers
from curate.verification.references import cpu_seconds
from curate.verification.retrying import each
from rewards.selection import longest_first, picked
from sandbox import Case, Judgement, Limits, Program, RunResult, Sandbox, Suite, Verdict
from sandbox.cases import INTERACTIVE

log = logging.getLogger(__name__)

_TIMES_THE_REFERENCE, _SECONDS_MORE = 5.0, 0.25
_SECONDS = 10.0  # CPU time of a problem's mutants after which no more are tried; most problems need a second
_AT_ONCE = 8  # mutants, before the time is looked at
_HOLES, _HOLE_LENGTH = 3, 500  # of those remembered: how many, and characters of each, for people look at them


@dataclass(frozen=True, slots=True)
class Strength:
    """What the mutants of a reference showed about its tests.

    survivors  how many wrong programs no test rejects, by kind of mistake
    holes      inputs that tell some of them from the reference, with its answers. Nobody has checked that the
               statement allows them
    strongest  places of the cases, those first that kill most of what the ones before them do not
    spent_seconds  CPU time of all that was executed
    """

    n_mutants: int = 0
    n_killed: int = 0
    n_equivalent: int = 0
    survivors: tuple[tuple[str, int], ...] = ()
    holes: tuple[Case, ...] = ()
    strongest: tuple[int, ...] = ()
    spent_seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """Killed mutants among those that are not equivalent; None if there is none of these: nothing is known."""
        wrong = self.n_mutants - self.n_equivalent
        return self.n_killed / wrong if wrong else None

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Strength":
        parts = {
            "survivors": tuple((kind, n) for kind, n in record["survivors"]),
            "holes": tuple(Case(**case) for case in record["holes"]),
            "strongest": tuple(record["strongest"]),
        }
        return cls(**record | parts)


def fingerprint(problem: Problem, *, most: int = MOST, seed: int) -> str:
    """Names everything that a Strength depends on."""
    reference = problem.reference and asdict(problem.reference)
    content = [problem.tests.to_json(), reference, problem.n_public_tests, most, seed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def summary(found: Collection[Strength]) -> dict[str, Any]:
    """What was measured in all, for the manifest: nobody has to read the rows for it."""
    survivors: Counter[str] = Counter()
    for strength in found:
        survivors.update(dict(strength.survivors))
    return {
        "measured": sum(strength.share is not None for strength in found),
        "not_measured": sum(strength.share is None for strength in found),
        "mutants": sum(strength.n_mutants for strength in found),
        "killed": sum(strength.n_killed for strength in found),
        "equivalent": sum(strength.n_equivalent for strength in found),
        "survivors": dict(sorted(survivors.items())),
    }


def measurable(problem: Problem) -> bool:
    """Is there a Python reference to make mistakes in, and does it run without somebody to talk to?"""
    reference = problem.reference
    return reference is not None and reference.language == "python" and problem.tests.checker != INTERACTIVE


def measure(
    problems: Iterable[Problem], sandbox: Sandbox, *, most: int = MOST, seed: int
) -> Iterator[tuple[Problem, Strength]]:
    """The strength of each problem's tests by at most so many mutants, as it becomes known; an empty one where nothing
    can be measured.

    Raises CurateError when the sandbox fails again and again: nothing is then known about those problems.
    """
    yield from each(problems, lambda problem: _measured(problem, _Bench(sandbox), most, seed), sandbox)


class _Bench:
    """The sandbox, and the CPU time that one problem has used in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spent_seconds = 0.0

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        (judgement,) = self.judge_many([(program, suite)], run_all=run_all)
        return judgement

    def judge_many(self, pairs: Sequence[tuple[Program, Suite]], *, run_all: bool = False) -> list[Judgement]:
        """All at once, for on a cluster each single question takes its time; answers in the order of the pairs."""
        found = dict(self._sandbox.judge_many(pairs, run_all=run_all))
        self.spent_seconds += sum(map(cpu_seconds, found.values()))
        return [found[index] for index in range(len(pairs))]

    def run(self, program: Program, stdin: str, limits: Limits) -> RunResult:
        result = self._sandbox.run(program, stdin, limits)
        self.spent_seconds += result.cpu_seconds
        return result


def _measured(problem: Problem, bench: _Bench, most: int, seed: int) -> Strength:
    if not measurable(problem):
        return Strength()
    assert problem.reference is not None
    pace = bench.judge(problem.reference, problem.tests, run_all=True)
    if not pace.accepted:  # though it was, twice: what its mutants do means nothing then
        log.warning("%s: the reference is %s now; its tests are not measured", problem.id, pace.verdict.value)
        return Strength(spent_seconds=bench.spent_seconds)
    suite = _hurried(problem.tests, pace)
    made = mutants(problem.reference.source, suite, shown=problem.n_public_tests, seed=seed, most=most)
    killed, alive = _killed_and_alive(made, suite, bench)
    survivors, holes = _told_apart(alive, problem.reference, suite, bench, seed) if alive else ([], [])
    return Strength(
        n_mutants=len(killed) + len(alive),
        n_killed=len(killed),
        n_equivalent=len(alive) - len(survivors),
        survivors=tuple(sorted(Counter(mutant.kind for mutant in survivors).items())),
        holes=tuple(hole for hole in dict.fromkeys(holes) if len(hole.input + hole.expected) <= _HOLE_LENGTH)[:_HOLES],
        strongest=_strongest(killed, suite, bench),
        spent_seconds=round(bench.spent_seconds, 6),
    )


def _hurried(suite: Suite, pace: Judgement) -> Suite:
    """The suite with limits for programs that should take no longer than the reference did."""
    seconds = _TIMES_THE_REFERENCE * max(case.cpu_seconds for case in pace.cases) + _SECONDS_MORE
    wall_seconds = min(seconds, suite.limits.wall_seconds)
    cpu_seconds = min(seconds, suite.limits.cpu_seconds or suite.limits.wall_seconds)
    return replace(suite, limits=replace(suite.limits, wall_seconds=wall_seconds, cpu_seconds=cpu_seconds))


@dataclass(frozen=True, slots=True)
class _Killed:
    """A mutant, the place of the first case that killed it, the places of those that did not, and how it died."""

    mutant: Mutant
    killer: int
    spared_by: frozenset[int]
    verdict: Verdict


def _killed_and_alive(made: Sequence[Mutant], suite: Suite, bench: _Bench) -> tuple[list[_Killed], list[Mutant]]:
    """Longest inputs first: most mutants end at the first of them."""
    places = longest_first(suite)
    ordered = picked(suite, places)
    killed: list[_Killed] = []
    alive: list[Mutant] = []
    enough = bench.spent_seconds + _SECONDS
    for start in range(0, len(made), _AT_ONCE):
        if bench.spent_seconds > enough:
            break
        some = made[start : start + _AT_ONCE]
        for mutant, judgement in zip(some, bench.judge_many([(Program(m.source), ordered) for m in some]), strict=True):
            if judgement.accepted:
                alive.append(mutant)
            else:
                end = len(judgement.cases) - 1
                killed.append(_Killed(mutant, places[end], frozenset(places[:end]), judgement.verdict))
    return killed, alive


def _strongest(killed: Sequence[_Killed], suite: Suite, bench: _Bench) -> tuple[int, ...]:
    """A cover made of first killers. Only these are tried on the mutants: a matrix of all cases and all mutants costs
    many times as much and finds covers that are hardly better."""
    first_killers = {one.killer for one in killed}
    places = [place for place in longest_first(suite) if place in first_killers]
    untried = [
        # What did not end in time would take its time again and again.
        []
        if one.verdict is Verdict.TIME_LIMIT
        else [place for place in places if place != one.killer and place not in one.spared_by]
        for one in killed
    ]
    rows = [{one.killer} for one in killed]
    asked = [number for number, some in enumerate(untried) if some]
    enough = bench.spent_seconds + _SECONDS
    for start in range(0, len(asked), _AT_ONCE):
        if bench.spent_seconds > enough:
            break
        numbers = asked[start : start + _AT_ONCE]
        pairs = [(Program(killed[number].mutant.source), picked(suite, untried[number])) for number in numbers]
        for number, judgement in zip(numbers, bench.judge_many(pairs, run_all=True), strict=True):
            cases = zip(untried[number], judgement.cases, strict=False)
            rows[number] |= {place for place, case in cases if case.verdict is not Verdict.ACCEPTED}
    return cover([frozenset(row) for row in rows], places)


def _told_apart(
    alive: Sequence[Mutant], reference: Program, suite: Suite, bench: _Bench, seed: int
) -> tuple[list[Mutant], list[Case]]:
    """The mutants that differ from the reference on a further input, or could not be asked; and such inputs."""
    inputs = extra_inputs(suite, seed=seed)
    known = list(answers(reference, inputs, suite, partial(bench.run, limits=suite.limits)))
    if known:  # an answer that a second run does not confirm cannot tell who is wrong
        again = bench.judge(reference, replace(suite, cases=tuple(known)), run_all=True)
        known = [case for case, judged in zip(known, again.cases, strict=False) if judged.verdict is Verdict.ACCEPTED]
    if not known:
        return list(alive), []
    further = replace(suite, cases=tuple(known))
    wrong: list[Mutant] = []
    telling: list[Case] = []
    judgements = bench.judge_many([(Program(mutant.source), further) for mutant in alive])
    for mutant, judgement in zip(alive, judgements, strict=True):
        if not judgement.accepted:
            wrong.append(mutant)
            telling.append(known[len(judgement.cases) - 1])
    return wrong, telling
