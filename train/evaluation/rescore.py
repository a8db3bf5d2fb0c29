"""A result with what its file leaves out: the exercises, read again as they were, and the answers beside it.

MERGED Judge the kept answers of a result again, with other tests or another rule of extraction. Nothing is sampled.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.progress import Progress, no_progress
from curate.prompt import read_prompt
from curate.trust import SUSPECTS, UNVERIFIED, TrustPolicy
from sandbox import Sandbox
from train.evaluation.evaluate import CachedExercise, EvaluationResult, evaluate_cached, sample_key
from train.evaluation.exercise import Exercise
from train.evaluation.exercises import read_exercises
from train.evaluation.protocols.settings import restore_settings
from train.evaluation.results.result import Result, SampleProvenance
from train.evaluation.sample_store import SampleRecord, SampleStore, iterate_samples
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes
from train.evaluation.suites.registry import parse_suite

_AGAIN = "Run its `curate evaluate` again, which samples nothing twice."


@dataclass(frozen=True, slots=True)
class LoadedResult:
    """A result whose answers can be judged again and exported.

    provenance  how its samples came about, with what the caller wants instead
    exercises   all exercises of its suite by id, whether they were evaluated or not
    """

    result: Result
    provenance: SampleProvenance
    exercises: Mapping[str, Exercise]

    @property
    def samples_path(self) -> Path:
        """Return the path of the file with the answers. Raises CurateError if there is none."""
        path = samples_path(self.result.path)
        if not path.is_file():
            raise CurateError(f"{self.result.path} has no answers beside it: {path} is missing. {_AGAIN}")
        return path


def samples_path(result: Path) -> Path:
    """Return the path of the file with the samples of a result."""
    return result.with_name(result.name + ".samples.jsonl")


def sample_keys(problem: ProblemOutcomes) -> list[str]:
    """Return the keys under which the samples of a problem are kept."""
    return [sample_key(problem.samples_digest, number) for number in range(len(problem.correct))]


def load_result(result: Result, suite: str | None = None, extraction: str | None = None) -> LoadedResult:
    """Read the exercises of a result again, from the place that its file names.

    suite       NAME=PATH of other rows with the same problems; None: those of the result
    extraction  another rule by which the program is found in an answer; None: that of the result

    Raises CurateError if the file does not say how its samples came about, or if the rows are not there any more.
    """
    origin = result.provenance
    if origin is None or not all(problem.samples_digest for problem in result.outcomes):
        raise CurateError(f"{result.path} does not say which answers are its own. {_AGAIN}")
    if suite is not None:
        name, location = parse_suite(suite)
        origin = replace(origin, suite=name, location=location)
    if extraction is not None:
        origin = replace(origin, protocol=_with_extraction(origin, extraction))
    found = read_exercises(
        origin.location,
        origin.window,
        suite=origin.suite,
        trust=TrustPolicy.from_choices(
            (UNVERIFIED, SUSPECTS)
        ),  # which rows count is decided by the problems of the result
        prompt=read_prompt(origin.prompt),
        languages=origin.languages,
        settings=restore_settings(origin.protocol, origin.suite),
    )
    return LoadedResult(result, origin, {exercise.id: exercise for exercise in found})


def _with_extraction(origin: SampleProvenance, extraction: str) -> dict[str, Any]:
    """Return the protocol of a result with another rule of extraction in place of its own."""
    table = origin.protocol.get("table", {"name": None})
    return {"table": table, "overrides": {**origin.protocol.get("overrides", {}), "extraction": extraction}}


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
