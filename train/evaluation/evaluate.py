"""How often a model solves the problems of a set: pass@1 over k samples of each, pass@k, and how sure that is.

    exercise -> k answers -> the program in each -> judge -> count

Answers are judged while the model goes on. One that was cut off is judged by the program in it, if it has one, as
LiveCodeBench does. A sample without a verdict, because the sandbox or a checker failed or the model refused the prompt,
is left out and counted: nothing is known about it.
"""

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import fmean
from typing import Any

from curate.dataset.journal import Journal
from curate.difficulty.pass_at_k import pass_at_k
from curate.verification.retrying import FAILURES_IN_A_ROW, broken
from rewards.extract import program_in
from rewards.reward import NO_CODE, TRUNCATED
from sandbox import Judgement, Program, Sandbox, SandboxError, Suite, Verdict
from sandbox.concurrency.prefetch import ahead
from train.evaluation.confidence import interval
from train.evaluation.exercises import Exercise
from train.sampling.protocol import Completion, Prompt, SamplerError

log = logging.getLogger(__name__)

# The sampler's `sample` with its Sampling settled.
Sample = Callable[[Iterable[Prompt]], Iterator[tuple[int, Completion | ValueError]]]
Report = Callable[[str, int, int | None], None]
Row = dict[str, Any]

