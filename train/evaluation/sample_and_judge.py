"""Sample a model and judge its answers, as every measurement of a model does.

    prompt -> answer, drawn with its own seed -> the program in the answer -> verdict

Answers are judged while the model continues. The caller gets each answer as it arrives and each verdict as it becomes
known, so that it can keep them.

There is one rule for answers that were cut off: the program in such an answer is judged, if there is one, as
LiveCodeBench and EvalPlus do and as `rewards.code.CodeReward` does in training. So pass@1 is the reward that a run
would see. Callers also count how many answers were cut off, and how many of those were right.
"""

import hashlib
import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

from curate.verification.retries import map_with_retries
from rewards.reward import NO_ANSWER, NO_CODE, TRUNCATED
from sandbox import Sandbox, SandboxError
from sandbox.concurrency.prefetch import prefetch
from train.errors import SamplerError
from train.evaluation.exercise import Exercise
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.sample_store import SampleRecord
from train.sampling.protocol import SampledCompletion, SeededPrompt

log = logging.getLogger(__name__)

# The method `sample` of a sampler (train/sampling/protocol.py), with its Sampling already bound.
SampleFunction = Callable[[Iterable[SeededPrompt]], Iterator[tuple[int, SampledCompletion | ValueError]]]

_MAX_REFUSALS = 16  # after so many refusals and no answer, the other prompts are not tried
_MAX_WAITING = 256  # answers that may wait for the sandbox
_TIMEOUT_SECONDS = 7200.0  # time without any answer after which the sampler counts as hanging


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """The sample of this number that a measurement lacks, under the key by which the measurement keeps it."""

    key: str
    number: int
    seed: int
    exercise: Exercise


Sample = tuple[SampleRequest, SampleRecord]


def sample_seed(seed: int, number: int, exercise_id: str) -> int:
    """Return the seed of one sample, which does not depend on the order in which samples are drawn."""
    digest = hashlib.sha256(f"{seed} {number} {exercise_id}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def sample_and_judge(
    requests: Iterable[SampleRequest],
    sample: SampleFunction,
    sandbox: Sandbox,
    *,
    on_answer: Callable[[SampleRequest, SampleRecord], None] = lambda request, answer: None,
    on_refusal: Callable[[SampleRequest], None] = lambda request: None,
) -> Generator[Sample, None, None]:
    """Draw the samples and yield each with its verdict, in the order in which verdicts become known.

    requests    is read only as far as the model keeps up
    on_answer   is called in another thread with each answer, before it is judged
    on_refusal  is called in another thread for each prompt that the model refuses

    A sample is not yielded if its prompt is refused, or if its verdict cannot be known because a checker fails.
    Raises SamplerError if the model refuses every prompt or stops answering, and CurateError if the sandbox fails
    again and again.
    """

    def draw() -> Iterator[Sample]:
        open_requests: dict[int, SampleRequest] = {}  # an exercise is in memory only while it waits for answers

        def prompts() -> Iterator[SeededPrompt]:
            for index, request in enumerate(requests):
                open_requests[index] = request
                yield request.exercise.prompt, request.seed

        n_refused = n_answered = 0
        last_refused = ""
        for index, completion in sample(prompts()):
            request = open_requests.pop(index)
            id = request.exercise.id
            if isinstance(completion, ValueError):
                n_refused += 1
                on_refusal(request)
                if id != last_refused:
                    log.warning("%s: the model refuses the prompt: %s", id, completion)
                last_refused = id
                if n_refused >= _MAX_REFUSALS and not n_answered:
                    raise SamplerError(f"the model refuses every prompt: {completion}")
                continue
            n_answered += 1
            answer = SampleRecord(
                id,
                request.number,
                completion.text,
                completion.n_tokens,
                completion.finish_reason == "length",
                reasoning=completion.reasoning,
                n_prompt_tokens=completion.n_prompt_tokens,
            )
            on_answer(request, answer)
            yield request, answer

    with prefetch(draw(), _MAX_WAITING, timeout_seconds=_TIMEOUT_SECONDS) as answers:
        try:
            yield from judge_samples(answers, sandbox)
        except TimeoutError:
            raise SamplerError(f"timed out: the model has not answered for {_TIMEOUT_SECONDS:g} s") from None


def judge_samples(answers: Iterable[Sample], sandbox: Sandbox) -> Iterator[Sample]:
    """Yield each answer with its verdict. Answers whose verdict cannot be known because a checker fails are left out.

    Raises CurateError if the sandbox fails again and again.
    """

    def judged(item: Sample) -> SampleRecord | Exception:
        request, answer = item
        try:
            found = request.exercise.judge_answer(answer.text, sandbox)
        except SandboxError:
            raise
        except Exception as error:  # RefereeError or NoVerdictError, most likely; no answer may end the measurement
            return error
        if answer.truncated and found.verdict in (NO_CODE, NO_ANSWER):
            found = JudgeResult(TRUNCATED)
        return replace(answer, verdict=found.verdict, parts=found.parts)

    for (request, _), result in map_with_retries(answers, judged, sandbox):
        if isinstance(result, Exception):
            log.warning("%s: its tests cannot judge this answer: %s", request.exercise.id, result)
        else:
            yield request, result
