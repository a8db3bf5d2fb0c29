"""How often a model solves the problems of a set: pass@1 over k samples of each, its confidence interval, and pass@k.

A sample without a verdict, because a checker failed or the model refused the prompt, is left out and counted: nothing
is known about it.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import nan
from statistics import fmean

from curate.dataset.journal import Journal
from curate.difficulty.pass_at_k import pass_at_k
from curate.json_records import from_json, omitted, to_json
from curate.progress import Progress, silent
from rewards.reward import NO_ANSWER, NO_CODE
from sandbox import Sandbox, Verdict
from train.evaluation.exercise import Exercise
from train.evaluation.facts_of import facts_of, tests_of
from train.evaluation.sample_and_judge import Sample, WantedSample, sample_and_judge, sample_seed
from train.evaluation.statistics.confidence import interval
from train.evaluation.statistics.outcomes import Outcomes, counts

_STAGE = "evaluate"  # the name under which progress is reported


@dataclass(frozen=True, slots=True)
class Evaluation:
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
    outcomes: tuple[Outcomes, ...] = field(repr=False)
    verdicts: Mapping[str, int] = field(repr=False)

    def metrics(self) -> dict[str, float]:
        """Return the numbers under the names that train/run/figures.py explains."""
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
class SampleRecord:
    """A line of the journal: one sample of the exercise `id` with its verdict and, where its tests have parts, the
    verdicts on these."""

    id: str
    number: int
    text: str
    n_tokens: int
    truncated: bool
    verdict: str
    parts: tuple[tuple[str, str], ...] = omitted(())


@dataclass(frozen=True, slots=True)
class _Counted:
    """What is counted of a sample. It leaves out the text, which would only fill the memory."""

    verdict: str
    truncated: bool
    n_tokens: int

    @property
    def correct(self) -> bool:
        return self.verdict == Verdict.ACCEPTED.value


def evaluate(
    exercises: Sequence[Exercise],
    sample: Sample,
    sandbox: Sandbox,
    *,
    k: int,
    seed: int = 0,
    journal: Journal | None = None,
    settings: object = None,
    progress: Progress = silent,
) -> Evaluation:
    """Sample each exercise k times, judge the answers, and count.

    journal   records the samples with their verdicts; samples that are in it already are not drawn again
    settings  what samples depend on besides exercise and seed, such as the model and its temperature; JSON values

    Raises CurateError if the sandbox fails again and again, and SamplerError if no samples can be drawn.
    """
    asked = {_digest(exercise, settings, seed): exercise for exercise in exercises}
    numbers = {f"{digest}/{number}": (exercise, number) for digest, exercise in asked.items() for number in range(k)}
    known = {} if journal is None else {key: _counted(_read(journal, key)) for key in numbers if key in journal}
    progress(_STAGE, len(known), len(numbers))
    missing = [
        WantedSample(key, sample_seed(seed, number, exercise.id), exercise)
        for key, (exercise, number) in numbers.items()
        if key not in known
    ]
    with closing(sample_and_judge(missing, sample, sandbox)) as judged:
        for wanted, answer, ruling in judged:
            exercise, number = numbers[wanted.key]
            sampled = (exercise.id, number, answer.text, answer.n_tokens, answer.truncated)
            record = SampleRecord(*sampled, ruling.verdict, ruling.parts)
            known[wanted.key] = _counted(record)
            if journal is not None:
                journal.add(wanted.key, to_json(record))
            progress(_STAGE, len(known), len(numbers))
    return _summary(
        [(exercise, [known.get(f"{digest}/{number}") for number in range(k)]) for digest, exercise in asked.items()], k
    )


def _read(journal: Journal, key: str) -> SampleRecord:
    return from_json(SampleRecord, journal[key])


def _counted(record: SampleRecord) -> _Counted:
    return _Counted(record.verdict, record.truncated, record.n_tokens)


def _digest(exercise: Exercise, settings: object, seed: int) -> str:
    return hashlib.sha256(json.dumps([exercise.name, settings, seed]).encode()).hexdigest()[:32]


def _summary(problems: Sequence[tuple[Exercise, Sequence[_Counted | None]]], k: int) -> Evaluation:
    """Return the result. Each exercise comes with its k samples; a sample without a verdict is None."""
    outcomes = tuple(_outcomes(exercise, samples) for exercise, samples in problems)
    known = counts(outcomes)
    low, high = interval(known)
    estimates = [pass_at_k(n, n_correct, k) for n, n_correct in known]
    known_estimates = [estimate for estimate in estimates if estimate is not None]
    scored = [sample for _, samples in problems for sample in samples if sample is not None]
    truncated = [sample for sample in scored if sample.truncated]
    return Evaluation(
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
        verdicts=dict(sorted(Counter(sample.verdict for sample in scored).items())),
    )


def _outcomes(exercise: Exercise, samples: Sequence[_Counted | None]) -> Outcomes:
    return Outcomes(
        exercise.id,
        facts_of(exercise),
        tuple(None if sample is None else sample.correct for sample in samples),
        tuple(0 if sample is None else sample.n_tokens for sample in samples),
        tuple(sample is not None and sample.truncated for sample in samples),
        tests_of(exercise),
    )
