"""New weights for the sampler, and the proof that it uses them: it samples, and the learner must agree with it.

The comparison detects weights that arrived only in part or not at all, caches computed with old weights,
log-probabilities before temperature, and a different precision or template on one side. Since it compares
probabilities, it detects a sampler with old weights as soon as the new weights change the probabilities.
"""

from collections.abc import Sequence
from math import exp, isfinite

from sandbox.concurrency.deadline import call_with_timeout
from train.errors import ParityError, SamplerError
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence
from train.sampling.protocol import Completion, Sampling, SeededChat, TrainedSampler

_ANSWER_TOKENS = 8


def publish(
    learner: Learner, sampler: TrainedSampler, version: int, prompts: Sequence[SeededChat], *, temperature: float,
    most_error: float, seconds: float = 1800.0,
) -> dict[str, float]:  # fmt: skip
    """Hand the learner's weights to the sampler, compare the two, and return the metrics of the comparison.

    version      the number of these weights
    prompts      the prompts that the sampler answers for the comparison
    temperature  the temperature at which it samples
    most_error   upper bound of the mean of exp |log-probability by the learner - by the sampler| over the tokens of
                 the answers; NeMo-RL calls this token_mult_prob_error and bounds it by 1.05
    seconds      time limit for the sampler to load the weights and answer

    Raises ParityError if the two differ by more, and SamplerError if the weights are not loaded in time.
    """
    weights = learner.weights()
    sampling = Sampling(temperature=temperature, top_p=1.0, max_tokens=_ANSWER_TOKENS, logprobs=True)

    def load_and_sample() -> list[Completion]:
        sampler.load(weights, version)
        return [answer for _, answer in sampler.sample(prompts, sampling) if isinstance(answer, Completion)]

    late = SamplerError(f"the engine did not load weights version {version} and sample with them within {seconds:g} s")
    answers = call_with_timeout(load_and_sample, seconds, late)
    if not answers:
        raise SamplerError("the sampler refuses the prompts with which it is compared. Lower data.max_prompt_tokens")
    differences = _differences(learner, answers)
    error = sum(exp(min(difference, 50.0)) for difference in differences) / len(differences)
    if {version} != {token_version for answer in answers for token_version in answer.versions}:
        raise ParityError(f"the sampler reports that its weights are not version {version}")
    if not all(map(isfinite, differences)) or error > most_error:
        raise ParityError(
            f"after weight update {version} sampler and learner differ: the mean of exp |difference of "
            f"log-probabilities| is {error:.4f}, and engine.parity allows {most_error:g}. Nothing was trained on "
            "samples of these weights. Compare engine and model.dtype; checkpoints before this step are good."
        )
    return {"parity/token_mult_prob_error": error, "parity/logp_difference_max": max(differences)}


def _differences(learner: Learner, answers: Sequence[Completion]) -> list[float]:
    """Return |log-probability by the learner - by the sampler| of each token."""
    by_learner = learner.logprobs([_sequence(answer) for answer in answers])
    return [
        abs(mine - its)
        for answer, logp_T in zip(answers, by_learner, strict=True)
        for mine, its in zip(logp_T.tolist(), answer.logprobs, strict=True)
    ]


def _sequence(answer: Completion) -> TrainingSequence:
    return TrainingSequence(
        prompt_ids=answer.prompt_ids,
        token_ids=answer.token_ids,
        sampler_logprobs=answer.logprobs,
        advantages=(0.0,) * len(answer.token_ids),
        truncated=False,
        reward=0.0,
    )
