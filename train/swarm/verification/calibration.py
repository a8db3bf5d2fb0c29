"""Bars from answers that are known to be honest.

A bar is a multiple of the largest distance that was measured, because the largest of many more answers is larger. It is
never below a floor: engines that agree to the last bit here may differ in it elsewhere.
"""

from collections.abc import Iterator, Sequence

from train.asynchronous.messages import Lease
from train.errors import ConfigError
from train.sampling.protocol import Completion, Engine, Sampling
from train.sampling.verifiable.commitment import read
from train.swarm.settings import Bars
from train.swarm.verification.measured import Measured, measure, pooled
from train.swarm.verification.prefill import Finished, Prefill

# Multiples of the largest honest distance: of one chunk or token, of a mean over a file, of log-probabilities.
_ONE, _MEAN, _LOGPROB = 2.0, 1.5, 5.0
_FLOOR = Bars(
    mismatches=4.0, mismatches_mean=2.0, mantissa_mean=0.5, margin=0.02, logprob_error=1e-3, unlikely_share=0.1
)
_LEAST_TOKENS = 1000  # with fewer, the share of replayed tokens says little


def bars_from(honest: Sequence[Sequence[Measured]]) -> Bars:
    """Return the bars for a pair of engines, given the distances of the answers to each lease.

    Raises ConfigError if there are too few tokens.
    """
    answers = [answer for lease in honest for answer in lease]
    files = [pooled(lease) for lease in honest]
    n_tokens = sum(file.n_tokens for file in files)
    if n_tokens < _LEAST_TOKENS:
        raise ConfigError(f"{n_tokens} tokens are too few to calibrate by; there must be {_LEAST_TOKENS}. Draw more")
    return Bars(
        mismatches=max(_ONE * max(answer.mismatches for answer in answers), _FLOOR.mismatches),
        mismatches_mean=max(_MEAN * max(file.mismatches_mean for file in files), _FLOOR.mismatches_mean),
        mantissa_mean=max(_MEAN * max(file.mantissa_mean for file in files), _FLOOR.mantissa_mean),
        # One miss more than there were: without any, the next answer with one would be rejected.
        replayed_share=1 - (sum(file.misses for file in files) + 1) / (n_tokens + 2),
        margin=max(_ONE * max(answer.margin for answer in answers), _FLOOR.margin),
        logprob_error=max(_LOGPROB * max(file.logprob_error for file in files), _FLOOR.logprob_error),
        unlikely_share=min(max(_MEAN * max(file.unlikely_share for file in files), _FLOOR.unlikely_share), 1.0),
    )


def measured_answers(engine: Engine, prefill: Prefill, leases: Sequence[Lease]) -> Iterator[list[Measured]]:
    """Yield the distances of an engine's own answers to each lease. The answers to one lease are drawn together."""
    for lease in leases:
        completions = _drawn(engine, lease)
        views = prefill.look_at(
            [
                Finished(lease.prompt, completion.token_ids, lease.draw.temperature, seed)
                for seed, completion in zip(lease.seeds, completions, strict=True)
            ]
        )
        yield [
            measure(read(completion.commitments, completion.n_tokens), completion.logprobs, view)
            for completion, view in zip(completions, views, strict=True)
        ]


def _drawn(engine: Engine, lease: Lease) -> list[Completion]:
    draw = lease.draw
    sampling = Sampling(draw.temperature, draw.top_p, draw.max_tokens, logprobs=True, verifiable=True)
    for number, seed in enumerate(lease.seeds):
        engine.add(str(number), lease.prompt, seed, sampling)
    found: dict[str, Completion] = {}
    while len(found) < len(lease.seeds):
        found |= engine.step()
    return [found[str(number)] for number in range(len(lease.seeds))]
