"""How often a model solves the problems of a set: k samples of each problem, drawn, judged and counted.

    kept samples: verdict known -> counted; no verdict, or that of another judge -> judged (again)
    missing samples -> drawn, kept, judged

Two digests decide what is kept. A sample depends on the prompt, the model, its settings and the seed, but not on its
judge. So if tests or extraction change, the sample is kept, and only its verdict is found again.

A sample without a verdict, because a checker failed or the model refused the prompt, is left out and counted: nothing
is known about it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from statistics import fmean
from typing import Any

from curate.difficulty.pass_at_k import pass_at_k
from curate.progress import Progress, no_progress
from sandbox import Sandbox, Verdict
from train.evaluation.exercise import Exercise
from train.evaluation.extraction import DEFAULT
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.results.result import TokenCounts, count_without_program, sum_tokens
from train.evaluation.sample_and_judge import (
    Sample,
    SampleFunction,
    SampleRequest,
    judge_samples,
    sample_and_judge,
    sample_seed,
)
from train.evaluation.sample_store import SampleRecord, SampleStore
from train.evaluation.statistics.outcomes import ProblemOutcomes, Summary, pass_counts, summarize

_STAGE = "evaluate"  # the name under which progress is reported


@dataclass(frozen=True)
class EvaluationResult:
    """The outcomes of an evaluation with k samples of each problem.

    tokens  those of all samples with a verdict
    """

    k: int
    outcomes: tuple[ProblemOutcomes, ...] = field(repr=False)
    tokens: TokenCounts

    @cached_property
    def summary(self) -> Summary:
        """Return the numbers of all problems."""
        return summarize(self.outcomes)

    @property
    def pass_at_k(self) -> float | None:
        """Return the mean of pass@k over the problems that have k samples with a verdict; None if there are none."""
        estimates = [pass_at_k(n, n_correct, self.k) for n, n_correct in pass_counts(self.outcomes) if n >= self.k]
        return fmean(estimate or 0.0 for estimate in estimates) if estimates else None

    @property
    def n_no_code(self) -> int:
        """Return the number of samples that ended by themselves without a program, or without a final answer."""
        return count_without_program(self.summary.verdicts)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under the names that train/run/step_metrics.py explains."""
        found, estimate = self.summary, self.pass_at_k
        return {
            "eval/pass@1": found.pass_at_1,
            "eval/pass@1_low": found.low,
            "eval/pass@1_high": found.high,
            **({f"eval/pass@{self.k}": estimate} if self.k > 1 and estimate is not None else {}),
            "eval/clipped_ratio": found.truncated_share,
            "eval/clipped_correct_ratio": found.n_truncated_correct / found.n_samples if found.n_samples else nan,
            "eval/no_code": self.n_no_code / found.n_samples if found.n_samples else nan,
            "eval/no_signal": found.n_no_verdict,
            "eval/mean_length": found.mean_tokens,
        }


@dataclass(frozen=True, slots=True)
class CachedExercise:
    """An exercise, and the digests under which its samples are kept.

    samples_digest  of all that its answers depend on
    tests_digest    of its tests
    judge_digest    of all that the verdicts depend on
    """

    exercise: Exercise
    samples_digest: str
    tests_digest: str
    judge_digest: str

    @classmethod
    def of(cls, exercise: Exercise, samples_digest: str, judged_with: Sequence[Any]) -> "CachedExercise":
        """Return the exercise with the digests of its judge. The one of its tests does not depend on the extraction."""
        judge, extraction = exercise.judge, ""
        if isinstance(judge, SuiteJudge | CallJudge):
            extraction = judge.extraction
            judge = replace(judge, extraction=DEFAULT)
        tests = _digest(judge.identity)
        reading = [extraction, exercise.answer_prefix, exercise.answer_suffix]
        return cls(exercise, samples_digest, tests, _digest([tests, reading, list(judged_with)]))


def sample_fingerprint(exercise: Exercise, settings: Sequence[Any], seed: int) -> str:
    """Return a digest of all that the answers to an exercise depend on, except their numbers.

    settings   the model and how it is sampled; JSON values
    """
    return _digest([exercise.id, exercise.prompt, list(settings), seed])


