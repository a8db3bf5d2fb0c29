"""The cost of verification, its error rates, and undetectable changes:  python -m benchmarks.swarm.verification

Costs: commitments to 1,024 tokens of width 5,120 (a 32B model), noise for a vocabulary of 152,000, and the ratio of a
verifier's prefill time to vLLM's sampling time.

Error rates: vLLM samples leases with a random model, in float32 and in bfloat16, honestly and with the cheats of
`make_cheats`. transformers verifies them in the same precision, with thresholds calibrated on separate leases.

Undetectable changes: a cheat with knowledge of the thresholds takes the second best token where it is closest to the
best one. Leases of several sizes are composed of the gaps between the two that the verifier computes.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchmarks.model_sizes import load_qwen2_5_size
from benchmarks.record import describe_machine, save_results
from benchmarks.tiny_training import VLLM_ON_CPU
from train.asynchronous.messages import Lease
from train.learning.flops import count_attention_pairs
from train.planning.engine import GPUS, estimate_engine_timings
from train.sampling.commitment import compute_commitment_distances, decode_commitments
from train.sampling.protocol import SampledCompletion, SamplingParams
from train.swarm.verification.calibrate import fit_thresholds, measure_completions, sample_completions
from train.swarm.verification.thresholds import Thresholds
from train.swarm.verification.verdicts import Distances, FloatArray, find_violations, pool_distances
from train.swarm.verification.verifier_model import VerifierModel

TEMPERATURE, COMPLETION_TOKENS, COMPLETIONS = 0.8, 96, 4
CALIBRATION_LEASES, HONEST_LEASES, CHEATING_LEASES = 64, 800, 40
LEASE_SIZES = ((4, 96), (16, 500), (16, 4000), (16, 16_000))  # completions, tokens of each
Weights = Iterable[tuple[str, Any]]
MeasuredLeases = list[list[Distances]]


@dataclass(frozen=True, slots=True)
class SamplingCase:
    """One way to sample.

    change                 change of each weight
    has_right_commitments  the right model computes commitments and log-probabilities
    """

    name: str
    change: Callable[[Any], Any] | None = None
    temperature: float = TEMPERATURE
    other_seeds: bool = False
    replaces_token: bool = False
    has_right_commitments: bool = False


def measure_costs() -> dict[str, float]:
    """Return the cost of commitments and noise, in microseconds per token on one thread, and bytes per token."""
    import torch

    from train.sampling.seeded_sampling import CommitmentRecorder, generate_gumbel_tensor, get_bfloat16_bits

    n_tokens, width = 1024, 5120
    hidden = torch.randn(n_tokens, width, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    logprob = torch.tensor(-1.0)

    def make() -> bytes:
        record = CommitmentRecorder()
        for position in range(n_tokens):
            record.record(position, hidden[position], logprob)
        return record.finish(n_tokens)[0]

    sent, bits = make(), get_bfloat16_bits(hidden)  # the first call makes the table of inverses
    found = {
        "commit_us": _time_fastest(make) / n_tokens * 1e6,
        "compare_us": _time_fastest(lambda: compute_commitment_distances(decode_commitments(sent, n_tokens), bits))
        / n_tokens
        * 1e6,
        "noise_us": _time_fastest(lambda: generate_gumbel_tensor(range(8), range(8), 152_000)) / 8 * 1e6,
        "bytes_a_token": len(sent) / n_tokens,
    }
    return {name: round(value, 2) for name, value in found.items()}


def _time_fastest(call: Callable[[], object], times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def estimate_verification_share() -> dict[str, dict[str, float]]:
    """Return the time of verification as a share of the time of sampling, from the data sheet of a GPU.

    On a CPU, sampling is compute-bound like a prefill, so both cost nearly the same. On a GPU it is memory-bound: each
    step reads all weights and caches for one token of each completion.
    """
    found = {}
    for name, model, gpus, prompt, answer in (
        ("7B on one H100, completions of 4,000 tokens", load_qwen2_5_size("7B"), 1, 500, 4_000),
        ("32B on two H100s, completions of 8,000 tokens", load_qwen2_5_size("32B"), 2, 500, 8_000),
    ):
        rates = estimate_engine_timings(model, GPUS["h100"], gpus=gpus)
        context = prompt + answer / 2
        concurrent = min(rates.max_concurrent, int(rates.cache_tokens / context))
        step = rates.step_seconds + concurrent * (
            rates.step_seconds_per_completion + context * rates.step_seconds_per_context_token
        )
        sample = answer * step / concurrent + prompt * rates.prefill_seconds_per_token
        pairs = count_attention_pairs(prompt, [answer])
        verify = answer * rates.step_seconds_per_completion + prompt * rates.prefill_seconds_per_token
        verify += pairs * rates.prefill_seconds_per_pair
        found[name] = {"verification_share": round(verify / sample, 4)}
    return found


def make_cheats() -> Iterator[SamplingCase]:
    yield SamplingCase("int8 weights", _quantize)
    yield SamplingCase("temperature -0.05", temperature=TEMPERATURE - 0.05)
    yield SamplingCase("temperature +0.05", temperature=TEMPERATURE + 0.05)
    yield SamplingCase("other seeds", other_seeds=True)
    yield SamplingCase("one token of a lease replaced", replaces_token=True, has_right_commitments=True)
    yield SamplingCase("int8 weights behind right commitments", _quantize, has_right_commitments=True)
    for rate in (1e-6, 1e-5, 1e-4):
        yield SamplingCase(f"one step old, learning rate {rate:.0e}", _make_random_step(rate))


def _quantize(weight: Any) -> Any:
    if weight.ndim != 2:
        return weight
    scale = weight.float().abs().amax(1, keepdim=True) / 127
    return ((weight.float() / scale).round() * scale).to(weight.dtype)


def _make_random_step(rate: float) -> Callable[[Any], Any]:
    import torch

    generator = torch.Generator().manual_seed(5)

    def change(weight: Any) -> Any:
        # The sum is in float32, the trainer's dtype; the engine rounds it to its own.
        return weight + rate * torch.randn(weight.shape, generator=generator).sign()

    return change


def draw_leases(n_leases: int, seed: int) -> list[Lease]:
    rng = np.random.default_rng(seed)
    params = SamplingParams(TEMPERATURE, 1.0, COMPLETION_TOKENS, logprobs=True, verifiable=True)
    return [
        Lease(
            group=group,
            attempt=0,
            version=0,
            prompt=tuple(rng.integers(5, 250, size=rng.integers(20, 100)).tolist()),
            seeds=tuple(rng.integers(2**31, size=COMPLETIONS).tolist()),
            sampling_params=params,
            expires_in_seconds=60.0,
        )
        for group in range(n_leases)
    ]


@dataclass(frozen=True)
class Pair:
    """An engine and a verifier of the same model, in one precision."""

    engine: Any
    verifier_model: VerifierModel
    weights: Weights

    def sample(self, leases: Sequence[Lease], case: SamplingCase) -> list[list[SampledCompletion]]:
        """Sample leases with vLLM."""
        change = case.change or (lambda weight: weight)
        self.engine.load([(name, change(weight)) for name, weight in self.weights], 0)
        changed = [
            msgspec.structs.replace(
                lease,
                sampling_params=replace(lease.sampling_params, temperature=case.temperature),
                seeds=tuple(seed + case.other_seeds for seed in lease.seeds),
            )
            for lease in leases
        ]
        completions = sample_completions(self.engine, changed, lambda done: None)
        if case.replaces_token:
            rng = np.random.default_rng(0)
            for answers in completions:
                ids = answers[0].token_ids[: rng.integers(1, len(answers[0].token_ids))]
                ids = (*ids[:-1], int(rng.integers(5, self.verifier_model.vocabulary)))
                answers[0] = replace(answers[0], token_ids=ids, logprobs=answers[0].logprobs[: len(ids)])
        return completions

    def measure_distances(self, leases: Sequence[Lease], case: SamplingCase) -> MeasuredLeases:
        """Return the distances of completions from transformers' recomputation."""
        found = []
        for lease, answers in zip(leases, self.sample(leases, case), strict=True):
            if case.has_right_commitments:
                views = self.verifier_model.recompute_lease(answers, lease)
                found.append([_make_token_distances(view.margins.astype(np.float64)) for view in views])
            else:
                found.append(measure_completions(self.verifier_model, lease, answers))
        return found

    def measure_gaps(self, leases: Sequence[Lease]) -> tuple[FloatArray, float]:
        """Return the gap between the best and the second best score at each token, and the mean of 1 - sum of p^2."""
        import torch

        from train.sampling.seeded_sampling import sample_tokens

        gaps, spread = [], []
        for lease, answers in zip(leases, self.sample(leases, SamplingCase("honest")), strict=True):
            for seed, answer in zip(lease.seeds, answers, strict=True):
                model, first = self.verifier_model._model, len(lease.prompt) - 1
                ids = torch.tensor([[*lease.prompt, *answer.token_ids]], device=model.device)
                with torch.inference_mode():
                    hidden_LH = model.get_decoder()(input_ids=ids).last_hidden_state[0]
                    logits_TV = self.verifier_model._compute_logits(hidden_LH[first : first + answer.n_tokens])
                    seeds, positions = [seed] * answer.n_tokens, range(answer.n_tokens)
                    best_T2 = sample_tokens(logits_TV, TEMPERATURE, seeds, positions)[2].topk(2, 1).values
                gaps += (best_T2[:, 0] - best_T2[:, 1]).tolist()
                spread += (1 - (logits_TV / TEMPERATURE).softmax(1).square().sum(1)).tolist()
        return np.array(gaps), float(np.mean(spread))