_REFUSED = 16  # prompts refused before any was answered, after which the others are not tried
_AHEAD = 256  # answers that may wait for the sandbox
_SECONDS = 7200.0  # without any answer, after which the sampler counts as hanging


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came out. pass_at_1 is a mean over problems, low and high its 95% confidence interval; nan: no sample has a
    verdict. pass_at_k is None where no problem has k of them. n_no_code: of those that came to an end by themselves.
    problems: by id, how many samples have a verdict and how many of them are right."""

    n_problems: int
    k: int
    pass_at_1: float
    low: float
    high: float
    pass_at_k: float | None
    n_samples: int
    n_truncated: int
    n_no_code: int
    n_unscored: int
    mean_tokens: float
    problems: Mapping[str, tuple[int, int]] = field(repr=False)

    def figures(self) -> dict[str, float]:
        """Under the names of train/run/figures.py."""
        return {
            "eval/pass@1": self.pass_at_1,
            "eval/pass@1_low": self.low,
            "eval/pass@1_high": self.high,
            **({f"eval/pass@{self.k}": self.pass_at_k} if self.k > 1 and self.pass_at_k is not None else {}),
            "eval/clipped_ratio": self.n_truncated / self.n_samples if self.n_samples else nan,
            "eval/no_code": self.n_no_code / self.n_samples if self.n_samples else nan,
            "eval/no_signal": self.n_unscored,
            "eval/mean_length": self.mean_tokens,
        }


def evaluate(
    exercises: Sequence[Exercise],
    sample: Sample,
    box: Sandbox,
    *,
    k: int,
    seed: int = 0,
    journal: Journal | None = None,
    settings: object = None,
    report: Report = lambda stage, done, total: None,
) -> Evaluation:
    """Sample each exercise k times and judge. What the journal holds already is not sampled again; settings: what the
    samples depend on beside exercise and seed, such as the model and its temperature.

    Raises CurateError when the sandbox fails again and again, and SamplerError where no samples can be had.
    """
    keys = [(_key(exercise, settings, seed, number), exercise, number) for exercise in exercises for number in range(k)]
    known = {key: _counted(journal[key]) for key, _, _ in keys if journal is not None and key in journal}
    report("evaluate", len(known), len(keys))

    def note(key: str, row: Row) -> None:
        known[key] = _counted(row)
        if journal is not None:
            journal.add(key, row)
        report("evaluate", len(known), len(keys))

    missing = [item for item in keys if item[0] not in known]
    with ahead(_answers(missing, sample, seed), _AHEAD, seconds=_SECONDS) as answers:
        try:
            _judge(answers, box, note)
        except TimeoutError:
            raise SamplerError(f"the model has not answered for {_SECONDS:g} seconds: its sampler hangs") from None
    return _summary([(exercise, known.get(key)) for key, exercise, _ in keys], k)


def _counted(row: Row) -> Row:
    """What is counted of a sample; its text would only fill the memory."""
    return {name: row[name] for name in ("verdict", "truncated", "n_tokens")}


def _key(exercise: Exercise, settings: object, seed: int, number: int) -> str:
    named = hashlib.sha256(json.dumps([exercise.name, settings, seed]).encode()).hexdigest()[:32]
    return f"{named}/{number}"


def _seed(seed: int, exercise: Exercise, number: int) -> int:
    """Of one sample, so that it does not matter in which order samples are drawn, or in how many runs."""
    return int.from_bytes(hashlib.sha256(f"{seed} {number} {exercise.id}".encode()).digest()[:4]) >> 1


Answer = tuple[str, Exercise, Row]


def _answers(missing: Sequence[tuple[str, Exercise, int]], sample: Sample, seed: int) -> Iterator[Answer]:
    """The answers as they come. Raises SamplerError if the model refuses whatever it is asked."""
    prompts = ((exercise.chat, _seed(seed, exercise, number)) for _, exercise, number in missing)
    refused = answered = 0
    for index, answer in sample(prompts):
        key, exercise, number = missing[index]
        if isinstance(answer, ValueError):
            refused += 1
            if number == 0:
                log.warning("%s is refused: %s", exercise.id, answer)
            if refused >= _REFUSED and not answered:
                raise SamplerError(f"the model refuses every prompt: {answer}")
            continue
        answered += 1
        row = {"id": exercise.id, "number": number, "text": answer.text, "n_tokens": answer.n_tokens}
        yield key, exercise, {**row, "truncated": answer.finish_reason == "length"}


def _judge(answers: Iterator[Answer], box: Sandbox, note: Callable[[str, Row], None]) -> None:
    """Note each answer with its verdict, as it becomes known; not those of which nothing becomes known."""
    running: dict[int, tuple[str, Row]] = {}
    failures = 0

    def programs() -> Iterator[tuple[Program, Suite]]:
        numbers = itertools.count()
        for key, exercise, row in answers:
            source = program_in(row["text"])
            if source is None:
                note(key, {**row, "verdict": TRUNCATED if row["truncated"] else NO_CODE})
            else:
                running[next(numbers)] = key, row
                yield exercise.program(source), exercise.suite

    for index, judgement in box.judge_each(programs()):
        key, row = running.pop(index)
        if isinstance(judgement, Judgement):
            failures = 0
            note(key, {**row, "verdict": judgement.verdict.value})
        elif isinstance(judgement, SandboxError):
            failures += 1
            log.warning("%s: the sandbox failed: %s", row["id"], judgement)
            if failures >= FAILURES_IN_A_ROW:
                raise broken(judgement) from judgement
        else:
            log.warning("%s: its tests cannot judge: %s", row["id"], judgement)


def _summary(samples: Sequence[tuple[Exercise, Row | None]], k: int) -> Evaluation:
    """samples: of each exercise k rows; None: no verdict."""
    rows = [row for _, row in samples if row is not None]
    problems: dict[str, tuple[int, int]] = {}
    for exercise, row in samples:
        n, correct = problems.get(exercise.id, (0, 0))
        right = row is not None and row["verdict"] == Verdict.ACCEPTED.value
        problems[exercise.id] = n + (row is not None), correct + right
    counts = [(n, correct) for n, correct in problems.values() if n]
    low, high = interval(counts)
    at_k = [found for n, correct in counts if (found := pass_at_k(n, correct, k)) is not None]
    return Evaluation(
        n_problems=len(counts),
        k=k,
        pass_at_1=fmean(correct / n for n, correct in counts) if counts else nan,
        low=low,
        high=high,
        pass_at_k=fmean(at_k) if at_k else None,
        n_samples=len(rows),
        n_truncated=sum(row["truncated"] for row in rows),
        n_no_code=sum(row["verdict"] == NO_CODE for row in rows),
        n_unscored=len(samples) - len(rows),
        mean_tokens=fmean(row["n_tokens"] for row in rows) if rows else nan,
        problems=problems,
    )
