"""Passes and tokens of micro-batches, packed or of a fixed number of sequences:  python -m benchmarks.packing

AReaL (arXiv:2505.24298) compares its dynamic micro-batches with fixed ones, which must fit into memory even if all of
their sequences have the longest length. Lengths are log-normal with sigma 0.9, as in asynchrony/simulated.py. The
budget of a row is AReaL's 32,768 tokens, or twice as many. Computed tokens and passes stand for time.
"""

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from benchmarks.record import save_results
from train.learning.sequences import PackedPrompt, pack_first_fit_decreasing, pack_prompts
from train.planning.simulate import LogNormalLengths

PROMPTS, COMPLETIONS, PROMPT_TOKENS = 128, 4, 500
MEAN_TOKENS, LIMIT = 9_000, 27_648  # of the completions; the limit is AReaL's
BUDGETS = (32_768, 65_536)
MINIBATCHES = 20


def sample_lengths(seed: int) -> list[list[int]]:
    """Return the completion lengths of each prompt of a minibatch."""
    rng, lengths = random.Random(seed), LogNormalLengths.with_mean(MEAN_TOKENS, limit=LIMIT)
    return [[lengths.sample(rng) for _ in range(COMPLETIONS)] for _ in range(PROMPTS)]


def pack_fixed(prompts: Sequence[Sequence[int]], budget: int, *, is_padded: bool) -> list[int]:
    """Return the tokens of micro-batches with as many sequences as the budget holds at the longest length."""
    size = max(1, budget // (PROMPT_TOKENS + LIMIT))
    sequences = [PROMPT_TOKENS + length for lengths in prompts for length in lengths]
    parts = [sequences[start : start + size] for start in range(0, len(sequences), size)]
    return [max(part) * len(part) if is_padded else sum(part) for part in parts]


def pack_dynamic(prompts: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Return the tokens of micro-batches of whole sequences, packed to the budget as AReaL does."""
    sizes = [(PROMPT_TOKENS + length, 0) for lengths in prompts for length in lengths]
    return [sum(sizes[index][0] for index in row) for row in pack_first_fit_decreasing(sizes, (budget, 0))]


def pack_shared(prompts: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Return the tokens of each row of the learner, in which completions share one copy of their prompt."""
    packed = [
        PackedPrompt(PROMPT_TOKENS, tuple(((index,), length) for index, length in enumerate(lengths)))
        for lengths in prompts
    ]
    return [sum(part.tokens for part in row) for row in pack_prompts(packed, row_tokens=budget)]


def summarize(batches: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the mean passes and tokens of a minibatch."""
    return {"passes": fmean(map(len, batches)), "tokens": fmean(map(sum, batches))}


def main() -> None:
    minibatches = [sample_lengths(seed) for seed in range(MINIBATCHES)]
    measured: dict[str, dict[str, Any]] = {}
    for budget in BUDGETS:
        measured[str(budget)] = {
            "fixed, padded": summarize([pack_fixed(prompts, budget, is_padded=True) for prompts in minibatches]),
            "fixed": summarize([pack_fixed(prompts, budget, is_padded=False) for prompts in minibatches]),
            "dynamic": summarize([pack_dynamic(prompts, budget) for prompts in minibatches]),
            "learner": summarize([pack_shared(prompts, budget) for prompts in minibatches]),
        }
    save_results("packing", {"measured": measured})


if __name__ == "__main__":
    main()
