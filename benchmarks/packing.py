"""The rows of a batch: packed to a budget of tokens, or as micro-batches of a fixed number of sequences.

    python -m benchmarks.packing      # seconds on one core

AReaL (arXiv:2505.24298) compares dynamic micro-batches with micro-batches of a fixed number of sequences. These must
fit into the memory even if all of their sequences have the longest length. Lengths are log-normal with sigma 0.9 and a
mean of 9,000 tokens, as in asynchrony/simulated.py. A minibatch is 128 prompts of 500 tokens with 4 answers each. The
budget of a row is AReaL's 32,768 tokens, or twice as many.

Nothing is trained. The tokens computed by each way, with padding and repeated prompts, stand for its time; each pass
has an overhead. The benchmark writes results/packing.json.
"""

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from benchmarks.record import describe_machine, save_results
from train.learning.sequences import PackedPrompt, first_fit_decreasing, pack
from train.planning.simulate import LogNormalLengths

PROMPTS, ANSWERS, PROMPT_TOKENS = 128, 4, 500
MEAN_TOKENS, LIMIT = 9_000, 27_648  # of the answers; the limit is AReaL's
BUDGETS = (32_768, 65_536)
MINIBATCHES = 20


def draw_lengths(seed: int) -> list[list[int]]:
    """Return the lengths of the answers to each prompt of a minibatch."""
    rng, lengths = random.Random(seed), LogNormalLengths.with_mean(MEAN_TOKENS, limit=LIMIT)
    return [[lengths.draw(rng) for _ in range(ANSWERS)] for _ in range(PROMPTS)]


def pack_fixed(prompts: Sequence[Sequence[int]], budget: int, *, is_padded: bool) -> list[int]:
    """Return the tokens of each micro-batch, of as many sequences as fit into the budget at their longest."""
    size = max(1, budget // (PROMPT_TOKENS + LIMIT))
    sequences = [PROMPT_TOKENS + length for lengths in prompts for length in lengths]
    parts = [sequences[start : start + size] for start in range(0, len(sequences), size)]
    return [max(part) * len(part) if is_padded else sum(part) for part in parts]


def pack_dynamic(prompts: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Return the tokens of each micro-batch of whole sequences, packed to the budget: AReaL's rule."""
    sizes = [(PROMPT_TOKENS + length, 0) for lengths in prompts for length in lengths]
    return [sum(sizes[index][0] for index in row) for row in first_fit_decreasing(sizes, (budget, 0))]


def pack_shared(prompts: Sequence[Sequence[int]], budget: int) -> list[int]:
    """Return the tokens of each row of the learner, which has a prompt once for all answers to it in the row."""
    packed = [
        PackedPrompt(PROMPT_TOKENS, tuple(((place,), length) for place, length in enumerate(lengths)))
        for lengths in prompts
    ]
    return [sum(part.tokens for part in row) for row in pack(packed, row_tokens=budget)]


def summarize(batches: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the passes and the tokens of a minibatch, on average."""
    return {"passes": fmean(map(len, batches)), "tokens": fmean(map(sum, batches))}


def main() -> None:
    minibatches = [draw_lengths(seed) for seed in range(MINIBATCHES)]
    measured: dict[str, dict[str, Any]] = {}
    for budget in BUDGETS:
        measured[str(budget)] = {
            "fixed, padded": summarize([pack_fixed(prompts, budget, is_padded=True) for prompts in minibatches]),
            "fixed": summarize([pack_fixed(prompts, budget, is_padded=False) for prompts in minibatches]),
            "dynamic": summarize([pack_dynamic(prompts, budget) for prompts in minibatches]),
            "learner": summarize([pack_shared(prompts, budget) for prompts in minibatches]),
        }
    save_results("packing", {"machine": describe_machine(), "measured": measured})


if __name__ == "__main__":
    main()
