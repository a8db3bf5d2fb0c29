"""What commitments and their verification cost, and what they find.

    python -m benchmarks.swarm.verification     # some minutes on one core

Costs: commitments to 1,024 tokens of a model of width 5,120 (that of a 32B model), noise for a vocabulary of 152,000,
and, for a model that runs here, the time of a verifier's prefill beside that of drawing the answers with vLLM.

What is found: a random model of width 512 with 8 layers draws answers with vLLM, in float32 and in bfloat16, with its
own weights and temperature and with others; transformers verifies them in the same precision. Bars are calibrated on
answers of their own. It writes results/verification.json. One step old: every weight is moved by the learning rate.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.model_sizes import qwen2_5
from train.asynchronous.messages import Lease
from train.learning.flops import attention_pairs
from train.planning.engine import GPUS, estimate_engine_timings
from train.sampling.commitment import CHUNK_TOKENS, commitment_distances, decode_commitments
from train.sampling.protocol import SampledCompletion, SamplingParams
from train.swarm.settings import Thresholds
from train.swarm.verification.calibrate import fit_thresholds, sample_completions
from train.swarm.verification.distances import Distances, Recomputation, measure_distances, pool_distances
from train.swarm.verification.threshold_checks import completion_violations, file_violations
from train.swarm.verification.verifier_model import CompletionToVerify, VerifierModel

RESULTS = Path(__file__).parents[1] / "results" / "verification.json"
TEMPERATURE, ANSWER_TOKENS, GROUPS, ANSWERS = 0.8, 192, 8, 8
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_HONEST_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
Scores = dict[str, list[float]]  # by the name of a distance
Weights = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class SamplingCase:
    """One way to draw: with the weights that `change` makes of the model's, at a temperature."""

    name: str
    change: Callable[[Any], Any] | None = None
    temperature: float = TEMPERATURE


@dataclass(frozen=True, slots=True)
class VerifiedCase:
    """Answers of a case as the verifier sees them, by lease."""

    measured: tuple[tuple[Distances, ...], ...]
    chunks: Scores
    answers: Scores
    draw_seconds: float
    verify_seconds: float