def _make_token_distances(margins: FloatArray) -> Distances:
    """Return the distances of a completion that differs from the verifier's only in its tokens."""
    none, zeros = np.zeros(0), np.zeros_like(margins)
    return Distances(none, none, (margins > 0).astype(np.float64), margins, zeros, zeros)


def count_outcomes(measured: MeasuredLeases, thresholds: Thresholds) -> dict[str, Any]:
    """Count rejected leases and bans, and bound rejections and acceptances per 1,000 leases.

    The bounds are those of the exact one-sided 95% interval of the binomial.
    """
    found = [{fault.outcome for fault in find_violations(lease, thresholds)} for lease in measured]
    n_leases, rejected, banned = len(found), sum(map(bool, found)), sum("hard" in each for each in found)
    return {
        "leases": n_leases,
        "rejected": rejected,
        "banned": banned,
        "rejected_at_most": _bound_per_1000(rejected, n_leases),
        "accepted_at_most": _bound_per_1000(n_leases - rejected, n_leases),
    }


def _bound_per_1000(n_hits: int, n_leases: int) -> float:
    """Return the exact one-sided 95% upper bound of a rate, per 1,000."""
    low, high = n_hits / n_leases, 1.0
    while high - low > 1e-6:
        rate = (low + high) / 2
        chance = sum(comb(n_leases, k) * rate**k * (1 - rate) ** (n_leases - k) for k in range(n_hits + 1))
        low, high = (rate, high) if chance > 0.05 else (low, rate)
    return round(1000 * high, 1)


