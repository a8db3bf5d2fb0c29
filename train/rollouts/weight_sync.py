"""New weights for the sampler, and the proof that it uses them.

train/sampling/proof.py compares what the sampler holds with what the learner sent, and its log-probabilities of fixed
tokens with the learner's. When an engine has just been started, it also samples, and the learner must agree with the
log-probabilities of what it drew: this detects log-probabilities before temperature, and options that change the
distribution. `check_mismatch` compares the two again, over the tokens of a whole batch.
"""

import logging
from collections.abc import Mapping, Sequence
from math import exp, isfinite, isnan, nan

from sandbox.concurrency.timeouts import call_with_timeout
from train.errors import ParityError, SamplerError
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence
from train.sampling.protocol import SampledCompletion, SamplingParams, SeededPrompt, UpdatableSampler
from train.weights.manifest import Probe

log = logging.getLogger(__name__)

_ANSWER_TOKENS = 8
_PROBE_TOKENS = 256  # of each of the probe's sequences; prompts may be as long as the context

Metrics = dict[str, float]


def publish(
    learner: Learner, sampler: UpdatableSampler, version: int, prompts: Sequence[tuple[int, ...]], *,
    temperature: float, max_error: float, seconds: float = 1800.0, sampled: bool = False,
) -> Metrics:  # fmt: skip
    """Hand the learner's weights to the sampler, prove that they have arrived, and return the metrics of the proof.

    version      the number of these weights
    prompts      token ids, whose log-probabilities are compared
    temperature  the temperature at which it samples
    max_error    upper bound of the mean of exp |log-probability by the learner - by the sampler| over the tokens;
                 NeMo-RL calls this token_mult_prob_error and bounds it by 1.05
    seconds      time limit for the sampler to load the weights and answer
    sampled      whether the sampler answers the prompts, too, and the answers are compared

    Raises ParityError if the two differ by more, and SamplerError if the weights are not loaded in time.
    """
    probe = make_probe(learner, prompts)

    def hand_over() -> Metrics:
        weights = learner.export_weights()
        late = SamplerError(f"the engine did not load weights version {version} and prove them within {seconds:g} s")
        return call_with_timeout(lambda: sampler.update_weights(weights, version, probe, max_error), seconds, late)

    metrics = hand_over()
    if sampled:
        late = SamplerError(f"the engine did not sample {_ANSWER_TOKENS} tokens within {seconds:g} s")
        answers = call_with_timeout(lambda: _answers(sampler, prompts, temperature), seconds, late)
        _compare(learner, answers, version, max_error)
        hand_over()  # its cache is empty again, so that what it draws does not depend on this comparison
    return metrics


def make_probe(learner: Learner, sequences: Sequence[tuple[int, ...]]) -> Probe:
    """Return fixed tokens with the learner's log-probabilities of them, before temperature.

    sequences: token ids; prompts do well, since their tokens are anything but certain, and so show small differences
    """
    tokens = tuple(sequence[:_PROBE_TOKENS] for sequence in sequences if len(sequence) > 1)
    by_learner = learner.logprobs([_sequence(ids[:1], ids[1:]) for ids in tokens], temperature=1.0)
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


def _answers(
    sampler: UpdatableSampler, prompts: Sequence[tuple[int, ...]], temperature: float
) -> list[SampledCompletion]:
    sampling = SamplingParams(temperature=temperature, top_p=1.0, max_tokens=_ANSWER_TOKENS, logprobs=True)
    seeded: list[SeededPrompt] = [(ids, number) for number, ids in enumerate(prompts)]
    return [answer for _, answer in sampler.sample(seeded, sampling) if isinstance(answer, SampledCompletion)]


def _compare(learner: Learner, answers: Sequence[SampledCompletion], version: int, max_error: float) -> None:
    if not answers:
        raise SamplerError("the sampler refuses the prompts with which it is compared. Lower data.max_prompt_tokens")
    if {version} != {token_version for answer in answers for token_version in answer.versions}:
        raise ParityError(f"the sampler reports that its weights are not version {version}")
    by_learner = learner.logprobs([_sequence(answer.prompt_ids, answer.token_ids) for answer in answers])
    differences = [
        abs(mine - its)
        for answer, logp_T in zip(answers, by_learner, strict=True)
        for mine, its in zip(logp_T.tolist(), answer.logprobs, strict=True)
    ]
    error = sum(exp(min(difference, 50.0)) for difference in differences) / len(differences)
    if not all(map(isfinite, differences)) or error > max_error:
        raise ParityError(
            f"weights {version} arrived, but what the sampler draws with them is not what it says: the mean of exp "
            f"|difference of log-probabilities| to the learner's is {error:.4f}, and engine.parity allows "
            f"{max_error:g}. Options of the engine change the distribution, or the log-probabilities are those before "
            "temperature. Compare engine.options, rollout.temperature and model.dtype."
        )


def _sequence(prompt_ids: tuple[int, ...], token_ids: tuple[int, ...]) -> TrainingSequence:
    none = (0.0,) * len(token_ids)
    return TrainingSequence(prompt_ids, token_ids, none, none, False, 0.0)
