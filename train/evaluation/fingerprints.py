"""Digests of what a sample depends on, and of what its verdict depends on.

A sample depends on the prompt, the model, its settings and the seed, but not on its judge. So a sample is kept if tests
or extraction change, and only its verdict is found anew.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from train.evaluation.exercise import Exercise


def sample_fingerprint(exercise: Exercise, settings: Sequence[Any], seed: int) -> str:
    """Return a digest of all that the answers to an exercise depend on, except their numbers.

    settings   the model and how it is sampled; JSON values
    """
    return _digest([exercise.id, exercise.prompt, list(settings), seed])


def verdict_fingerprint(tests: str, parsing_settings: Sequence[str], dependencies: Sequence[Any]) -> str:
    """Return a digest of all that a verdict depends on, except the answer.

    tests             the digest of the tests, see result_metadata.py
    parsing_settings  what decides how the answer is read, see result_metadata.py
    dependencies      the packages that programs can import; JSON values
    """
    return _digest([tests, list(parsing_settings), list(dependencies)])


def legacy_fingerprint(exercise: Exercise, settings: Sequence[Any], judged_with: Sequence[Any], seed: int) -> str:
    """Return the digest that earlier versions used, which depends on the judge, too."""
    return _digest([exercise.fingerprint, [*settings, *judged_with], seed])


def sample_key(name: str, number: int) -> str:
    """Return the key of one sample."""
    return f"{name}/{number}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
