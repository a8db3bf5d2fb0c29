"""What a result keeps of an exercise beside its samples: the facts for its strata, and a digest of its tests."""

import hashlib
import json

from train.evaluation.exercise import Exercise
from train.evaluation.statistics.outcomes import Facts


def facts_of(exercise: Exercise) -> Facts:
    """Return the difficulty, the platform and the day of a problem, where they are known."""
    return exercise.facts


def tests_of(exercise: Exercise) -> str:
    """Return a digest of the tests that judge answers. It does not depend on the prompt."""
    return hashlib.sha256(json.dumps(exercise.judge.identity).encode()).hexdigest()[:32]
