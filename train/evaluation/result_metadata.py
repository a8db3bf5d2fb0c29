"""What a result keeps of an exercise beside its samples: the facts for its strata, and a digest of its tests."""

import hashlib
import json
from dataclasses import replace

from train.evaluation.exercise import Exercise
from train.evaluation.extraction.registry import DEFAULT
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.suite_judge import SuiteJudge
from train.evaluation.statistics.outcomes import ProblemMetadata


def result_metadata(exercise: Exercise) -> ProblemMetadata:
    """Return the difficulty, the platform and the day of a problem, where they are known."""
    return exercise.metadata


def tests_fingerprint(exercise: Exercise) -> str:
    """Return a digest of the tests that judge answers. It depends neither on the prompt nor on the extraction."""
    judge = exercise.judge
    if isinstance(judge, SuiteJudge | CallJudge):
        judge = replace(judge, extraction=DEFAULT)
    return hashlib.sha256(json.dumps(judge.identity).encode()).hexdigest()[:32]


def parsing_settings(exercise: Exercise) -> list[str]:
    """Return what decides how an answer is read: the rule of extraction, and the text around the answer."""
    judge = exercise.judge
    extraction = judge.extraction if isinstance(judge, SuiteJudge | CallJudge) else ""
    return [extraction, exercise.answer_prefix, exercise.answer_suffix]