def costs() -> dict[str, float]:
    """Return what commitments and noise cost, in microseconds a token on one thread, and bytes a token."""
    import torch

    from train.sampling.seeded_sampling import CommitmentRecorder, bfloat16_bits, gumbel_tensor

    n_tokens, width = 1024, 5120
    hidden = torch.randn(n_tokens, width, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    logprob = torch.tensor(-1.0)

    def make() -> bytes:
        record = CommitmentRecorder()
        for position in range(n_tokens):
            record.record(position, hidden[position], logprob)
        return record.finish(n_tokens)[0]

    sent, bits = make(), bfloat16_bits(hidden)  # the first call makes the table of inverses
    found = {
        "commit_us": _fastest(make) / n_tokens * 1e6,
        "compare_us": _fastest(lambda: commitment_distances(decode_commitments(sent, n_tokens), bits)) / n_tokens * 1e6,
        "noise_us": _fastest(lambda: gumbel_tensor(range(8), range(8), 152_000)) / 8 * 1e6,
        "bytes_a_token": len(sent) / n_tokens,
    }
    return {name: round(value, 2) for name, value in found.items()}


def _fastest(call: Callable[[], object], times: int = 3) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def modelled() -> dict[str, dict[str, float]]:
    """Return the share that verification has of the time of drawing, from the data sheet of a GPU.

    On a CPU, drawing is bound by arithmetic as a prefill is, so there they cost nearly the same. On a GPU it is bound
    by memory: each step reads all weights and caches for one token of each answer.
    """
    found = {}
    for name, model, gpus, prompt, answer in (
        ("7B on one H100, answers of 4,000 tokens", qwen2_5("7B"), 1, 500, 4_000),
        ("32B on two H100s, answers of 8,000 tokens", qwen2_5("32B"), 2, 500, 8_000),
    ):
        rates = estimate_engine_timings(model, GPUS["h100"], gpus=gpus)
        context = prompt + answer / 2
        at_once = min(rates.max_concurrent, int(rates.cache_tokens / context))
        step = rates.step_seconds + at_once * (
            rates.step_seconds_per_answer + context * rates.step_seconds_per_context_token
        )
        draw = answer * step / at_once + prompt * rates.prefill_seconds_per_token
        pairs = attention_pairs(prompt, [answer])
        verify = answer * rates.step_seconds_per_answer + prompt * rates.prefill_seconds_per_token
        verify += pairs * rates.prefill_seconds_per_pair
        found[name] = {"at_once": at_once, "verification_share": round(verify / draw, 4)}
    return found


def cases() -> Iterator[SamplingCase]:
    """Yield the ways to draw. The first sets the bars, the second is honest, too."""
    yield SamplingCase("calibration")
    yield SamplingCase("honest")
    yield SamplingCase("int8 weights", _quantised)
    yield SamplingCase("temperature -0.05", temperature=TEMPERATURE - 0.05)
    yield SamplingCase("temperature +0.05", temperature=TEMPERATURE + 0.05)
    for rate in (1e-6, 1e-5, 1e-4):
        yield SamplingCase(f"one step old, learning rate {rate:.0e}", _moved(rate))


def _quantised(weight: Any) -> Any:
    if weight.ndim != 2:
        return weight
    scale = weight.float().abs().amax(1, keepdim=True) / 127
    return ((weight.float() / scale).round() * scale).to(weight.dtype)


def _moved(rate: float) -> Callable[[Any], Any]:
    import torch

    generator = torch.Generator().manual_seed(5)

    def change(weight: Any) -> Any:
        # Added in float32, as a trainer keeps it, and rounded only then to the numbers that the engine has.
        return weight + rate * torch.randn(weight.shape, generator=generator).sign()

    return change


def leases(seed: int) -> list[Lease]:
    rng = np.random.default_rng(seed)
    draw = SamplingParams(TEMPERATURE, 1.0, ANSWER_TOKENS, logprobs=True, verifiable=True)
    return [
        Lease(
            group,
            0,
            0,
            tuple(rng.integers(5, 250, size=rng.integers(20, 100)).tolist()),
            tuple(rng.integers(2**31, size=ANSWERS).tolist()),
            draw,
            60.0,
        )
        for group in range(GROUPS)
    ]


def seen(engine: Any, prefill: VerifierModel, weights: Weights, case: SamplingCase, seed: int) -> VerifiedCase:
    """Draw the answers of a case, and look at them."""
    from msgspec.structs import replace

    changes = case.change or (lambda weight: weight)
    engine.load([(name, changes(weight)) for name, weight in weights], 0)
    asked = leases(seed)
    drawn_as = [
        replace(lease, sampling_params=replace(lease.sampling_params, temperature=case.temperature)) for lease in asked
    ]
    began = time.perf_counter()
    completions = sample_completions(engine, drawn_as, lambda done: None)
    drew = time.perf_counter()
    views = [_views(prefill, lease, answers) for lease, answers in zip(asked, completions, strict=True)]
    measured = tuple(
        tuple(
            measure_distances(decode_commitments(answer.commitments, answer.n_tokens), answer.logprobs, view)
            for answer, view in zip(answers, of_lease, strict=True)
        )
        for answers, of_lease in zip(completions, views, strict=True)
    )
    verified = time.perf_counter()
    pairs = [
        (answer, view)
        for answers, of_lease in zip(completions, views, strict=True)
        for answer, view in zip(answers, of_lease, strict=True)
    ]
    answers = [one for of_lease in measured for one in of_lease]
    return VerifiedCase(measured, _of_chunks(pairs), _of_answers(answers), drew - began, verified - drew)


def _views(prefill: VerifierModel, lease: Lease, answers: Sequence[SampledCompletion]) -> list[Recomputation]:
    return prefill.recompute_many(
        [
            CompletionToVerify(lease.prompt, answer.token_ids, lease.sampling_params.temperature, seed)
            for seed, answer in zip(lease.seeds, answers, strict=True)
        ]
    )


def _of_chunks(pairs: Sequence[tuple[SampledCompletion, Recomputation]]) -> Scores:
    scores: Scores = {"mismatches": [], "mantissa": [], "misses": [], "margin": []}
    for answer, view in pairs:
        for number, chunk in enumerate(
            commitment_distances(decode_commitments(answer.commitments, answer.n_tokens), view.hidden_TH)
        ):
            margins = view.margins[number * CHUNK_TOKENS : (number + 1) * CHUNK_TOKENS]
            if len(margins) < CHUNK_TOKENS:
                continue  # chunks of the same length, so that they can be compared
            scores["mismatches"].append(chunk.exponent_mismatches)
            scores["mantissa"].append(min(chunk.mantissa_mean, 128.0))
            scores["misses"].append(float((margins > 0).mean()))
            scores["margin"].append(float(margins.max()))
    return scores


def _of_answers(answers: Sequence[Distances]) -> Scores:
    return {
        "mismatches": [answer.exponent_mismatches_mean for answer in answers],
        "mantissa": [answer.mantissa_mean for answer in answers],
        "misses": [answer.token_mismatches / answer.n_tokens for answer in answers],
        "margin": [answer.max_margin for answer in answers],
    }


def separation(honest: Sequence[float], other: Sequence[float], bar: float | None = None) -> dict[str, Any]:
    """Return the ROC curve of a score: the share that is found if so many honest ones are rejected, and its area.

    bar  the share beyond this value is told, too
    """
    ours, theirs = np.asarray(honest), np.asarray(other)
    area = (theirs[:, None] > ours[None]).mean() + (theirs[:, None] == ours[None]).mean() / 2
    limits = {share: ours.max() if share == 0 else np.quantile(ours, 1 - share) for share in _HONEST_SHARES}
    found: dict[str, Any] = {
        "area": round(float(area), 4),
        "roc": {str(share): round(float((theirs > limit).mean()), 4) for share, limit in limits.items()},
        "mean": round(float(theirs.mean()), 4),
        "max": round(float(theirs.max()), 4),
    }
    return found if bar is None else {**found, "beyond_bar": round(float((theirs > bar).mean()), 4)}


def outcomes(of: VerifiedCase, bars: Thresholds) -> dict[str, float]:
    """Return the shares of answers, and of leases, that the verifier rejects with these bars."""
    by_answer = [
        {fault.outcome for fault in completion_violations(answer, bars, check_seeds=True)}
        for lease in of.measured
        for answer in lease
    ]
    by_lease = [
        {fault.outcome for answer in lease for fault in completion_violations(answer, bars, check_seeds=True)}
        | {fault.outcome for fault in file_violations(pool_distances(lease), bars, check_seeds=True)}
        for lease in of.measured
    ]
    return {
        "answers_rejected": round(float(np.mean([bool(found) for found in by_answer])), 4),
        "leases_rejected": round(float(np.mean([bool(found) for found in by_lease])), 4),
        "leases_hard": round(float(np.mean(["hard" in found for found in by_lease])), 4),
    }


def pair(path: Path, dtype: str) -> dict[str, Any]:
    """Return what is found between vLLM and transformers in one precision."""
    from dataclasses import asdict

    from msgspec import to_builtins

    from train.sampling.vllm import VllmSampler

    engine = VllmSampler(str(path), verifiable=True, dtype=dtype, max_model_len=512)
    prefill = VerifierModel(path, dtype)
    weights = _weights(path)
    found: dict[str, Any] = {}
    all_seen: dict[str, VerifiedCase] = {}
    for seed, case in enumerate(cases()):
        all_seen[case.name] = seen(engine, prefill, weights, case, 0 if case.name == "calibration" else 1)
        _say(f"{dtype}: {case.name} ({seed})")
    engine.close()
    bars = fit_thresholds(all_seen["calibration"].measured)
    honest = all_seen["honest"]
    at = {"mismatches": bars.exponent_mismatches, "margin": bars.max_margin}
    for name, of in all_seen.items():
        found[name] = {
            "outcomes": outcomes(of, bars),
            "together": asdict(pool_distances([answer for lease in of.measured for answer in lease])),
            "chunks": {score: separation(honest.chunks[score], of.chunks[score], at.get(score)) for score in of.chunks},
            "answers": {score: separation(honest.answers[score], of.answers[score]) for score in of.answers},
        }
    draws, verifies = honest.draw_seconds, honest.verify_seconds
    return {
        "bars": to_builtins(bars),
        "cases": found,
        "tokens": sum(answer.n_tokens for lease in honest.measured for answer in lease),
        "draw_seconds": round(draws, 3),
        "verify_seconds": round(verifies, 3),
        "verification_share": round(verifies / draws, 4),
    }


def _weights(path: Path) -> list[tuple[str, Any]]:
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return [(name, weight.detach()) for name, weight in model.named_parameters()]


def model(folder: Path) -> Path:
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
    of: Any = transformers.Qwen2ForCausalLM
    made = of(
        transformers.Qwen2Config(
            vocab_size=4096,
            hidden_size=512,
            intermediate_size=1536,
            num_hidden_layers=8,
            num_attention_heads=8,
            num_key_value_heads=4,
            max_position_embeddings=1024,
            initializer_range=0.04,
            tie_word_embeddings=False,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
    with torch.no_grad():
        made.get_output_embeddings().weight *= 3
    made.to(torch.bfloat16).float().save_pretrained(folder)  # weights that both precisions hold exactly
    tokenizer.save_pretrained(folder)
    return folder


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    os.environ.update(_ENVIRONMENT)
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = model(Path(folder))
        found = {
            "machine": describe(),
            "temperature": TEMPERATURE,
            "answers": GROUPS * ANSWERS,
            "costs": costs(),
            "modelled": modelled(),
            "pairs": {dtype: pair(path, dtype) for dtype in ("float32", "bfloat16")},
        }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({"costs": found["costs"]}, indent=1))


if __name__ == "__main__":
    main()
