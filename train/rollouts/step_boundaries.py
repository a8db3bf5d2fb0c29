"""Where the steps of an answer end: rewards count characters of its text, and the learner counts tokens."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

StepRewards = tuple[tuple[int, float], ...]  # the end of each step, and its reward


def steps_in_tokens(
    steps: StepRewards, text: str, token_ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> StepRewards:
    """Return the steps with their ends in tokens instead of characters.

    text    the text of all tokens
    decode  returns the text of some tokens, without special ones

    A step ends with the token that completes its text; one that reaches the end of the text takes all tokens, also the
    one that ended the answer. A character that is split between tokens can move an end by as many tokens.
    """

    def end_in_tokens(end: int) -> int:
        if end >= len(text):
            return len(token_ids)
        return bisect_left(range(len(token_ids)), end, key=lambda n: len(decode(token_ids[:n])))

    return tuple((end_in_tokens(end), value) for end, value in steps)
