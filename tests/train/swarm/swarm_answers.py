"""A small model with random weights, leases, and files of answers to them: honest ones, and ones that are not."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from train.asynchronous.messages import Lease, SampleResult, pack_logprobs, pack_tokens
from train.sampling.engine_spec import EngineSpec
from train.sampling.protocol import Engine, SampledCompletion, SamplingParams
from train.swarm.settings import SwarmSettings
from train.swarm.verification.thresholds import DistanceThreshold, Thresholds

CONTEXT_TOKENS = 512


def model(folder: Path, tokenizer_of: Path, *, seed: int = 0, layers: int = 4, width: int = 128) -> Path:
    """Save a model whose predictions are neither certain nor uniform."""
    import torch
    import transformers
    from transformers import AutoTokenizer, Qwen2Config

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_of)
    torch.manual_seed(seed)
    of: Any = transformers.Qwen2ForCausalLM
    made = of(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT_TOKENS,
            initializer_range=0.08,
            tie_word_embeddings=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    with torch.no_grad():
        made.get_output_embeddings().weight *= 3  # logits with a deviation of about 3
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def bars_of(margin: float) -> Thresholds:
    """Return thresholds whose largest margin is this one."""
    return Thresholds(margins=DistanceThreshold(mean=2e-3, variance=5e-4, scale=margin / 10, limit=margin))


def settings(path: Path, thresholds: dict[str, Thresholds], vocabulary: int, *, replays: bool = True) -> SwarmSettings:
    terms = EngineSpec("test", str(path), "transformers", CONTEXT_TOKENS)
    return SwarmSettings("test", terms, vocabulary, thresholds, replays)


def leases(n: int, *, answers: int = 4, tokens: int = 128, temperature: float = 0.8, seed: int = 0) -> list[Lease]:
    """Return leases with random prompts of 5 to 40 tokens."""
    rng = random.Random(seed)
    draw = SamplingParams(temperature, 1.0, tokens, logprobs=True, verifiable=True)
    found = []
    for _ in range(n):
        prompt = tuple(rng.randrange(5, 250) for _ in range(rng.randint(5, 40)))
        seeds = tuple(rng.randrange(2**31) for _ in range(answers))
        found.append(Lease(rng.getrandbits(128) >> 65, 0, 3, prompt, seeds, draw, 60.0))
    return found


def drawn(engine: Engine, lease: Lease, **changed: Any) -> list[SampledCompletion]:
    """Return the answers of an engine to a lease; prompt, seeds or temperature may be others than those leased."""
    prompt = changed.get("prompt", lease.prompt)
    seeds: Sequence[int] = changed.get("seeds", lease.seeds)
    temperature = changed.get("temperature", lease.sampling_params.temperature)
    sampling = SamplingParams(temperature, 1.0, lease.sampling_params.max_tokens, logprobs=True, verifiable=True)
    for number, seed in enumerate(seeds):
        engine.add(str(number), prompt, seed, sampling)
    found: dict[str, SampledCompletion] = {}
    while len(found) < len(seeds):
        found |= engine.step()
    return [found[str(number)] for number in range(len(seeds))]


def encode_lease_file(answers: Sequence[SampleResult]) -> bytes:
    """Return the file of answers, as a verifier gets it."""
    return msgspec.msgpack.encode(tuple(answers))


def lease_file(lease: Lease, answers: Sequence[SampledCompletion]) -> bytes:
    """Return the file with which a node claims that these are the answers to the lease."""
    return encode_lease_file(results(lease, answers))


def results(lease: Lease, answers: Sequence[SampledCompletion]) -> list[SampleResult]:
    """Return what a node sends that claims that these are the answers to the lease."""
    return (
        [
            SampleResult(
                lease.group, number, lease.attempt, pack_tokens(answer.token_ids), pack_logprobs(answer.logprobs),
                ((lease.version, 0, answer.n_tokens),), "length" if answer.finish_reason == "length" else "stop",
                answer.commitments,
            )
            for number, answer in enumerate(answers)
        ]
    )  # fmt: skip
