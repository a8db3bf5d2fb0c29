"""New weights for the sampler, and the proof that it uses them.

train/sampling/proof.py compares what the sampler holds with what the learner sent, and its log-probabilities of answers
to the last batch with the learner's. Of an engine that has just been started there are no answers yet: it samples some,
and the learner must agree with the log-probabilities of what it drew. That also detects log-probabilities before
temperature, and options that change the distribution. `check_mismatch` compares the two over the tokens of a batch.
"""

import logging
from collections.abc import Mapping, Sequence
from math import isnan, nan

from sandbox.concurrency.timeouts import call_with_timeout
from train.errors import ParityError, SamplerError
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence
from train.rollouts.groups import Group
from train.sampling.proof import PARITY_METRIC, logprob_differences
from train.sampling.protocol import SampledCompletion, Sampler, SamplingParams, UpdatableSampler
from train.weights.manifest import Probe

log = logging.getLogger(__name__)

_ANSWERS = 4  # with which sampler and learner are compared
_ANSWER_TOKENS = 64  # of each of them

Metrics = dict[str, float]


def publish(
    learner: Learner, sampler: UpdatableSampler, version: int, probe: Probe | None, *, max_error: float,
    seconds: float = 1800.0,
) -> Metrics:  # fmt: skip
    """Hand the learner's weights to the sampler, prove that they have arrived, and return the metrics of the proof.

    version    the number of these weights
    probe      of `make_probe`; None: no log-probabilities are compared
    max_error  upper bound of the mean of exp |log-probability by the learner - by the sampler| over the tokens;
               NeMo-RL calls this token_mult_prob_error and bounds it by 1.05
    seconds    time limit for the sampler to load the weights and answer

    Raises ParityError if the two differ by more, and SamplerError if the weights are not loaded in time.
    """
    weights = learner.export_weights()
    late = SamplerError(f"the engine did not load weights version {version} and prove them within {seconds:g} s")
    return call_with_timeout(lambda: sampler.update_weights(weights, version, probe, max_error), seconds, late)


def compare_samples(
    learner: Learner, sampler: Sampler, version: int, prompts: Sequence[tuple[int, ...]], *, temperature: float,
    max_error: float, seconds: float = 1800.0,
) -> Metrics:  # fmt: skip
    """Let the sampler answer prompts, compare its log-probabilities with the learner's, and return their differences.

    prompts      their token ids
    temperature  the temperature at which it samples

    Raises ParityError and SamplerError as `publish` does.
    """
    sampling = SamplingParams(temperature=temperature, top_p=1.0, max_tokens=_ANSWER_TOKENS, logprobs=True)
    late = SamplerError(f"the engine did not sample {_ANSWER_TOKENS} tokens within {seconds:g} s")
    drawn = call_with_timeout(
        lambda: list(sampler.sample([(ids, number) for number, ids in enumerate(prompts)], sampling)), seconds, late
    )
    answers = [answer for _, answer in drawn if isinstance(answer, SampledCompletion)]
    if not answers:
        raise SamplerError("the sampler refuses the prompts with which it is compared. Lower data.max_prompt_tokens")
    if {version} != {token_version for answer in answers for token_version in answer.versions}:
        raise ParityError(f"the sampler reports that its weights are not version {version}")
    by_learner = learner.logprobs([_sequence(answer.prompt_ids, answer.token_ids) for answer in answers])
    metrics = logprob_differences([logp_T.tolist() for logp_T in by_learner], [answer.logprobs for answer in answers])
    error = metrics[PARITY_METRIC]
    if not error <= max_error:
        raise ParityError(
            f"weights {version} arrived, but what the sampler draws with them is not what it says: the mean of exp "
            f"|difference of log-probabilities| to the learner's is {error:.4f}, and engine.parity allows "
            f"{max_error:g}. Options of the engine change the distribution, or the log-probabilities are those before "
            "temperature. Compare engine.options, rollout.temperature and model.dtype."
        )
    return metrics


def make_probe(learner: Learner, groups: Sequence[Group]) -> Probe | None:
    """Return the beginnings of answers to the last batch with the learner's log-probabilities, before temperature.

    In half precision, tokens that were sampled differ less than those of prompts, which are improbable. None if there
    are no answers.
    """
    rollouts = [group[0] for group in groups if group[0].token_ids][:_ANSWERS]
    sequences = [_sequence(each.prompt_ids, each.token_ids[:_ANSWER_TOKENS]) for each in rollouts]
    if not sequences:
        return None
    by_learner = learner.logprobs(sequences, temperature=1.0)
    tokens = tuple((*sequence.prompt_ids, *sequence.token_ids) for sequence in sequences)
    return Probe(tokens, tuple(tuple(logp_T.tolist()) for logp_T in by_learner))


def check_mismatch(metrics: Mapping[str, float], *, step: int, alarm: float, fail_above: float) -> None:
    """Look at the mismatch of sampler and learner over a batch that was drawn with the learner's own weights.

    metrics     those of the batch's first update
    alarm       of mismatch/kl, above which a warning is logged
    fail_above  of mismatch/kl, above which the run ends

    Raises ParityError above `fail_above`, or if the figure is not a number.
    """
    kl = metrics.get("mismatch/kl", 0.0)
    words = (
        f"step {step}: sampler and learner differ about the tokens of the batch, which both know with the same weights:"
        f" mismatch/kl is {kl:.4g}, the 99th percentile of the differences of log-probabilities "
        f"{metrics.get('sampling/sampling_logp_difference/p99', nan):.4g}"
    )
    if isnan(kl) or kl > fail_above:
        raise ParityError(
            f"{words}. engine.mismatch_stop allows {fail_above:g}. Compare the options of the engine with model.dtype; "
            "checkpoints before this step are good."
        )
    if kl > alarm:
        log.warning("%s. engine.mismatch_alarm is %g; training goes on", words, alarm)


def _sequence(prompt_ids: tuple[int, ...], token_ids: tuple[int, ...]) -> TrainingSequence:
    none = (0.0,) * len(token_ids)
    return TrainingSequence(prompt_ids, token_ids, none, none, False, 0.0)
