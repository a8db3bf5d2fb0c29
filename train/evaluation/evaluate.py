"""The evaluation of a model on a suite: k samples of each problem, judged and counted.

    prompt -> completion, sampled with its own seed -> the program in the completion -> verdict

Judging overlaps sampling. A sample's cache key covers the prompt, the model, its settings and the seed, but not the
judge. If tests or extraction change, stored completions are therefore judged again, not sampled again.

A truncated completion is judged by its program, if any, as in LiveCodeBench, EvalPlus and training
(`rewards.code.CodeReward`). A sample without a verdict, because a checker failed or the model refused the prompt, is
excluded and counted.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from statistics import fmean
from typing import Any

from curate.difficulty.pass_at_k import pass_at_k
from curate.progress import Progress, ignore_progress
from rewards.reward import NO_ANSWER, NO_CODE, TRUNCATED
from sandbox import Sandbox, Verdict
from sandbox.concurrency.prefetch import prefetch
from train.errors import SamplerError
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.extraction import DEFAULT_RULE, get_rule_identity
from train.evaluation.judges.judge import JudgeResult, SuiteJudge
from train.evaluation.judges.time_limits import judge_all
from train.evaluation.results.result import TokenCounts, count_without_program, sum_tokens
from train.evaluation.sample_store import SampleRecord, SampleStore
from train.evaluation.statistics.outcomes import ProblemOutcomes, Summary, count_passes, summarize
from train.evaluation.suites.suite import Exercise
from train.sampling.protocol import SampledCompletion, SeededPrompt

log = logging.getLogger(__name__)

# `Sampler.sample` with bound sampling params: it yields (index of the prompt, completion or refusal).
SampleFunction = Callable[[Iterable[SeededPrompt]], Iterator[tuple[int, SampledCompletion | ValueError]]]

_STAGE = "evaluate"  # name of the progress stage
_MAX_REFUSALS = 16  # refused prompts after which sampling fails, if there is no completion yet
_MAX_WAITING = 256  # maximum number of completions that wait for the sandbox
_TIMEOUT_SECONDS = 7200.0  # maximum time without a completion


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request for one sample: its number among the exercise's samples, and its key in the store."""

    key: str
    number: int
    seed: int
    exercise: Exercise


Sample = tuple[SampleRequest, SampleRecord]


def derive_sample_seed(seed: int, number: int, exercise_id: str) -> int:
    """Return the seed of one sample, independent of the sampling order."""
    digest = hashlib.sha256(f"{seed} {number} {exercise_id}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def sample_and_judge(
    requests: Iterable[SampleRequest],
    sample: SampleFunction,
    sandbox: Sandbox,
    *,
    on_completion: Callable[[SampleRequest, SampleRecord], None],
) -> Generator[Sample, None, None]:
    """Sample the requests; yield each sample with its verdict, as verdicts arrive.

    requests       sample requests, read lazily as the sampler accepts them
    on_completion  callback for each completion before it is judged, called in another thread

    Omits refused prompts, and samples whose checker fails. Raises SamplerError if the model refuses every prompt or
    times out, and CurateError if the sandbox fails repeatedly.
    """

    def sample_prompts() -> Iterator[Sample]:
        open_requests: dict[int, SampleRequest] = {}  # requests in progress; others are dropped to free memory

        def iterate_prompts() -> Iterator[SeededPrompt]:
            for index, request in enumerate(requests):
                open_requests[index] = request
                yield request.exercise.prompt, request.seed

        n_refused = n_completed = 0
        last_refused = ""
        for index, completion in sample(iterate_prompts()):
            request = open_requests.pop(index)
            id = request.exercise.id
            if isinstance(completion, ValueError):
                n_refused += 1
                if id != last_refused:
                    log.warning("%s: the model refuses the prompt: %s", id, completion)
                last_refused = id
                if n_refused >= _MAX_REFUSALS and not n_completed:
                    raise SamplerError(f"the model refuses every prompt: {completion}")
                continue
            n_completed += 1
            record = SampleRecord(
                id,
                request.number,
                completion.text,
                completion.n_tokens,
                completion.finish_reason == "length",
                reasoning=completion.reasoning,
                n_prompt_tokens=completion.n_prompt_tokens,
            )
            on_completion(request, record)
            yield request, record

    with prefetch(sample_prompts(), _MAX_WAITING, timeout_seconds=_TIMEOUT_SECONDS) as samples:
        try:
            yield from judge_samples(samples, sandbox)
        except TimeoutError:
            raise SamplerError(f"timed out: the model has sent no completion for {_TIMEOUT_SECONDS:g} s") from None


