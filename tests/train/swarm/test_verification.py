"""Honest answers pass the verifier, and every way to cheat that is known does not."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import swarm_answers
import torch
from honest_commitments import COMMITMENT_BYTES, commit

from train.asynchronous.messages import ACCEPTED, Lease, LeaseVerdict, unpack_logprobs, unpack_tokens
from train.errors import ConfigError, SamplerError
from train.sampling.protocol import SampledCompletion
from train.sampling.transformers import TransformersSampler
from train.swarm.messages import VerificationResult
from train.swarm.settings import SwarmSettings
from train.swarm.verification import calibrate
from train.swarm.verification.calibrate import fit_thresholds
from train.swarm.verification.thresholds import (
    FALSE_REJECT_RATE,
    DistanceThreshold,
    ShareThreshold,
    Thresholds,
    select_thresholds,
)
from train.swarm.verification.verdicts import Distances, find_violations, judge_completions
from train.swarm.verification.verifier_model import Recomputation, VerifierModel

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch and transformers about each other

LEASES = swarm_answers.leases(3, tokens=64)
Completions = tuple[SampledCompletion, ...]
PAIRS = ["float32", "bfloat16"]  # the engine draws in float32; in bfloat16, the verifier differs as other engines do
COARSE_FIRST = ["bfloat16", pytest.param("float32", marks=pytest.mark.thorough)]  # bfloat16 hides more of a cheat


@dataclass(frozen=True)
class World:
    """A model on the side of a node and on that of a verifier, and the thresholds between them."""

    path: Path
    engine: TransformersSampler
    prefills: dict[str, VerifierModel]
    settings: SwarmSettings
    honest: dict[int, Completions] = field(default_factory=dict)  # by lease
    views: dict[tuple[int, str], list[Recomputation]] = field(
        default_factory=dict
    )  # of honest files, by lease and pair

    def verdict_on(self, lease: Lease, file: Completions, pair: str) -> VerificationResult:
        views = self.views_of(lease, file, pair)
        return judge_completions(
            file,
            lease,
            views,
            self.settings.thresholds[pair],
            self.settings,
            end_token_ids=self.prefills[pair].end_token_ids,
        )

    def views_of(self, lease: Lease, file: Completions, pair: str) -> list[Recomputation]:
        """Return what a verifier computes; for an honest file, compute it once."""
        if file is not self.honest.get(lease.group):
            return self.prefills[pair].recompute_lease(file, lease)
        key = lease.group, pair
        if key not in self.views:
            self.views[key] = self.prefills[pair].recompute_lease(file, lease)
        return self.views[key]

    def verdicts(self, pair: str, make: Callable[[Lease], Completions]) -> list[VerificationResult]:
        return [self.verdict_on(lease, make(lease), pair) for lease in LEASES]


@pytest.fixture(scope="module")
def world(tiny_model, tmp_path_factory) -> Iterator[World]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them would wait for each other on a busy machine
    path = swarm_answers.model(tmp_path_factory.mktemp("swarm") / "model", tiny_model)
    engine, prefills = TransformersSampler(str(path)), {pair: VerifierModel(path, pair) for pair in PAIRS}
    honest = swarm_answers.leases(32, tokens=64, answers=4, seed=1)
    answers = list(zip(honest, calibrate.sample_completions(engine, honest, lambda n_finished: None), strict=True))
    thresholds = {
        pair: fit_thresholds(
            [calibrate.measure_completions(prefill, lease, completions) for lease, completions in answers]
        )
        for pair, prefill in prefills.items()
    }
    yield World(path, engine, prefills, swarm_answers.settings(path, thresholds, 640))
    torch.set_num_threads(threads)


def changed(world: World, change: Callable[[torch.nn.Module], None]) -> TransformersSampler:
    """Return an engine with other weights."""
    engine = TransformersSampler(str(world.path))
    with torch.no_grad():
        change(engine._model)
    return engine


def quantised(bits: int) -> Callable[[torch.nn.Module], None]:
    def change(model: torch.nn.Module) -> None:
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "layers" in name:
                scale = weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
                weight.copy_((weight / scale).round() * scale)

    return change


def moved(rate: float) -> Callable[[torch.nn.Module], None]:
    """Return one step of Adam, whose updates all have the size of the learning rate."""

    def change(model: torch.nn.Module) -> None:
        generator = torch.Generator().manual_seed(5)
        for weight in model.parameters():
            weight += rate * torch.randn(weight.shape, generator=generator).sign()

    return change


def honest(world: World, lease: Lease, **other: Any) -> Completions:
    """Return the file of an honest engine; draw it once, unless something is other than leased."""
    if other:
        return tuple(swarm_answers.drawn(world.engine, lease, **other))
    if lease.group not in world.honest:
        world.honest[lease.group] = tuple(swarm_answers.drawn(world.engine, lease))
    return world.honest[lease.group]


def with_right_commitments(world: World, lease: Lease, answers: list[SampledCompletion]) -> Completions:
    """Return a file whose commitments and log-probabilities are those of the right model, whatever drew the tokens."""
    file = tuple(answers)
    views = world.prefills["float32"].recompute_lease(file, lease)
    rows = [
        replace(
            row,
            commitments=commit(view.hidden_TH),
            logprobs=tuple(view.logprobs.tolist()),
        )
        for row, view in zip(file, views, strict=True)
    ]
    return tuple(rows)


def with_row(file: Completions, **fields: Any) -> Completions:
    """Return the file with something else in its first row."""
    return (replace(file[0], **fields), *file[1:])


def no_views() -> Iterator[Recomputation]:
    raise AssertionError("nothing has to be computed in order to reject this")
    yield


@pytest.mark.parametrize("pair", PAIRS)
def test_honest_answers_are_accepted_with_the_log_probabilities_of_the_verifier(world, pair):
    for lease in LEASES:
        file = honest(world, lease)
        found = world.verdict_on(lease, file, pair)
        assert found.verdict == ACCEPTED
        for row, view, answer in zip(file, world.views_of(lease, file, pair), found.results, strict=True):
            assert tuple(unpack_tokens(answer.tokens)) == row.token_ids
            assert list(unpack_logprobs(answer.logprobs)) == view.logprobs.tolist()
            assert answer.finish_reason == row.finish_reason
        assert found.figures["seed_mismatches"] < 0.05


@pytest.mark.parametrize("pair", COARSE_FIRST)
@pytest.mark.parametrize(("tokens", "n_leases"), [(1, 48), (33, 12)])
def test_short_honest_answers_and_short_last_chunks_are_accepted(world, pair, tokens, n_leases):
    """The values of one token have small ones among them, which rounding changes more than the largest of a chunk."""
    found = [
        world.verdict_on(lease, honest(world, lease), pair)
        for lease in swarm_answers.leases(n_leases, tokens=tokens, seed=7 + tokens)
    ]
    rejected = [(one.verdict, one.figures) for one in found if one.verdict != ACCEPTED]
    assert not rejected, world.settings.thresholds[pair]


@pytest.mark.parametrize("pair", COARSE_FIRST)
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param({"temperature": 1.0}, "replay", id="temperature 1.0 for 0.8"),
        pytest.param({"temperature": 0.6}, "replay", id="temperature 0.6 for 0.8", marks=pytest.mark.thorough),
        pytest.param({"temperature": 0.0}, "replay", id="greedy"),
        pytest.param({"seeds": (1, 2, 3, 4)}, "replay", id="other seeds"),
        pytest.param({"prompt": (7, 8, 9, 10, 11)}, "commitments", id="another prompt"),
    ],
)
def test_drawing_otherwise_is_rejected(world, pair, other, reason):
    found = world.verdicts(pair, lambda lease: honest(world, lease, **other))
    assert {one.verdict.reason for one in found} == {reason}
    # The fewer tokens and the coarser the numbers, the more does a temperature look like rounding.
    takes_more = pair == "bfloat16" and other.get("temperature", 0.0) > 0
    assert {one.verdict.outcome for one in found} <= {"hard", *(["soft"] if takes_more else [])}
    assert not any(one.results for one in found)


def test_one_token_of_the_prompt_is_enough(world):
    found = world.verdicts(
        "bfloat16", lambda lease: honest(world, lease, prompt=(lease.prompt[0] ^ 1, *lease.prompt[1:]))
    )
    assert {one.verdict for one in found} == {LeaseVerdict("hard", "commitments")}


@pytest.mark.parametrize("temperature", [pytest.param(0.75, marks=pytest.mark.thorough), 0.85])
def test_a_temperature_nearby_is_rejected_if_there_are_enough_tokens(world, temperature):
    (lease,) = swarm_answers.leases(1, tokens=64, answers=32, seed=3)
    for pair, outcomes in (("float32", {"hard"}), ("bfloat16", {"hard", "soft"})):
        found = world.verdict_on(lease, honest(world, lease, temperature=temperature), pair)
        assert found.verdict.reason == "replay"
        assert found.verdict.outcome in outcomes


@pytest.mark.parametrize(
    ("change", "outcomes"),
    [
        pytest.param(quantised(8), {"float32": {"hard"}, "bfloat16": {"hard", "soft"}}, id="int8"),
        pytest.param(quantised(4), {"float32": {"hard"}, "bfloat16": {"hard"}}, id="int4"),
        pytest.param(moved(0.03), {"float32": {"hard"}, "bfloat16": {"hard"}}, id="another model"),
    ],
)
def test_other_weights_are_rejected(world, change, outcomes):
    engine = changed(world, change)
    for pair in PAIRS:
        found = world.verdicts(pair, lambda lease: tuple(swarm_answers.drawn(engine, lease)))
        assert {one.verdict.outcome for one in found} <= outcomes[pair]
        assert {one.verdict.reason for one in found} <= {"commitments", "replay"}


def test_weights_of_one_step_before_cannot_be_told_apart_and_need_not_be(world):
    engine = changed(world, moved(1e-6))
    found = world.verdicts("bfloat16", lambda lease: tuple(swarm_answers.drawn(engine, lease)))
    assert {one.verdict for one in found} == {ACCEPTED}


@pytest.mark.parametrize("pair", COARSE_FIRST)
def test_a_cheap_model_behind_right_commitments_is_found_by_the_replay(world, pair):
    cheap = changed(world, quantised(4))
    for lease in LEASES:
        file = with_right_commitments(world, lease, swarm_answers.drawn(cheap, lease))
        found = world.verdict_on(lease, file, pair)
        assert found.verdict == LeaseVerdict("hard", "replay")
        assert found.figures["exponent_mismatches_max"] <= world.settings.thresholds[pair].exponent_mismatches.limit


def test_without_a_replay_a_cheap_model_is_found_by_its_unlikely_tokens(world):
    cheap = changed(world, moved(0.03))
    settings, prefill = replace_replays(world.settings), world.prefills["float32"]
    for lease in LEASES:
        for file, verdict in (
            (honest(world, lease), ACCEPTED),
            (with_right_commitments(world, lease, swarm_answers.drawn(cheap, lease)), LeaseVerdict("soft", "unlikely")),
        ):
            views = prefill.recompute_lease(file, lease)
            found = judge_completions(
                file, lease, views, world.settings.thresholds["float32"], settings, end_token_ids=prefill.end_token_ids
            )
            assert found.verdict == verdict


def replace_replays(settings: SwarmSettings) -> SwarmSettings:
    return SwarmSettings(settings.run, settings.engine, settings.vocab_size, settings.thresholds, check_seeds=False)


@pytest.mark.parametrize("pair", COARSE_FIRST)
def test_the_best_of_several_answers_is_not_the_answer_that_was_asked_for(world, pair):
    lease = LEASES[0]
    tries = [
        swarm_answers.drawn(world.engine, lease, seeds=[seed + attempt for seed in lease.seeds]) for attempt in range(4)
    ]
    best = [max(answers, key=lambda answer: sum(answer.logprobs)) for answers in zip(*tries, strict=True)]
    assert best != list(tries[0])
    assert world.verdict_on(lease, tuple(best), pair).verdict == LeaseVerdict("hard", "replay")


@pytest.mark.parametrize("pair", COARSE_FIRST)
def test_one_token_that_was_put_in_is_found_even_behind_right_commitments(world, pair):
    rng = random.Random(0)
    for lease in LEASES:
        (first, *others) = swarm_answers.drawn(world.engine, lease)
        ids = list(first.token_ids)
        place = rng.randrange(len(ids))
        ids[place] = 5 + (ids[place] + 100) % 200
        file = with_right_commitments(world, lease, [replace(first, token_ids=tuple(ids)), *others])
        assert world.verdict_on(lease, file, pair).verdict.reason == "replay"


def test_an_answer_ends_where_it_may_end(world):
    lease, prefill = LEASES[0], world.prefills["float32"]
    (end,) = prefill.end_token_ids
    file = honest(world, lease)
    first = file[0]
    for ids in (first.token_ids[:-1], (*first.token_ids[:5], end, *first.token_ids[6:])):
        short = with_row(
            file,
            token_ids=ids,
            commitments=first.commitments[: COMMITMENT_BYTES * -(-len(ids) // 32)],
        )
        found = judge_completions(
            short, lease, no_views(), Thresholds(), world.settings, end_token_ids=prefill.end_token_ids
        )
        assert found.verdict == LeaseVerdict("soft", "termination")
    ended = [replace(first, token_ids=(*first.token_ids[:20], end)), *file[1:]]
    answers = [SampledCompletion("", row.finish_reason, len(row.token_ids), token_ids=row.token_ids) for row in ended]
    forged = with_right_commitments(world, lease, answers)
    assert world.verdict_on(lease, forged, "float32").verdict == LeaseVerdict("hard", "replay")


def test_without_a_replay_an_end_needs_a_chance(world):
    lease, prefill = LEASES[0], world.prefills["float32"]
    (end,) = prefill.end_token_ids
    answers = [
        replace(answer, token_ids=(*answer.token_ids[:3], end)) for answer in swarm_answers.drawn(world.engine, lease)
    ]
    file = with_right_commitments(world, lease, answers)
    thresholds = Thresholds(end_probability=1.0, unlikely_tokens=ShareThreshold(0.99))
    views = prefill.recompute_lease(file, lease)
    found = judge_completions(
        file, lease, views, thresholds, replace_replays(world.settings), end_token_ids=prefill.end_token_ids
    )
    assert found.verdict == LeaseVerdict("soft", "termination")


def test_malformed_commitments_are_rejected_before_anything_is_computed(world):
    lease = LEASES[0]
    file = honest(world, lease)
    for data in (b"", file[0].commitments[:-1], b"\0" * len(file[0].commitments)):
        forged = with_row(file, commitments=data)
        found = judge_completions(
            forged,
            lease,
            no_views(),
            Thresholds(),
            world.settings,
            end_token_ids=world.prefills["float32"].end_token_ids,
        )
        assert found.verdict == LeaseVerdict("hard", "malformed")


def test_whatever_the_commitments_are_there_is_a_verdict(world):
    lease = LEASES[0]
    file = honest(world, lease)
    views = list(world.views_of(lease, file, "float32"))
    sizes = [len(row.commitments) for row in file]
    rng, reasons = random.Random(0), set()
    for _ in range(10_000):
        size = rng.choice((*sizes[:1] * 2, 0, 1, COMMITMENT_BYTES, rng.randrange(1000)))
        data = bytearray(rng.randbytes(size))
        if rng.random() < 0.1:  # well formed
            data = bytearray(np.frombuffer(data[: size // 2 * 2], dtype=">u2").clip(0, 65000).tobytes())
            data[::COMMITMENT_BYTES] = b"\xf0" * len(data[::COMMITMENT_BYTES])
        forged = with_row(file, commitments=bytes(data))
        found = judge_completions(
            forged, lease, views, Thresholds(), world.settings, end_token_ids=world.prefills["float32"].end_token_ids
        )
        assert found.verdict.outcome == "hard"
        reasons.add(found.verdict.reason)
    assert reasons == {"malformed", "commitments"}


def test_log_probabilities_that_are_not_the_models_are_noticed_and_never_used(world):
    lease = LEASES[0]
    file = honest(world, lease)
    lying = with_row(file, logprobs=tuple(logprob - 1 for logprob in file[0].logprobs))
    assert world.verdict_on(lease, lying, "float32").verdict == LeaseVerdict("soft", "probabilities")


def test_a_verifier_that_computes_no_numbers_does_not_know(world):
    lease = LEASES[0]
    file = honest(world, lease)
    views = list(world.views_of(lease, file, "float32"))
    views[1] = replace(views[1], logprobs=views[1].logprobs * np.float32(np.nan))
    found = judge_completions(
        file, lease, views, Thresholds(), world.settings, end_token_ids=world.prefills["float32"].end_token_ids
    )
    assert found.verdict == LeaseVerdict("unknown", "crashed")


def test_answers_that_are_computed_together_look_as_they_do_alone(world):
    prefill, file = world.prefills["float32"], honest(world, LEASES[1])
    views = prefill.recompute_lease(file, LEASES[1])
    for row, seed, view in zip(file, LEASES[1].seeds, views, strict=True):
        alone = prefill.recompute(LEASES[1].prompt, row.token_ids, 0.8, seed)
        assert np.allclose(alone.logprobs, view.logprobs, atol=1e-5)
        assert (alone.margins <= 0).sum() == (view.margins <= 0).sum() == len(row.token_ids)
    assert prefill.recompute_many([]) == []


def test_a_verifier_loads_versions_as_engines_do(world, tmp_path):
    from safetensors.torch import save_file

    engine, prefill = changed(world, moved(0.01)), VerifierModel(world.path)
    save_file({name: one.clone() for name, one in engine._model.named_parameters()}, tmp_path / "new.safetensors")
    file = tuple(swarm_answers.drawn(engine, LEASES[0]))
    for loaded, verdict in ((False, "hard"), (True, "accepted")):
        if loaded:
            prefill.load([tmp_path / "new.safetensors"])
        views = prefill.recompute_lease(file, LEASES[0])
        found = judge_completions(
            file,
            LEASES[0],
            views,
            world.settings.thresholds["float32"],
            world.settings,
            end_token_ids=prefill.end_token_ids,
        )
        assert found.verdict.outcome == verdict
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(SamplerError, match="other are not weights"):
        prefill.load([tmp_path / "other.safetensors"])


def test_a_family_whose_head_does_more_is_refused(tmp_path, tiny_model):
    import random_models
    from transformers import AutoTokenizer

    path = random_models.folder(tmp_path / "granite", "granite")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(path)
    with pytest.raises(SamplerError, match="after the output layer"):
        VerifierModel(path)


def distances(n_tokens: int, **values: Any) -> Distances:
    """Return distances that are all 0, but for some values: the first ones of their kind."""
    n_units = {name: n_tokens for name in Distances.__dataclass_fields__}
    n_units |= {name: n_tokens // 32 for name in ("exponent_mismatches", "mantissa_differences")}
    found = {name: np.zeros(n) for name, n in n_units.items()}
    for name, first in values.items():
        found[name][: len(first)] = first
    return Distances(**found)


def test_thresholds_follow_the_tail_of_honest_answers_but_are_not_below_a_floor():
    rng = np.random.default_rng(0)
    leases = [
        [distances(1000, margins=rng.exponential(0.05, 20), seed_mismatches=np.ones(20)) for _ in range(4)]
        for _ in range(16)
    ]
    thresholds = fit_thresholds(leases)
    # One token in 4,000 * 10 / rate: of 20 in 1,000, it is e^-x that far out.
    expected = 0.05 * np.log(0.02 * 4000 * 10 / FALSE_REJECT_RATE)
    assert expected < thresholds.margins.limit < 1.6 * expected
    assert thresholds.seed_mismatches.rate == pytest.approx(0.02, rel=0.1)
    assert thresholds.seed_mismatches.spread == 0  # in each lease there were as many
    assert (thresholds.exponent_mismatches.limit, thresholds.mantissa_differences.limit) == (4, 1)
    coarse = fit_thresholds([[distances(1000, mantissa_differences=np.full(31, 0.4))]] * 4)
    assert (coarse.exponent_mismatches.limit, coarse.seed_mismatches.rate) == (12, 0.005)
    for too_few in ([[distances(500)]], [[distances(2000)]], [[distances(100)]] * 4):
        with pytest.raises(ConfigError, match="too few"):
            fit_thresholds(too_few)


def test_leases_that_differ_among_each_other_have_wider_thresholds():
    alike = fit_thresholds([[distances(1000, seed_mismatches=np.ones(20))]] * 16)
    unlike = fit_thresholds([[distances(1000, seed_mismatches=np.ones(n))] for n in (0, 40) * 8])
    assert unlike.seed_mismatches.spread == pytest.approx(0.02, rel=0.1)
    lease = [distances(1000, seed_mismatches=np.ones(60))]
    assert [*find_violations(lease, alike)]
    assert not [*find_violations(lease, unlike)]


def test_a_lease_is_judged_over_all_of_its_tokens_not_by_the_mean_of_its_answers():
    thresholds = Thresholds()
    short = [distances(2, seed_mismatches=[1, 1], margins=[0.05, 0.05])] * 4
    assert not [*find_violations([distances(4000), *short], thresholds)]


def test_few_tokens_are_as_seldom_rejected_as_many():
    rng = np.random.default_rng(0)
    log_odds = float(np.log(1000))
    count, value = ShareThreshold(0.02), DistanceThreshold(mean=0.002, variance=4e-4, scale=0.1, limit=10)
    for n_tokens, n_leases in ((1, 100_000), (30, 100_000), (1000, 10_000)):
        misses = (rng.random((n_leases, n_tokens)) < 0.02).astype(np.float64)
        margins = misses * rng.exponential(0.1, misses.shape)
        for threshold, values in ((count, misses), (value, margins)):
            beyond = np.mean([threshold.severity(each, log_odds) > 1 for each in values[: n_leases // 5]])
            assert beyond <= 1e-3, (n_tokens, threshold)


def test_a_token_is_too_short_for_a_ban_and_a_chunk_is_not():
    for n_tokens, outcome in ((1, "soft"), (31, "soft"), (32, "hard")):
        found = [*find_violations([distances(n_tokens, seed_mismatches=[1], margins=[9.0])], Thresholds())]
        assert found[0] == LeaseVerdict(outcome, "replay")  # type: ignore[arg-type]


def test_thresholds_are_found_by_the_first_word_of_the_engine():
    vllm, other = swarm_answers.bars_of(margin=0.1), swarm_answers.bars_of(margin=0.2)
    thresholds = {"vllm/transformers": vllm, "": other}
    assert select_thresholds(thresholds, "vllm 0.32.0 cpu") is vllm
    assert select_thresholds(thresholds, "transformers 5") is select_thresholds(thresholds, "") is other
    assert select_thresholds({}, "vllm") == Thresholds()


def test_an_engine_that_nobody_has_calibrated_gets_no_wider_thresholds():
    narrow, wide = swarm_answers.bars_of(margin=0.02), swarm_answers.bars_of(margin=0.5)
    assert select_thresholds({"vllm/transformers": wide, "transformers/transformers": narrow}, "invented 1.0") is narrow


@pytest.mark.thorough
@pytest.mark.parametrize("pair", PAIRS)
def test_of_500_honest_answers_none_is_rejected(world, pair):
    rejected = []
    for lease in swarm_answers.leases(125, answers=4, tokens=64, seed=2):
        found = world.verdict_on(lease, honest(world, lease), pair)
        rejected += [] if found.verdict == ACCEPTED else [(found.verdict, found.figures)]
    assert not rejected
