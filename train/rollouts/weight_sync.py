"""Weight updates of the sampler, and three comparisons of its log-probabilities with the learner's.

`publish` compares log-probabilities on a probe from the last batch, and checksums (train/sampling/proof.py).
`compare_samples` compares log-probabilities of new samples, for a new engine. It also detects log-probabilities before
temperature, and engine options that change the distribution. `check_mismatch` compares log-probabilities over a batch.
"""

import logging
from collections.abc import Mapping, Sequence
from math import isnan, nan

from sandbox.concurrency.timeouts import call_with_timeout
from train.errors import ParityError, SamplerError
from train.learning.learner import Learner
from train.learning.sequences import TrainingSequence
from train.rollouts.groups import Group
from train.sampling.proof import PARITY_METRIC, measure_logprob_differences
from train.sampling.protocol import SampledCompletion, Sampler, SamplingParams, UpdatableSampler
from train.weights.manifest import Probe

log = logging.getLogger(__name__)

_N_COMPLETIONS = 4  # number of completions in a probe
_COMPLETION_TOKENS = 64  # tokens to compare in each completion

Metrics = dict[str, float]


def publish(
    learner: Learner, sampler: UpdatableSampler, version: int, probe: Probe | None, *, max_error: float,
    seconds: float = 1800.0,
) -> Metrics:  # fmt: skip
    """Update the sampler's weights, verify that the sampler uses them, and return the metrics of the comparison.

    version    version of the learner's weights
    probe      result of `make_probe`; None: compare checksums only
    max_error  upper bound of the mean of exp |learner's - sampler's log-probability| over the tokens; NeMo-RL calls
               this token_mult_prob_error and bounds it by 1.05
    seconds    time limit for loading the weights and computing the probe

    Raises ParityError if the error exceeds `max_error`, and SamplerError if `seconds` have passed.
    """
    weights = learner.export_weights()
    timeout = SamplerError(f"the engine did not load and verify weights version {version} within {seconds:g} s")
    return call_with_timeout(lambda: sampler.update_weights(weights, version, probe, max_error), seconds, timeout)


def compare_samples(
    learner: Learner, sampler: Sampler, version: int, prompts: Sequence[tuple[int, ...]], *, temperature: float,
    max_error: float, seconds: float = 1800.0,
) -> Metrics:  # fmt: skip
    """Sample completions, compare the sampler's log-probabilities with the learner's, and return the metrics.

    version    version that the sampler must use
    prompts    token ids of each prompt
    max_error  as in `publish`
    seconds    time limit for sampling

    Raises ParityError and SamplerError as `publish` does.
    """
    sampling = SamplingParams(temperature=temperature, top_p=1.0, max_tokens=_COMPLETION_TOKENS, logprobs=True)
    timeout = SamplerError(f"the engine did not sample {_COMPLETION_TOKENS} tokens within {seconds:g} s")
    results = call_with_timeout(
        lambda: list(sampler.sample([(ids, number) for number, ids in enumerate(prompts)], sampling)), seconds, timeout
    )
    completions = [completion for _, completion in results if isinstance(completion, SampledCompletion)]
    if not completions:
        raise SamplerError(
            f"the sampler rejected all {len(prompts)} prompts of the comparison. Lower data.max_prompt_tokens"
        )
    if {version} != (versions := {token_version for each in completions for token_version in each.versions}):
        raise ParityError(f"the sampler reports weights version {sorted(versions)}, expected {version}")
    by_learner = learner.compute_logprobs([_to_sequence(each.prompt_ids, each.token_ids) for each in completions])
    metrics = measure_logprob_differences(
        [logp_T.tolist() for logp_T in by_learner], [each.logprobs for each in completions]
    )
    error = metrics[PARITY_METRIC]
    if not error <= max_error:
        raise ParityError(
            f"weights {version} are loaded, but the sampler's log-probabilities do not match its samples: mean exp "
            f"|learner's - sampler's log-probability| is {error:.4f}, but engine.parity allows {max_error:g}. Either "
            "engine options change the distribution, or the engine reports log-probabilities before temperature. "
            "Compare engine.options, rollout.temperature and model.dtype."
        )
    return metrics


def make_probe(learner: Learner, groups: Sequence[Group]) -> Probe | None:
    """Return the first tokens of some completions as a probe, with the learner's log-probabilities at temperature 1.

    groups: groups of the last batch

    Returns None if the first completions of all groups are empty. The probe excludes log-probabilities of prompt
    tokens: many of them are improbable, and half precision distorts low log-probabilities most.
    """
    rollouts = [group[0] for group in groups if group[0].token_ids][:_N_COMPLETIONS]
    sequences = [_to_sequence(each.prompt_ids, each.token_ids[:_COMPLETION_TOKENS]) for each in rollouts]
    if not sequences:
        return None
    by_learner = learner.compute_logprobs(sequences, temperature=1.0)
    tokens = tuple((*sequence.prompt_ids, *sequence.token_ids) for sequence in sequences)
    return Probe(tokens, tuple(tuple(logp_T.tolist()) for logp_T in by_learner))


def check_mismatch(metrics: Mapping[str, float], *, step: int, warn_above: float, fail_above: float) -> None:
    """Check mismatch/kl of a batch that was sampled with the learner's current weights.

    metrics     metrics of the batch's first update
    warn_above  bound of mismatch/kl above which to log a warning
    fail_above  bound of mismatch/kl above which to raise ParityError; nan raises it, too
    """
    kl = metrics.get("mismatch/kl", 0.0)
    message = (
        f"step {step}: sampler and learner assign different log-probabilities to the batch's tokens under the same "
        f"weights: mismatch/kl is {kl:.4g}, and the 99th percentile of the absolute differences is "
        f"{metrics.get('sampling/sampling_logp_difference/p99', nan):.4g}"
    )
    if isnan(kl) or kl > fail_above:
        raise ParityError(
            f"{message}. engine.mismatch_stop allows {fail_above:g}. Earlier checkpoints are valid. Compare "
            "engine.options with model.dtype."
        )
    if kl > warn_above:
        log.warning("%s. engine.mismatch_alarm is %g; training continues", message, warn_above)


def _to_sequence(prompt_ids: tuple[int, ...], token_ids: tuple[int, ...]) -> TrainingSequence:
    zeros = (0.0,) * len(token_ids)
    return TrainingSequence(prompt_ids, token_ids, zeros, zeros, False, 0.0)
