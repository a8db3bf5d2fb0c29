"""The results of trying mutants on the tests of one problem, and of all problems of a dataset."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from curate.json_records import json_key
from sandbox import Case


@dataclass(frozen=True, slots=True)
class StrengthRecord:
    """What the mutants of a reference showed about its tests.

    n_mutants          number of mutants that were tried
    n_killed           number of mutants that the tests rejected
    n_equivalent       number of mutants that never differed from the reference
    survivors          numbers of wrong programs that no test rejects, by kind of mistake
    missed_inputs      inputs on which some of these differ from the reference, with its answers; the statement may not
                       allow these inputs
    strongest          places of cases; each case kills the most of the mutants that the cases before it do not kill
    spent_cpu_seconds  CPU time of everything that was executed
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
        """Share of killed mutants among those that are not equivalent; None (unknown) if there are none."""
        wrong = self.n_mutants - self.n_equivalent
        return self.n_killed / wrong if wrong else None


def summary(strengths: Collection[StrengthRecord]) -> dict[str, Any]:
    """Sum up the measurements of all problems, for the manifest."""
    survivors: Counter[str] = Counter()
    for strength in strengths:
        survivors.update(dict(strength.survivors))
    return {
        "measured": sum(strength.share is not None for strength in strengths),
        "not_measured": sum(strength.share is None for strength in strengths),
        "mutants": sum(strength.n_mutants for strength in strengths),
        "killed": sum(strength.n_killed for strength in strengths),
        "equivalent": sum(strength.n_equivalent for strength in strengths),
        "survivors": dict(sorted(survivors.items())),
    }