def judge_samples(samples: Iterable[Sample], sandbox: Sandbox) -> Iterator[Sample]:
    """Yield each sample with its verdict, without those whose checker fails.

    Raises CurateError if the sandbox fails repeatedly.
    """

    def judge(item: Sample, time_factor: float) -> JudgeResult:
        request, record = item
        return request.exercise.judge_completion(record.text, sandbox, time_factor=time_factor)

    for (request, record), result in judge_all(samples, judge, sandbox):
        if isinstance(result, Exception):
            log.warning("%s: its tests cannot judge this completion: %s", request.exercise.id, result)
            continue
        if record.truncated and result.verdict in (NO_CODE, NO_ANSWER):
            result = JudgeResult(TRUNCATED)
        yield request, replace(record, verdict=result.verdict, parts=result.parts)


@dataclass(frozen=True)
class EvaluationResult:
    """The outcomes of an evaluation.

    k          maximum number of samples of a problem
    tokens     total of all samples with a verdict
    n_sampled  number of samples generated by this call; reused samples do not count
    """

    k: int
    outcomes: tuple[ProblemOutcomes, ...] = field(repr=False)
    tokens: TokenCounts
    n_sampled: int = field(default=0, compare=False)

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.outcomes)

    @property
    def pass_at_k(self) -> float | None:
        """Return the mean pass@k of problems with at least k judged samples; None if there are none."""
        estimates = [pass_at_k(n, n_correct, self.k) for n, n_correct in count_passes(self.outcomes) if n >= self.k]
        return fmean(estimate or 0.0 for estimate in estimates) if estimates else None

    @property
    def n_no_code(self) -> int:
        """Return the number of samples, except truncated ones, without a program or final answer."""
        return count_without_program(self.summary.verdicts)

    def compute_metrics(self) -> dict[str, float]:
        """Return the metrics under the names in train/run/step_metrics.py."""
        summary, estimate = self.summary, self.pass_at_k
        return {
            "eval/pass@1": summary.pass_at_1,
            "eval/pass@1_low": summary.low,
            "eval/pass@1_high": summary.high,
            **({f"eval/pass@{self.k}": estimate} if self.k > 1 and estimate is not None else {}),
            "eval/clipped_ratio": summary.truncated_share,
            "eval/clipped_correct_ratio": summary.n_truncated_correct / summary.n_samples if summary.n_samples else nan,
            "eval/no_code": self.n_no_code / summary.n_samples if summary.n_samples else nan,
            "eval/no_signal": summary.n_no_verdict,
            "eval/mean_length": summary.mean_tokens,
        }


@dataclass(frozen=True, slots=True)
class CachedExercise:
    """An exercise, its number of samples, and its cache keys.

    samples_digest  digest of all inputs of the completions
    judge_digest    digest of all inputs of the verdicts except the completions
    """

    exercise: Exercise
    k: int
    samples_digest: str
    tests_digest: str
    judge_digest: str

    @classmethod
    def create(cls, exercise: Exercise, k: int, samples_digest: str, verdict_inputs: Sequence[Any]) -> "CachedExercise":
        """Compute the digests of tests and judge. The digest of the tests excludes the extraction rule."""
        judge, extraction = exercise.judge, ""
        if isinstance(judge, SuiteJudge | CallJudge):
            extraction = get_rule_identity(judge.extraction)
            judge = replace(judge, extraction=DEFAULT_RULE)
        tests = _compute_digest(judge.identity)
        reading = [extraction, exercise.answer_prefix, exercise.answer_suffix]
        return cls(exercise, k, samples_digest, tests, _compute_digest([tests, reading, list(verdict_inputs)]))

    @property
    def sample_keys(self) -> list[str]:
        return [build_sample_key(self.samples_digest, number) for number in range(self.k)]


def compute_sample_fingerprint(exercise: Exercise, settings: Sequence[Any], seed: int) -> str:
    """Return the digest of an exercise's prompt, the sampling settings and the seed.

    settings: the model and its sampling settings, as JSON values
    """
    return _compute_digest([exercise.id, exercise.prompt, list(settings), seed])


def build_sample_key(samples_digest: str, number: int) -> str:
    return f"{samples_digest}/{number}"


def compute_verdict_digest(judge_digest: str, verdict: str) -> str:
    """Return the cache key of a verdict. The key of a time limit also covers the rule in judges/time_limits.py."""
    return _compute_digest([judge_digest, "alone"]) if verdict == Verdict.TIME_LIMIT.value else judge_digest