def sample_key(samples_digest: str, number: int) -> str:
    """Return the key of one sample."""
    return f"{samples_digest}/{number}"


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def evaluate(
    exercises: Sequence[Exercise],
    sample: SampleFunction,
    sandbox: Sandbox,
    *,
    k: int,
    seed: int = 0,
    samples: SampleStore | None = None,
    settings: Sequence[Any] = (),
    judged_with: Sequence[Any] = (),
    progress: Progress = no_progress,
) -> EvaluationResult:
    """Sample each exercise k times, judge the answers, and count.

    samples      keeps the samples with their verdicts. Samples that are in it already are not drawn again, and those
                 that another judge has judged are judged again
    settings     what samples depend on besides exercise and seed, such as the model and its temperature; JSON values
    judged_with  what verdicts depend on besides the exercise, such as packages; JSON values

    Raises CurateError if the sandbox fails again and again, and SamplerError if no samples can be drawn.
    """
    cached = [CachedExercise.of(one, sample_fingerprint(one, settings, seed), judged_with) for one in exercises]
    return evaluate_cached(cached, sandbox, k=k, samples=samples, sample=sample, seed=seed, progress=progress)


def evaluate_cached(
    exercises: Sequence[CachedExercise],
    sandbox: Sandbox,
    *,
    k: int,
    samples: SampleStore | None = None,
    sample: SampleFunction | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> EvaluationResult:
    """Do what `evaluate` does, for exercises whose digests are known.

    sample   None: no samples are drawn, and those that are missing have no verdict
    """
    get, add = (samples.get, samples.add) if samples is not None else (lambda key: None, lambda key, record: None)
    scored: dict[str, SampleRecord] = {}  # without texts, which would only fill the memory
    unjudged: list[SampleRequest] = []
    missing: list[SampleRequest] = []
    judges: dict[str, str] = {}  # by the key of a sample
    for one in exercises:
        for number in range(k):
            key = sample_key(one.samples_digest, number)
            if key in judges:
                continue  # the same problem twice
            judges[key] = one.judge_digest
            request = SampleRequest(key, number, sample_seed(seed, number, one.exercise.id), one.exercise)
            record = get(key)
            if record is None:
                missing.append(request)
            elif record.verdict and record.judge_digest == one.judge_digest:
                scored[key] = replace(record, text="", reasoning="")
            else:
                unjudged.append(request)

    def keep(request: SampleRequest, answer: SampleRecord) -> None:
        add(request.key, answer)

    def verdicts() -> Generator[Sample, None, None]:
        kept = ((request, record) for request in unjudged if (record := get(request.key)) is not None)
        yield from judge_samples(kept, sandbox)
        if sample is not None and missing:
            yield from sample_and_judge(missing, sample, sandbox, on_answer=keep)

    progress(_STAGE, len(scored), len(judges))
    with closing(verdicts()) as judged:
        for request, answer in judged:
            record = replace(answer, judge_digest=judges[request.key])
            add(request.key, record)
            scored[request.key] = replace(record, text="", reasoning="")
            progress(_STAGE, len(scored), len(judges))
    outcomes = tuple(
        _outcomes(one, [scored.get(sample_key(one.samples_digest, number)) for number in range(k)]) for one in exercises
    )
    return EvaluationResult(k, outcomes, sum_tokens((one.n_prompt_tokens, one.n_tokens) for one in scored.values()))


def _outcomes(question: CachedExercise, samples: Sequence[SampleRecord | None]) -> ProblemOutcomes:
    return ProblemOutcomes(
        question.exercise.id,
        question.exercise.metadata,
        tuple(None if sample is None else sample.verdict == Verdict.ACCEPTED.value for sample in samples),
        tuple(0 if sample is None else sample.n_tokens for sample in samples),
        tuple(sample is not None and sample.truncated for sample in samples),
        question.tests_digest,
        question.samples_digest,
        dict(sorted(Counter(sample.verdict for sample in samples if sample is not None).items())),
    )
