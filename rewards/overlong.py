"""DAPO's soft punishment of answers that come near the length limit (arXiv 2503.14476, equation 13).

    0                               length <= max - buffer
    (max - buffer - length)/buffer  in between: from 0 down to -1
    -1                              length > max

Here max is the length at which answers are cut off, in tokens.
"""

from rewards.argument_checks import check_int
from rewards.reward import Completion, Reward, Task

__all__ = ["LONG", "SHORT", "OverlongPenalty"]

SHORT, LONG = "short", "long"


class OverlongPenalty:
    """Punishes answers that reach into the last `buffer_tokens` tokens before the limit.

    Raises ValueError for a buffer below one token. When called, raises ValueError for a task without max_tokens, and
    if the buffer is as long as max_tokens or longer, since every answer would then be punished.
    """

    def __init__(self, buffer_tokens: int = 4096) -> None:
        check_int("buffer_tokens", buffer_tokens)
        self._buffer_tokens = buffer_tokens

    def __call__(self, answer: Completion, task: Task) -> Reward:
        if task.max_tokens is None:
            raise ValueError("the overlong reward needs a length limit; this task has no max_tokens")
        free_tokens = task.max_tokens - self._buffer_tokens
        if free_tokens <= 0:
            raise ValueError(
                f"a buffer of {self._buffer_tokens} tokens uses up all {task.max_tokens} tokens; choose a smaller one"
            )
        excess = answer.n_tokens - free_tokens
        return Reward(-min(excess / self._buffer_tokens, 1.0), LONG) if excess > 0 else Reward(0.0, SHORT)
