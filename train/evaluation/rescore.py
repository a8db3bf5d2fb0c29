"""Rejudging of a result's stored completions, with other tests or another extraction rule.

A result file has neither exercises nor completions. Exercises are read from the location in the file, and completions
from the samples file in the same folder.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.progress import Progress, ignore_progress
from curate.prompt import read_prompt
from curate.trust import SUSPECTS, UNVERIFIED, TrustPolicy
from sandbox import Sandbox
from train.evaluation.codeforces.rating import rate_evaluation
from train.evaluation.evaluate import CachedExercise, build_sample_key, compute_verdict_digest, evaluate_cached
from train.evaluation.exercises import format_ids, parse_suite, read_exercises
from train.evaluation.protocols.settings import restore_settings
from train.evaluation.result_metadata import collect_suite_metadata
from train.evaluation.results.result import Result
from train.evaluation.sample_store import SampleStore, iterate_samples
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes
from train.evaluation.suites.suite import Exercise
from train.evaluation.truncation import Truncation

NO_VERDICT = "no verdict"
_REEVALUATE_HINT = "Run the same `curate evaluate` again, which reuses its samples."


@dataclass(frozen=True, slots=True)
class LoadedResult:
    """A result with its exercises.

    result     the result, with the suite and extraction rule that replace its own, if any
    exercises  all exercises of the suite by id, evaluated or not
    """

    result: Result
    exercises: Mapping[str, Exercise]

    @property
    def missing_ids(self) -> list[str]:
        return [problem.id for problem in self.result.outcomes if problem.id not in self.exercises]

    @property
    def samples_path(self) -> Path:
        """Return the path of the samples file. Raises CurateError if there is none."""
        path = build_samples_path(self.result.path)
        if not path.is_file():
            raise CurateError(f"{self.result.path} has no stored completions: {path} is missing. {_REEVALUATE_HINT}")
        return path


def build_samples_path(result: Path) -> Path:
    return result.with_name(result.name + ".samples.jsonl")


def list_sample_keys(problem: ProblemOutcomes) -> list[str]:
    return [build_sample_key(problem.samples_digest, number) for number in range(len(problem.correct))]


def load_result(result: Result, suite: str | None = None, extraction: str | None = None) -> LoadedResult:
    """Read the exercises of a result from the location in its file.

    suite       NAME=PATH of other rows with the same problems; None: the rows of the result
    extraction  extraction rule; None: the rule of the result

    Raises CurateError if the file does not identify its samples, or the rows are missing. Only the rows of `suite` may
    lack problems of the result.
    """
    if "given" not in result.suite_metadata or not all(problem.samples_digest for problem in result.outcomes):
        raise CurateError(f"{result.path} does not identify its completions. {_REEVALUATE_HINT}")
    if suite is not None:
        name, location = parse_suite(suite)
        result = replace(result, suite_metadata={**result.suite_metadata, "given": name, "location": location})
    if extraction is not None:
        table = result.protocol.get("table", {"name": None})
        overrides = {**result.protocol.get("overrides", {}), "extraction": extraction}
        result = replace(result, protocol={"table": table, "overrides": overrides})
    found = read_exercises(
        result.location,
        result.window,
        suite=result.suite_option,
        # Untrusted rows too, because the result already selects its problems.
        trust=TrustPolicy.from_choices((UNVERIFIED, SUSPECTS)),
        prompt=read_prompt(result.prompt),
        languages=result.languages,
        settings=restore_settings(result.protocol, result.suite_option),
    )
    loaded = LoadedResult(result, {exercise.id: exercise for exercise in found})
    if loaded.missing_ids and suite is None:
        raise CurateError(
            f"{result.location} does not have {format_ids(loaded.missing_ids)}. Restore the rows that were evaluated."
        )
    return loaded


@dataclass(frozen=True, slots=True)
class RescoreResult:
    """The outcome of a rescore.

    verdict_changes: (old verdict, new verdict, number of samples), the most frequent first
    """

    result: Result
    verdict_changes: tuple[tuple[str, str, int], ...]


def rescore(
    loaded_result: LoadedResult,
    sandbox: Sandbox,
    samples: Path,
    *,
    dependencies: Sequence[Any] = (),
    truncation: Truncation | None = None,
    progress: Progress = ignore_progress,
) -> RescoreResult:
    """Rejudge the completions of a result, and store them with the new verdicts in `samples`.

    samples       path of the samples file to write, from which an interrupted call resumes. It may be the result's
                  own file, unless rows lack problems or completions are truncated
    dependencies  further inputs of verdicts, such as packages, as JSON values
    truncation    truncation of completions before they are judged; None: no truncation

    Raises CurateError if judged completions are missing, the rows have none of the problems, or the sandbox fails
    repeatedly.
    """
    result, exercises = loaded_result.result, loaded_result.exercises
    known = [problem for problem in result.outcomes if problem.id in exercises]
    if not known:
        raise CurateError(f"{result.location} has none of the problems of {result.path}.")
    missing_ids, stored = loaded_result.missing_ids, loaded_result.samples_path
    if missing_ids and samples.resolve() == stored.resolve():
        raise CurateError(
            f"{result.location} does not have {format_ids(missing_ids)}, which {result.path} would lose. Choose "
            "another --out."
        )
    if truncation is not None and samples.resolve() == stored.resolve():
        raise CurateError(f"{result.path} would lose the ends of its completions. Choose another --out.")
    new_keys: dict[str, str] = {}  # key of each sample after truncation, by its key in the result
    judge_digests: dict[str, str] = {}  # judge digest by new key
    missing_keys: set[str] = set()  # keys of judged samples without a stored completion
    cached = []
    for problem in known:
        exercise = exercises[problem.id]
        exercise = replace(exercise, metadata=_fill_metadata(problem.metadata, exercise.metadata))
        digest = problem.samples_digest
        if truncation is not None:
            digest = truncation.compute_samples_digest(digest)
        cached.append(CachedExercise.create(exercise, len(problem.correct), digest, dependencies))
        new_keys |= zip(list_sample_keys(problem), cached[-1].sample_keys, strict=True)
        judge_digests |= dict.fromkeys(cached[-1].sample_keys, cached[-1].judge_digest)
        missing_keys |= {
            key for key, bit in zip(cached[-1].sample_keys, problem.correct, strict=True) if bit is not None
        }
    old_verdicts = dict.fromkeys(judge_digests, NO_VERDICT)
    new_verdicts = dict.fromkeys(judge_digests, NO_VERDICT)
    with SampleStore(samples) as store:
        n_judged = len(missing_keys)
        for old_key, record in iterate_samples(stored, new_keys):
            key = new_keys[old_key]
            old_verdicts[key] = record.verdict or NO_VERDICT
            missing_keys.discard(key)
            if store.get(key) is None:
                store.add(key, record if truncation is None else truncation.truncate(record))
        if missing_keys:
            raise CurateError(
                f"{stored} lacks {len(missing_keys)} of the {n_judged} completions of {result.path}. {_REEVALUATE_HINT}"
            )
        evaluation = evaluate_cached(cached, sandbox, samples=store, progress=progress)
        for key, judge_digest in judge_digests.items():
            judged = store.get(key)
            if (
                judged is not None
                and judged.verdict
                and judged.judge_digest == compute_verdict_digest(judge_digest, judged.verdict)
            ):
                new_verdicts[key] = judged.verdict
    changes = Counter((old_verdicts[key], new_verdicts[key]) for key in judge_digests)
    ids = {problem.id for problem in known}
    rows = [exercise for exercise in exercises.values() if exercise.id in ids]  # in the order of the suite's rows
    return RescoreResult(
        replace(
            result,
            sampling=result.sampling if truncation is None else {**result.sampling, **truncation.as_table()},
            suite_metadata=collect_suite_metadata(
                result.suite_option, result.location, result.window, rows, evaluation.outcomes
            ),
            outcomes=evaluation.outcomes,
            tokens=evaluation.tokens,
            ratings=rate_evaluation(evaluation.outcomes, seed=result.seed),
        ),
        tuple((was, is_, n) for (was, is_), n in sorted(changes.items(), key=lambda item: (-item[1], item[0]))),
    )


def _fill_metadata(result_metadata: ProblemMetadata, row_metadata: ProblemMetadata) -> ProblemMetadata:
    """Return a row's metadata, with unknown values from the result, such as those of Codeforces contests."""
    return replace(
        row_metadata,
        difficulty=result_metadata.difficulty if row_metadata.difficulty is None else row_metadata.difficulty,
        platform=row_metadata.platform or result_metadata.platform,
        date=row_metadata.date or result_metadata.date,
    )
