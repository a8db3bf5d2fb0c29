"""Judge the kept answers of a result again, with other tests or another rule of extraction. Nothing is sampled."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.progress import Progress, no_progress
from sandbox import Sandbox
from train.evaluation.evaluate import CachedExercise, EvaluationResult, evaluate_cached
from train.evaluation.exercise import Exercise
from train.evaluation.loaded_result import LoadedResult, sample_keys
from train.evaluation.sample_record import SampleRecord
from train.evaluation.sample_store import SampleStore, iterate_samples
from train.evaluation.statistics.outcomes import ProblemMetadata

NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True)
class RescoreResult:
    """The outcome of judging again.

    verdict_changes  the numbers of samples by their verdicts before and now, the most frequent changes first
    missing_ids      ids of problems that the rows do not have
    """

    evaluation: EvaluationResult
    verdict_changes: tuple[tuple[str, str, int], ...]
    missing_ids: tuple[str, ...]


def rescore(
    loaded_result: LoadedResult,
    sandbox: Sandbox,
    samples: Path,
    *,
    dependencies: Sequence[Any] = (),
    progress: Progress = no_progress,
) -> RescoreResult:
    """Judge the answers of a result again, and keep them with their verdicts in `samples`.

    samples       may be the file with the answers of the result itself. A call that was interrupted is continued there
    dependencies  what verdicts depend on besides the exercises, such as packages; JSON values

    Raises CurateError if the rows have none of the problems, or if the sandbox fails again and again.
    """
    known = [problem for problem in loaded_result.result.outcomes if problem.id in loaded_result.exercises]
    if not known:
        raise CurateError(
            f"{loaded_result.provenance.location} has none of the problems of {loaded_result.result.path}."
        )
    judges: dict[str, str] = {}  # by the key of a sample
    questions = []
    for problem in known:
        exercise = _with_known(problem.metadata, loaded_result.exercises[problem.id])
        questions.append(CachedExercise.of(exercise, problem.samples_digest, dependencies))
        judges |= dict.fromkeys(sample_keys(problem), questions[-1].judge_digest)
    before = dict.fromkeys(judges, NO_VERDICT)
    with SampleStore(samples) as kept:
        for key, record in iterate_samples(loaded_result.samples_path, judges):
            before[key] = record.verdict or NO_VERDICT
            if kept.get(key) is None:
                kept.add(key, record)
        evaluation = evaluate_cached(questions, sandbox, k=loaded_result.result.k, samples=kept, progress=progress)
        changes = Counter((before[key], _verdict(kept.get(key), judge)) for key, judge in judges.items())
    return RescoreResult(
        evaluation,
        tuple((was, now, n) for (was, now), n in sorted(changes.items(), key=lambda item: (-item[1], item[0]))),
        tuple(problem.id for problem in loaded_result.result.outcomes if problem.id not in loaded_result.exercises),
    )


def _verdict(record: SampleRecord | None, judge: str) -> str:
    """Return the verdict that this judge gave."""
    return record.verdict if record is not None and record.verdict and record.judge_digest == judge else NO_VERDICT


def _with_known(facts: ProblemMetadata, exercise: Exercise) -> Exercise:
    """Return the exercise with the facts that the result knows and the rows do not tell.

    The contests of Codeforces, for example, have told some of them when the result was made.
    """
    told = exercise.metadata
    return replace(
        exercise,
        metadata=replace(
            told,
            difficulty=facts.difficulty if told.difficulty is None else told.difficulty,
            platform=told.platform or facts.platform,
            date=told.date or facts.date,
        ),
    )
