"""What the checks leave to a cheat: near ties. Where two tokens are nearly equal, honest engines may draw either one,
so a cheat may choose, and has to draw on from there as it must. It can thus pick one of several answers, no more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import swarm_answers
import torch
from honest_commitments import commit
from msgspec.structs import replace as structs_replace

from train.asynchronous.messages import ACCEPTED
from train.sampling.protocol import SampledCompletion
from train.sampling.seeded_sampling import sample_tokens
from train.sampling.transformers import TransformersSampler
from train.swarm.messages import VerificationResult
from train.swarm.verification.calibrate import fit_thresholds, measure_completions, sample_completions
from train.swarm.verification.thresholds import DistanceThreshold, ShareThreshold, Thresholds
from train.swarm.verification.verdicts import Distances, find_violations, judge_completions
from train.swarm.verification.verifier_model import VerifierModel

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

TOKENS = 64
(LEASE,) = swarm_answers.leases(1, answers=2, tokens=TOKENS, seed=4)


@dataclass(frozen=True)
class World:
    path: Path
    prefill: VerifierModel
    thresholds: Thresholds

    def steered(self, seed: int, turns: int, least: float, most: float) -> tuple[list[int], int]:
        """Draw an answer with the second best token at so many places where it is this far behind the best.

        Return it, and the number of these places.
        """
        lease = LEASE
        ids, n_turned = list(lease.prompt), 0
        with torch.inference_mode():
            for position in range(TOKENS):
                hidden_LH = self.prefill._model.get_decoder()(input_ids=torch.tensor([ids])).last_hidden_state[0]
                logits_1V = self.prefill._compute_logits(hidden_LH[-1:])
                _, _, noisy_1V = sample_tokens(logits_1V, lease.sampling_params.temperature, [seed], [position])
                best, second = noisy_1V[0].topk(2).indices.tolist()
                gap = float(noisy_1V[0, best] - noisy_1V[0, second])
                turns_here = n_turned < turns and least < gap <= most and second not in self.prefill.end_token_ids
                ids.append(second if turns_here else best)
                n_turned += turns_here
                if ids[-1] in self.prefill.end_token_ids:
                    break
        return ids[len(lease.prompt) :], n_turned

    def verdict(self, *answers: list[int]) -> VerificationResult:
        """Judge a file with these answers, whose commitments and log-probabilities are right."""
        completions = [SampledCompletion("", "length", len(ids), token_ids=tuple(ids)) for ids in answers]
        views = self.prefill.recompute_lease(completions, LEASE)
        rows = tuple(
            replace(
                row,
                commitments=commit(view.hidden_TH),
                logprobs=tuple(view.logprobs.tolist()),
            )
            for row, view in zip(completions, views, strict=True)
        )
        settings = swarm_answers.settings(self.path, {"": self.thresholds}, 640)
        return judge_completions(
            rows, LEASE, views, self.thresholds, settings, end_token_ids=self.prefill.end_token_ids
        )


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def world(request, tiny_model, tmp_path_factory) -> Iterator[World]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    path = swarm_answers.model(tmp_path_factory.mktemp("slack") / "model", tiny_model)
    prefill = VerifierModel(path, request.param)
    honest = swarm_answers.leases(16, tokens=TOKENS, answers=4, seed=1)
    answers = sample_completions(TransformersSampler(str(path)), honest, lambda n_finished: None)
    thresholds = fit_thresholds([measure_completions(prefill, *pair) for pair in zip(honest, answers, strict=True)])
    yield World(path, prefill, thresholds)
    torch.set_num_threads(threads)


def accepts(thresholds: Thresholds, n_turned: int, margin: float) -> bool:
    """Return whether two answers may have so many tokens that are this far below the best."""
    margins = np.zeros(2 * TOKENS)
    margins[:n_turned] = margin
    none, zeros = np.zeros(0), np.zeros(TOKENS)
    # Turns are in both answers: first in the odd places, which are those of the first one.
    answers = [Distances(none, none, (each > 0) * 1.0, each, zeros, zeros) for each in (margins[::2], margins[1::2])]
    return not [*find_violations(answers, thresholds)]


def max_turns(thresholds: Thresholds, margin: float) -> int:
    """Return how many tokens of two answers may be this far below the best."""
    return max(n for n in range(2 * TOKENS) if accepts(thresholds, n, margin))


def test_an_answer_may_turn_at_a_near_tie_and_that_is_all(world: World) -> None:
    first, second = LEASE.seeds
    most = world.thresholds.margins.limit
    honest, _ = world.steered(first, 0, 0, 0)
    other, _ = world.steered(second, 0, 0, 0)
    assert world.verdict(honest, other).verdict == ACCEPTED
    turned, n_turned = world.steered(first, 1, 0, most)
    if n_turned:  # in float32, few answers of this length have a tie that is near enough
        assert turned != honest
        assert world.verdict(turned, other).verdict == ACCEPTED
    forced, n_forced = world.steered(first, 1, 1.01 * most, 10.0)
    assert n_forced == 1
    assert world.verdict(forced, other).verdict.reason == "replay"


def test_an_answer_cannot_turn_more_often_than_rounding_explains(world: World) -> None:
    first, second = LEASE.seeds
    any_margin = DistanceThreshold(mean=10.0, variance=100.0, scale=10.0, limit=100.0)
    # thresholds whose margins would let it pass
    lax = replace(world, thresholds=structs_replace(world.thresholds, margins=any_margin))
    allowed = max_turns(lax.thresholds, 1.0)
    turned, n_turned = world.steered(first, (allowed + 2) // 2, 0, 10.0)
    other, n_others = world.steered(second, allowed + 1 - n_turned, 0, 10.0)
    assert n_turned + n_others == allowed + 1
    assert lax.verdict(turned, other).verdict.reason == "replay"


def test_an_answer_cannot_turn_at_every_tie_that_is_just_near_enough(world: World) -> None:
    first, second = LEASE.seeds
    most, thresholds = world.thresholds.margins.limit, world.thresholds
    allowed = max_turns(thresholds, most / 2)
    any_number = structs_replace(thresholds, seed_mismatches=ShareThreshold(0.99))  # if the count would let it pass
    turned, n_turned = world.steered(first, (allowed + 2) // 2, most / 2, most)
    other, n_others = world.steered(second, allowed + 1 - n_turned, most / 2, most)
    if most < 0.1:  # in float32, few ties are near enough
        assert n_turned + n_others <= allowed
        return
    assert n_turned + n_others == allowed + 1
    assert replace(world, thresholds=any_number).verdict(turned, other).verdict.reason == "replay"
    any_margin = DistanceThreshold(mean=10.0, variance=100.0, scale=10.0, limit=100.0)
    lax = replace(world, thresholds=structs_replace(thresholds, margins=any_margin))
    assert lax.verdict(turned, other).verdict == ACCEPTED


def test_a_cheat_gains_little_more_than_what_rounding_turns_by_itself(world: World) -> None:
    """Of the tokens of 16 answers of 4,000 tokens, whose gaps are those of a model that is unsure of every token."""
    rng, rate = np.random.default_rng(0), world.thresholds.seed_mismatches.rate
    gaps = rng.exponential(1.0, (16, 4000))
    turned = []
    for nearest in np.geomspace(1e-4, 1.0, 80):
        margins = np.where(gaps < nearest, gaps, 0.0)
        none, zeros = np.zeros(0), np.zeros(4000)
        answers = [Distances(none, none, (each > 0) * 1.0, each, zeros, zeros) for each in margins]
        if not [*find_violations(answers, world.thresholds)]:
            turned.append(float((margins > 0).mean()))
    assert max(turned) < 1.3 * rate + 5e-4
