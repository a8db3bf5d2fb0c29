"""A small problem with a right solution, and flawed solutions that fail on some cases, its traps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from benchmarks.soak.submission import SoakSubmission
from sandbox import Assertions, Case, Limits, Program, Referee, Suite, Verdict

_SIZES = (1, 1, 2, 3, 5, 8, 12)  # of suites
_TRAPS = 0.4  # share of a suite's cases


@dataclass(frozen=True, slots=True)
class SoakTask:
    """A problem of the soak.

    make    make(random, trap) returns a case; on a trap, every flawed solution fails
    flawed  flawed solutions, each with its verdict on a trap
    weight  frequency of the task, relative to the others
    """

    name: str
    make: Callable[[Random, bool], Case]
    right: str
    flawed: tuple[tuple[Verdict, str], ...]
    weight: int
    language: str = "python"
    entry_point: str | None = None
    checker: str = "lcb"
    limits: Limits = field(default_factory=Limits)
    referee: Referee | None = None
    assertions: Assertions | None = None

    def sample(self, random: Random, *, flawed: bool) -> SoakSubmission:
        return self._make_submission(random, *(random.choice(self.flawed) if flawed else self._list_solutions()[0]))

    def sample_all(self, random: Random) -> list[SoakSubmission]:
        """Return a submission for each of the solutions."""
        return [self._make_submission(random, *solution) for solution in self._list_solutions()]

    def _list_solutions(self) -> list[tuple[Verdict, str]]:
        return [(Verdict.ACCEPTED, self.right), *self.flawed]

    def _make_submission(self, random: Random, verdict: Verdict, source: str) -> SoakSubmission:
        traps = [random.random() < _TRAPS for _ in range(random.choice(_SIZES))]
        cases = [self.make(random, trap) for trap in traps]
        due = tuple(frozenset({verdict if trap else Verdict.ACCEPTED}) for trap in traps)
        if verdict is Verdict.COMPILE_ERROR:
            due = (frozenset({verdict}),)
        if self.language == "python":  # most programs are new; compiling one of another language takes a second
            source = f"# {random.getrandbits(64):x}\n{source}"
        suite = Suite(cases, self.entry_point, self.checker, self.limits, self.referee, self.assertions)
        return SoakSubmission(f"{self.name}, {verdict.value}", Program(source, self.language), suite, due)
