"""How many tokens an evaluation has taken, and what a provider charges for them."""

from collections.abc import Iterable
from dataclasses import dataclass

_PRICED = 1_000_000  # tokens that a price is for


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a million tokens, in any currency. Raises ValueError if one is below 0."""

    prompt: float
    answer: float

    def __post_init__(self) -> None:
        if not (self.prompt >= 0 and self.answer >= 0):
            raise ValueError(f"a price is at least 0, not {self.prompt:g} and {self.answer:g}")


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The tokens of all samples, reasoning included; None: the server did not tell how long some of them are."""

    prompt: int | None
    answer: int | None


def sum_tokens(samples: Iterable[tuple[int, int]]) -> TokenCounts:
    """Return the sums over samples, each given as the lengths of its prompt and its answer; 0: unknown.

    The prompt counts once for each sample, as providers count it.
    """
    prompt: int | None = 0
    answer: int | None = 0
    for n_prompt, n_answer in samples:
        prompt = prompt + n_prompt if prompt is not None and n_prompt else None
        answer = answer + n_answer if answer is not None and n_answer else None
    return TokenCounts(prompt, answer)


def format_cost(tokens: TokenCounts, prices: Prices) -> str:
    """Return a line that says what the tokens cost."""
    amount = cost(tokens, prices)
    prompt, answer = ("unknown" if n is None else f"{n:,}" for n in (tokens.prompt, tokens.answer))
    paid = "unknown" if amount is None else f"{amount:,.2f}"
    return f"tokens of prompts: {prompt}, of answers: {answer}; cost: {paid}"


def cost(tokens: TokenCounts, prices: Prices) -> float | None:
    """Return what the tokens cost, in the currency of the prices; None: tokens that cost something are unknown."""
    parts = ((tokens.prompt, prices.prompt), (tokens.answer, prices.answer))
    if any(n is None and price for n, price in parts):
        return None
    return sum((n or 0) * price for n, price in parts) / _PRICED
