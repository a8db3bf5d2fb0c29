"""What a result keeps of an exercise beside its samples: the facts for its strata, and a digest of its tests.

MERGED Digests of what a sample depends on, and of what its verdict depends on.

A sample depends on the prompt, the model, its settings and the seed, but not on its judge. So a sample is kept if tests
or extraction change, and only its verdict is found anew.

MERGED How often a model solves the problems of a set: pass@1 over k samples of each, its confidence interval, and pass@k.

    kept samples: verdict known -> counted; no verdict, or that of another judge -> judged (again)
    missing samples -> drawn, kept, judged

A sample without a verdict, because a checker failed or the model refused the prompt, is left out and counted: nothing
is known about it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import nan
from statistics import fmean
from typing import Any

from curate.difficulty.pass_at_k import pass_at_k
from curate.progress import Progress, no_progress
from rewards.reward import NO_ANSWER, NO_CODE
from sandbox import Sandbox, Verdict
from train.evaluation.exercise import Exercise
from train.evaluation.extraction import DEFAULT
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.results.tables import TokenCounts, sum_tokens
from train.evaluation.sample_and_judge import (
    JudgedOutput,
    ModelOutput,
    OnAnswer,
    SampleFunction,
    SampleRequest,
    judge_outputs,
    sample_and_judge,
    sample_seed,
)
from train.evaluation.sample_store import SampleRecord, SampleStore
from train.evaluation.statistics.intervals import solve_rate_interval
from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes, pass_counts


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


_STAGE = "evaluate"  # the name under which progress is reported


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The result of an evaluation.

    pass_at_1            mean over problems of the share of right samples; nan: no sample has a verdict
    low, high            bounds of its 95% confidence interval
    pass_at_k            None where no problem has k samples with a verdict
    n_truncated          samples that were cut off; each is judged by the program in it, if it has one
    n_truncated_correct  the right ones among them
    n_no_code            samples that ended by themselves without a program, or without a final answer
    n_unscored           samples without a verdict
    outcomes             for each problem, what is known of its samples
    verdicts             how often each verdict was given
    tokens               the tokens of all samples with a verdict
    """

    n_problems: int
    k: int
    pass_at_1: float
    low: float
    high: float
    pass_at_k: float | None
    n_samples: int
    n_truncated: int
    n_truncated_correct: int
    n_no_code: int
    n_unscored: int
    mean_tokens: float
    outcomes: tuple[ProblemOutcomes, ...] = field(repr=False)
    verdicts: Mapping[str, int] = field(repr=False)
    tokens: TokenCounts = TokenCounts(None, None)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under the names that train/run/step_metrics.py explains."""
        return {
            "eval/pass@1": self.pass_at_1,
            "eval/pass@1_low": self.low,
            "eval/pass@1_high": self.high,
            **({f"eval/pass@{self.k}": self.pass_at_k} if self.k > 1 and self.pass_at_k is not None else {}),
            "eval/clipped_ratio": self._share(self.n_truncated),
            "eval/clipped_correct_ratio": self._share(self.n_truncated_correct),
            "eval/no_code": self._share(self.n_no_code),
            "eval/no_signal": self.n_unscored,
            "eval/mean_length": self.mean_tokens,
        }

    def _share(self, n: int) -> float:
        return n / self.n_samples if self.n_samples else nan


@dataclass(frozen=True, slots=True)
class CachedExercise:
    """An exercise, and the digests under which its samples are kept.

    samples_digest  names all that its answers depend on, see fingerprints.py
    tests_digest    names its tests
    judge_digest    names all that the verdicts depend on
    """

    exercise: Exercise
    samples_digest: str
    tests_digest: str
    judge_digest: str

    @classmethod
    def of(cls, exercise: Exercise, samples: str, judged_with: Sequence[Any]) -> "CachedExercise":
        tests = tests_fingerprint(exercise)
        return cls(exercise, samples, tests, verdict_fingerprint(tests, parsing_settings(exercise), judged_with))


@dataclass(frozen=True, slots=True)
class _Counted:
    """What is counted of a sample. It leaves out the text, which would only fill the memory."""

    verdict: str
    truncated: bool
    n_tokens: int
    n_prompt_tokens: int

    @classmethod
    def of(cls, record: SampleRecord) -> "_Counted":
        return cls(record.verdict, record.truncated, record.n_tokens, record.n_prompt_tokens)

    @property
    def correct(self) -> bool:
        return self.verdict == Verdict.ACCEPTED.value


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
    questions = [
        CachedExercise.of(exercise, sample_fingerprint(exercise, settings, seed), judged_with) for exercise in exercises
    ]
    if samples is not None:
        for one in questions:
            _adopt_earlier(one, legacy_fingerprint(one.exercise, settings, judged_with, seed), samples, k)
    return evaluate_cached(questions, sandbox, k=k, samples=samples, sample=sample, seed=seed, progress=progress)


def _adopt_earlier(question: CachedExercise, earlier: str, samples: SampleStore, k: int) -> None:
    """Give the samples that an earlier version kept the keys that they have now."""
    for number in range(k):
        key = sample_key(question.samples_digest, number)
        record = samples.get(sample_key(earlier, number))
        if record is not None and samples.get(key) is None:
            samples.add(key, replace(record, judge_digest=question.judge_digest))


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
    places = {sample_key(one.samples_digest, number): (one, number) for one in exercises for number in range(k)}
    wanted = {
        key: SampleRequest(key, sample_seed(seed, number, one.exercise.id), one.exercise)
        for key, (one, number) in places.items()
    }
    known: dict[str, _Counted] = {}
    unjudged, missing = [], []
    for key, (one, _) in places.items():
        record = None if samples is None else samples.get(key)
        if record is None:
            missing.append(wanted[key])
        elif record.verdict and record.judge_digest == one.judge_digest:
            known[key] = _Counted.of(record)
        else:
            unjudged.append(wanted[key])

    def record_of(sampled: SampleRequest, answer: ModelOutput) -> SampleRecord:
        one, number = places[sampled.key]
        return SampleRecord.of(one.exercise.id, number, answer)

    def keep(sampled: SampleRequest, answer: ModelOutput) -> None:
        if samples is not None:
            samples.add(sampled.key, record_of(sampled, answer))

    progress(_STAGE, len(known), len(places))
    with closing(_rulings(_kept(unjudged, samples), missing, sample, sandbox, keep)) as rulings:
        for sampled, answer, result in rulings:
            record = record_of(sampled, answer).with_verdict(result, places[sampled.key][0].judge_digest)
            known[sampled.key] = _Counted.of(record)
            if samples is not None:
                samples.add(sampled.key, record)
            progress(_STAGE, len(known), len(places))
    return _summary(
        [(one, [known.get(sample_key(one.samples_digest, number)) for number in range(k)]) for one in exercises], k
    )


def _kept(wanted: Sequence[SampleRequest], samples: SampleStore | None) -> Iterator[tuple[SampleRequest, ModelOutput]]:
    """Yield the answers to these samples that are kept. Only those that are being judged are in memory."""
    for one in wanted:
        record = None if samples is None else samples.get(one.key)
        if record is not None:
            yield one, record.model_output


def _rulings(
    kept: Iterator[tuple[SampleRequest, ModelOutput]],
    missing: Sequence[SampleRequest],
    sample: SampleFunction | None,
    sandbox: Sandbox,
    keep: OnAnswer,
) -> Generator[JudgedOutput, None, None]:
    """Judge the answers that are kept, then draw and judge those that are missing."""
    yield from judge_outputs(kept, sandbox)
    if sample is not None and missing:
        yield from sample_and_judge(missing, sample, sandbox, on_answer=keep)


def _summary(problems: Sequence[tuple[CachedExercise, Sequence[_Counted | None]]], k: int) -> EvaluationResult:
    """Return the result. Each exercise comes with its k samples; a sample without a verdict is None."""
    outcomes = tuple(_outcomes(question, samples) for question, samples in problems)
    known = pass_counts(outcomes)
    low, high = solve_rate_interval(known)
    estimates = [pass_at_k(n, n_correct, k) for n, n_correct in known]
    known_estimates = [estimate for estimate in estimates if estimate is not None]
    scored = [sample for _, samples in problems for sample in samples if sample is not None]
    truncated = [sample for sample in scored if sample.truncated]
    return EvaluationResult(
        n_problems=len(known),
        k=k,
        pass_at_1=fmean(n_correct / n for n, n_correct in known) if known else nan,
        low=low,
        high=high,
        pass_at_k=fmean(known_estimates) if known_estimates else None,
        n_samples=len(scored),
        n_truncated=len(truncated),
        n_truncated_correct=sum(sample.correct for sample in truncated),
        n_no_code=sum(sample.verdict in (NO_CODE, NO_ANSWER) for sample in scored),
        n_unscored=sum(len(samples) for _, samples in problems) - len(scored),
        mean_tokens=fmean(sample.n_tokens for sample in scored) if scored else nan,
        outcomes=outcomes,
        verdicts=_verdicts(scored),
        tokens=sum_tokens((sample.n_prompt_tokens, sample.n_tokens) for sample in scored),
    )


def _outcomes(question: CachedExercise, samples: Sequence[_Counted | None]) -> ProblemOutcomes:
    return ProblemOutcomes(
        question.exercise.id,
        result_metadata(question.exercise),
        tuple(None if sample is None else sample.correct for sample in samples),
        tuple(0 if sample is None else sample.n_tokens for sample in samples),
        tuple(sample is not None and sample.truncated for sample in samples),
        question.tests_digest,
        question.samples_digest,
        _verdicts([sample for sample in samples if sample is not None]),
    )


def _verdicts(samples: Sequence[_Counted]) -> dict[str, int]:
    return dict(sorted(Counter(sample.verdict for sample in samples).items()))