def _compute_digest(content: object) -> str:
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
    verdict_inputs: Sequence[Any] = (),
    progress: Progress = ignore_progress,
) -> EvaluationResult:
    """Sample each exercise k times, judge the completions, and return the outcomes.

    samples      store of samples and verdicts, from which samples and current verdicts are reused; None: no store
    settings     further inputs of samples, such as the model and its temperature, as JSON values
    verdict_inputs  further inputs of verdicts, such as packages, as JSON values

    Raises CurateError if the sandbox fails repeatedly, and SamplerError if sampling fails.
    """
    cached = [
        CachedExercise.create(one, k, compute_sample_fingerprint(one, settings, seed), verdict_inputs)
        for one in exercises
    ]
    return evaluate_cached(cached, sandbox, samples=samples, sample=sample, seed=seed, progress=progress)


def judge_completions(
    exercises: Sequence[Exercise],
    completions: Mapping[str, Sequence[str]],
    sandbox: Sandbox,
    samples: SampleStore,
    *,
    verdict_inputs: Sequence[Any] = (),
    progress: Progress = ignore_progress,
) -> EvaluationResult:
    """Judge existing completions, and return the outcomes.

    completions  texts by exercise id
    samples      store of completions and verdicts, from which current verdicts are reused

    Raises CurateError if the sandbox fails repeatedly.
    """
    cached = []
    for exercise in exercises:
        texts = list(completions[exercise.id])
        cached.append(
            CachedExercise.create(exercise, len(texts), _compute_digest([exercise.id, texts]), verdict_inputs)
        )
        for number, key in enumerate(cached[-1].sample_keys):
            if samples.get(key) is None:
                samples.add(key, SampleRecord(exercise.id, number, texts[number], 0, False))
    return evaluate_cached(cached, sandbox, samples=samples, progress=progress)


def evaluate_cached(
    exercises: Sequence[CachedExercise],
    sandbox: Sandbox,
    *,
    samples: SampleStore | None = None,
    sample: SampleFunction | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> EvaluationResult:
    """Evaluate exercises whose digests the caller has computed; see `evaluate`.

    sample: function that samples; None: missing samples have no verdict
    """
    get, add = (samples.get, samples.add) if samples is not None else (lambda key: None, lambda key, record: None)
    scored: dict[str, SampleRecord] = {}  # judged samples by key, without texts to save memory
    unjudged: list[SampleRequest] = []
    missing: list[SampleRequest] = []
    judge_digests: dict[str, str] = {}  # judge digest by sample key
    for one in exercises:
        for number, key in enumerate(one.sample_keys):
            if key in judge_digests:
                continue  # the exercise is repeated
            judge_digests[key] = one.judge_digest
            request = SampleRequest(key, number, derive_sample_seed(seed, number, one.exercise.id), one.exercise)
            record = get(key)
            if record is None:
                missing.append(request)
            elif record.verdict and record.judge_digest == compute_verdict_digest(one.judge_digest, record.verdict):
                scored[key] = replace(record, text="", reasoning="")
            else:
                unjudged.append(request)

    sampled_keys: list[str] = []

    def store_completion(request: SampleRequest, record: SampleRecord) -> None:
        sampled_keys.append(request.key)
        add(request.key, record)

    def judge_all_samples() -> Generator[Sample, None, None]:
        stored = ((request, record) for request in unjudged if (record := get(request.key)) is not None)
        yield from judge_samples(stored, sandbox)
        if sample is not None and missing:
            yield from sample_and_judge(missing, sample, sandbox, on_completion=store_completion)

    progress(_STAGE, len(scored), len(judge_digests))
    with closing(judge_all_samples()) as judged_samples:
        for request, judged in judged_samples:
            record = replace(judged, judge_digest=compute_verdict_digest(judge_digests[request.key], judged.verdict))
            add(request.key, record)
            scored[request.key] = replace(record, text="", reasoning="")
            progress(_STAGE, len(scored), len(judge_digests))
    outcomes = tuple(_build_outcomes(one, [scored.get(key) for key in one.sample_keys]) for one in exercises)
    k = max((one.k for one in exercises), default=0)
    tokens = sum_tokens((one.n_prompt_tokens, one.n_tokens) for one in scored.values())
    return EvaluationResult(k, outcomes, tokens, len(sampled_keys))


def _build_outcomes(cached: CachedExercise, samples: Sequence[SampleRecord | None]) -> ProblemOutcomes:
    return ProblemOutcomes(
        cached.exercise.id,
        cached.exercise.metadata,
        tuple(None if sample is None else sample.verdict == Verdict.ACCEPTED.value for sample in samples),
        tuple(0 if sample is None else sample.n_tokens for sample in samples),
        tuple(sample is not None and sample.truncated for sample in samples),
        cached.tests_digest,
        cached.samples_digest,
        dict(sorted(Counter(sample.verdict for sample in samples if sample is not None).items())),
    )
