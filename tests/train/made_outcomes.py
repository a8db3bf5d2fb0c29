"""Outcomes for tests, written as in a result file: a right sample is 1, a wrong one 0, one without a verdict x."""

import random
from datetime import date

from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes

_BITS = {"1": True, "0": False, "x": None}


def outcome(
    id: str, bits: str, *, day: str = "", difficulty: str | int | None = None, tests: str = ""
) -> ProblemOutcomes:
    facts = ProblemMetadata(difficulty, None, date.fromisoformat(day) if day else None)
    return ProblemOutcomes(id, facts, tuple(_BITS[bit] for bit in bits), (10,) * len(bits), (False,) * len(bits), tests)


def outcomes(*bits: str) -> list[ProblemOutcomes]:
    """Return the outcomes of problems named p0, p1 and so on."""
    return [outcome(f"p{number}", text) for number, text in enumerate(bits)]


def drawn(rates: list[float], n: int, rng: random.Random) -> list[ProblemOutcomes]:
    """Return n samples of problems that are solved at these rates."""
    return outcomes(*("".join("1" if rng.random() < rate else "0" for _ in range(n)) for rate in rates))