def find_max_replaced_tokens(gaps: FloatArray, thresholds: Thresholds, n_completions: int, n_tokens: int) -> float:
    """Return the number of tokens per 1,000 that a cheat can replace undetected, in leases of this size."""
    chosen = np.random.default_rng(0).choice(gaps, (n_completions, n_tokens))
    replaced = 0.0
    for max_gap in np.geomspace(1e-5, 2, 120):
        margins: FloatArray = np.where(chosen < max_gap, chosen, 0.0).astype(np.float64)
        if not any(find_violations([_make_token_distances(each) for each in margins], thresholds)):
            replaced = max(replaced, float((margins > 0).mean()))
    return round(1000 * replaced, 2)


def measure_pair(path: Path, dtype: str) -> dict[str, Any]:
    """Return the error rates, undetectable changes and costs of vLLM against transformers in one precision."""
    from train.sampling.vllm import VllmSampler

    engine = VllmSampler(str(path), verifiable=True, dtype=dtype, max_model_len=512)
    pair = Pair(engine, VerifierModel(path, dtype), _load_weights(path))
    honest_case, calibration = SamplingCase("honest"), draw_leases(CALIBRATION_LEASES, 0)
    thresholds = fit_thresholds(pair.measure_distances(calibration, honest_case))
    honest = pair.measure_distances(draw_leases(HONEST_LEASES, 1), honest_case)
    together = pool_distances([answer for lease in honest for answer in lease])
    found = {"honest": count_outcomes(honest, thresholds)}
    for number, case in enumerate(make_cheats()):
        distances = pair.measure_distances(draw_leases(CHEATING_LEASES, 2 + number), case)
        found[case.name] = count_outcomes(distances, thresholds)
        print(f"{dtype}: {case.name} {found[case.name]}", flush=True)
    began = time.perf_counter()
    completions = pair.sample(calibration, honest_case)
    sampled = time.perf_counter()
    for lease, answers in zip(calibration, completions, strict=True):
        measure_completions(pair.verifier_model, lease, answers)
    verified = time.perf_counter()
    gaps, spread = pair.measure_gaps(calibration)
    engine.close()
    return {
        "thresholds": msgspec.to_builtins(thresholds),
        "cases": found,
        "honest_mismatches": round(1000 * float(together.seed_mismatches.mean()), 3),
        "near_ties": round(1000 * float((gaps < thresholds.margins.limit).mean()), 2),
        "replaceable": {
            f"{n} x {length:,}": find_max_replaced_tokens(gaps, thresholds, n, length) for n, length in LEASE_SIZES
        },
        "spread": round(spread, 4),
        "verification_share": round((verified - sampled) / (sampled - began), 4),
    }


