"""DAPO's soft punishment of answers that come near the limit of length (arXiv 2503.14476, equation 13).

    0                              length <= max - buffer
    (max - buffer - length)/buffer in between: from 0 down to -1
    -1                             length > max

max is the length at which answers are cut off.
"""

from rewards.reward import Answer, Reward, Task

SHORT, LONG = "short", "long"


class Overlong:
    """Raises ValueError for a buffer below one token and, called, for a task without max_tokens or one that the buffer
    fills: it would punish every answer."""

    def __init__(self, buffer_tokens: int = 4096) -> None:
        if buffer_tokens < 1:
            raise ValueError(f"buffer_tokens must be at least 1, not {buffer_tokens}")
        self._buffer = buffer_tokens

    def __call__(self, answer: Answer, task: Task) -> Reward:
        if task.max_tokens is None:
            raise ValueError("the punishment of length needs a limit of length; this task has no max_tokens")
        free = task.max_tokens - self._buffer
        if free <= 0:
            raise ValueError(
                f"a buffer of {self._buffer} tokens leaves nothing of {task.max_tokens}; choose a smaller one"
            )
        over = answer.n_tokens - free
        return Reward(-min(over / self._buffer, 1.0), LONG) if over > 0 else Reward(0.0, SHORT)
