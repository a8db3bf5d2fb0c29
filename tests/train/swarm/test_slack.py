"""What the checks leave to a cheat: near ties. Where two tokens are nearly equal, honest engines may draw either one,
so a cheat may choose, and has to draw on from there as it must. It can thus pick one of several answers, no more."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

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
from train.swarm.settings import Thresholds
from train.swarm.verification.calibrate import fit_thresholds, measure_completions, sample_completions
from train.swarm.verification.threshold_checks import max_mismatches
from train.swarm.verification.verdicts import verdict_on_completions
from train.swarm.verification.verifier_model import VerifierModel

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

TOKENS = 64
(LEASE,) = swarm_answers.leases(1, answers=2, tokens=TOKENS, seed=4)


@dataclass(frozen=True)
class World:
    path: Path
    prefill: VerifierModel
    bars: Thresholds

    def steered(self, seed: int, turns: int, least: float, most: float) -> tuple[list[int], int]:
        """Draw an answer with the second best token at so many places where it is this far behind the best.

        Return it, and the number of these places.
        """
        lease = LEASE
        ids, n_turned = list(lease.prompt), 0
        with torch.inference_mode():
            for position in range(TOKENS):
                hidden_LH = self.prefill._model.get_decoder()(input_ids=torch.tensor([ids])).last_hidden_state[0]
                logits_1V = self.prefill._logits(hidden_LH[-1:])
                _, _, noisy_1V = sample_tokens(logits_1V, lease.sampling_params.temperature, [seed], [position])
                best, second = noisy_1V[0].topk(2).indices.tolist()
                gap = float(noisy_1V[0, best] - noisy_1V[0, second])
                turns_here = n_turned < turns and least < gap <= most and second not in self.prefill.ends
                ids.append(second if turns_here else best)
                n_turned += turns_here
                if ids[-1] in self.prefill.ends:
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
        settings = swarm_answers.settings(self.path, {"": self.bars}, 640)
        return verdict_on_completions(rows, LEASE, views, self.bars, settings, ends=self.prefill.ends)


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def world(request, tiny_model, tmp_path_factory) -> Iterator[World]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    path = swarm_answers.model(tmp_path_factory.mktemp("slack") / "model", tiny_model)
    prefill = VerifierModel(path, request.param)
    honest = swarm_answers.leases(4, tokens=TOKENS, answers=16, seed=1)
    answers = sample_completions(TransformersSampler(str(path)), honest, lambda n_finished: None)
    bars = fit_thresholds([measure_completions(prefill, *pair) for pair in zip(honest, answers, strict=True)])
    yield World(path, prefill, bars)
    torch.set_num_threads(threads)


def test_an_answer_may_turn_at_a_near_tie_and_that_is_all(world: World) -> None:
    first, second = LEASE.seeds
    honest, _ = world.steered(first, 0, 0, 0)
    other, _ = world.steered(second, 0, 0, 0)
    assert world.verdict(honest, other).verdict == ACCEPTED
    turned, n_turned = world.steered(first, 1, 0, world.bars.max_margin)
    if n_turned:  # in float32, few answers of this length have a tie that is near enough
        assert turned != honest
        assert world.verdict(turned, other).verdict == ACCEPTED
    forced, n_forced = world.steered(first, 1, 1.01 * world.bars.max_margin, 10.0)
    assert n_forced == 1
    assert world.verdict(forced, other).verdict.reason == "replay"


def test_an_answer_cannot_turn_more_often_than_rounding_explains(world: World) -> None:
    first, second = LEASE.seeds
    allowed = max_mismatches(2 * TOKENS, world.bars.seed_match_share, world.bars.seed_match_sigmas)
    lax = replace(
        world, bars=structs_replace(world.bars, max_margin=10.0, margin_mean=1.0)
    )  # if the margin alone would let it pass
    turned, n_turned = world.steered(first, allowed + 1, 0, 10.0)
    other, n_others = world.steered(second, allowed + 1 - n_turned, 0, 10.0)
    assert n_turned + n_others == allowed + 1
    assert lax.verdict(turned, other).verdict.reason == "replay"


def test_an_answer_cannot_turn_at_every_tie_that_is_just_near_enough(world: World) -> None:
    first, second = LEASE.seeds
    most, bars = world.bars.max_margin, world.bars
    # The count alone would let it pass, also with the four misses that rounding may add on some processors.
    each = (max_mismatches(2 * TOKENS, bars.seed_match_share, bars.seed_match_sigmas) - 4) // 2
    turned, n_turned = world.steered(first, each, most / 2, most)
    other, n_others = world.steered(second, each, most / 2, most)
    has_many = most > 0.1  # in float32, few tokens may miss, and few ties are near enough
    assert (n_turned + n_others >= 6) is has_many
    if not has_many:
        return
    assert world.verdict(turned, other).verdict.reason == "replay"
    lax = replace(world, bars=structs_replace(bars, margin_mean=1.0))
    assert lax.verdict(turned, other).verdict == ACCEPTED
