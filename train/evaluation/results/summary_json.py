"""Summaries as JSON, and the strata that are known."""

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.strata import STRATUM_KEYS, strata
from train.evaluation.statistics.summary import Summary

_KEYS = {"always_solved": "always"}


def summary_as_json(summary: Summary) -> dict[str, Any]:
    """Return the numbers as JSON values, in which an unknown number is null."""
    numbers = asdict(summary) | {"pass_at": {str(j): value for j, value in summary.pass_at.items()}}
    return {
        _KEYS.get(name, name): None if isinstance(value, float) and not isfinite(value) else value
        for name, value in numbers.items()
    }


def summarize_by_stratum(outcomes: Sequence[ProblemOutcomes]) -> dict[str, dict[str, Summary]]:
    """Return the summaries by difficulty, platform and month, each only if the fact is known of some problem."""
    return {
        name: strata(outcomes, fact)
        for name, fact in STRATUM_KEYS.items()
        if any(fact(problem.metadata) is not None for problem in outcomes)
    }