def _load_weights(path: Path) -> list[tuple[str, Any]]:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return [(name, weight.detach()) for name, weight in model.named_parameters()]


def save_random_model(folder: Path) -> Path:
    """Save a random model whose predictions are neither certain nor uniform."""
    import tokenizers
    import torch
    import transformers

    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer: Any = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(
            tokenizers.models.BPE(vocab={letter: n for n, letter in enumerate(["<end>", *sorted(letters)])}, merges=[])
        ),
        eos_token="<end>",
        pad_token="<end>",
    )
    torch.manual_seed(0)
    causal: Any = transformers.Qwen2ForCausalLM
    model = causal(
        transformers.Qwen2Config(
            vocab_size=2048,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=6,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            initializer_range=0.04,
            tie_word_embeddings=False,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
    with torch.no_grad():
        model.get_output_embeddings().weight *= 3
    model.to(torch.bfloat16).float().save_pretrained(folder)  # weights that are exact in both precisions
    tokenizer.save_pretrained(folder)
    return folder


def main() -> None:
    os.environ.update(VLLM_ON_CPU)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = save_random_model(Path(folder))
        found = {
            "machine": describe_machine(),
            "lease": f"{COMPLETIONS} completions of {COMPLETION_TOKENS} tokens",
            "calibration_leases": CALIBRATION_LEASES,
            "costs": measure_costs(),
            "modelled": estimate_verification_share(),
            "pairs": {dtype: measure_pair(path, dtype) for dtype in ("float32", "bfloat16")},
        }
    save_results("verification", found)


if __name__ == "__main__":
    main()
