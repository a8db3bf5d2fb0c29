"""New weights for the sampler, and the proof that it has them: it samples, and the trainer must agree with it.

What this finds: weights that never arrived or arrived in part, caches computed with old ones, log-probabilities before
temperature, another precision or another template on one side. It compares probabilities, so a sampler that has stayed
behind is found as soon as the difference shows in them.
"""

from collections.abc import Sequence
from math import exp, isfinite

from sandbox.concurrency.deadline import call_with_timeout
from train.errors import ParityError
from train.learning.learner import Learner
from train.learning.sequences import Sequence as Tokens
from train.sampling.protocol import Completion, Prompt, SamplerError, Sampling, TrainedSampler

_TOKENS = 8  # of a probe's answer


def publish(
    learner: Learner, sampler: TrainedSampler, version: int, prompts: Sequence[Prompt], *, temperature: float,
    most_error: float, seconds: float = 1800.0,
) -> dict[str, float]:  # fmt: skip
    """Hand over the weights and compare; gives the figures of the comparison.

    most_error bounds the mean of exp |log-probability here - there| over the probe's tokens, NeMo-RL's
    token_mult_prob_error (1.05 is its bar). Raises ParityError above it, SamplerError if the weights were not taken, or
    if it did not take them and sample within so many seconds.
    """
    weights = learner.weights()
    sampling = Sampling(temperature=temperature, top_p=1.0, max_tokens=_TOKENS, logprobs=True)

    def sampled() -> list[Completion]:
        sampler.load(weights, version)
        return [answer for _, answer in sampler.sample(prompts, sampling) if isinstance(answer, Completion)]

    hangs = f"the engine hangs: it did not take weights {version} and sample with them within {seconds:g} s"
    answers = call_with_timeout(sampled, seconds, SamplerError(hangs))
    if not answers:
        raise SamplerError(
            "the sampler refuses the prompts with which it is compared: data.max_prompt_tokens is more than it takes"
        )
    here = learner.logprobs([_tokens(answer) for answer in answers])
    pairs = [
        (mine, its) for answer, logp_T in zip(answers, here, strict=True)
        for mine, its in zip(logp_T.tolist(), answer.logprobs, strict=True)
    ]  # fmt: skip
    differences = [abs(mine - its) for mine, its in pairs]
    error = sum(exp(min(difference, 50.0)) for difference in differences) / len(differences)
    if {version} != {each for answer in answers for each in answer.versions}:
        raise ParityError(f"the sampler says that it samples with other weights than those of update {version}")
    if not all(map(isfinite, differences)) or error > most_error:
        raise ParityError(
            f"after weight update {version} sampler and trainer part: mean exp |difference of log-probabilities| is "
            f"{error:.4f}, engine.parity allows {most_error:g}. What would be sampled now is not this model's: nothing "
            "was trained on it. Compare engine and model.dtype; checkpoints before this step are good."
        )
    return {"parity/token_mult_prob_error": error, "parity/logp_difference_max": max(differences)}


def _tokens(answer: Completion) -> Tokens:
    return Tokens(
        prompt_ids=answer.prompt_ids,
        token_ids=answer.token_ids,
        sampler_logprobs=answer.logprobs,
        advantages=(0.0,) * len(answer.token_ids),
        truncated=False,
        reward=0.0,
    )
