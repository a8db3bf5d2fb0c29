"""Rewards for the form of a completion: its tags and its length.

FormatReward         1.0 for `<think>...</think><answer>...</answer>`, else 0.0 (DeepSeek-R1, 2.2.2)
LengthBudgetReward   a penalty for the distance from the prompt's target length (INTELLECT-2)
OverlongPenalty      a penalty for lengths close to the limit (DAPO)
"""

import math
from collections.abc import Sequence

from rewards.argument_checks import check_bool, check_int
from rewards.reward import TRUNCATED, Completion, Reward, Task

NAMES = frozenset({"format", "length_budget", "overlong"})  # names of these rewards in a weighted sum

FORMATTED, UNFORMATTED = "formatted", "unformatted"
THINK_BEGIN, THINK_END = "<think>", "</think>"
ANSWER_BEGIN, ANSWER_END = "<answer>", "</answer>"
ALPHA_PER_THOUSAND = 0.3
TARGETS = (2000, 4000, 6000, 8000, 10000)  # target lengths in tokens, as in INTELLECT-2's longer training run
ON_TARGET, SHORTER, LONGER = "on_target", "shorter", "longer"
SHORT, LONG = "short", "long"


def compute_task_reward(total: float, parts: Sequence[tuple[str, float]]) -> float:
    """Return the unweighted sum of the rewards that are not for form; nan if unknown.

    total  the weighted sum of all rewards, which is the result if all are for form
    parts  name and value of each reward

    Penalties for length make the totals of a group differ, even if all of its completions are right. So a group has a
    learning signal only if these sums differ. INTELLECT-2 filters groups by task rewards, and DAPO by accuracy.
    """
    values = [value for name, value in parts if name not in NAMES]
    return sum(values) if values and not math.isnan(total) else total


class FormatReward:
    """1.0 if the completion is `<think>THINKING</think><answer>ANSWER</answer>`, else 0.0.

    No tag may occur twice, both elements need text, and only whitespace may surround them.

    opened: whether the prompt ends with `<think>`, as in some chat templates; the completion must not repeat it
    """

    def __init__(self, *, opened: bool = False) -> None:
        check_bool("opened", opened)
        self._opened = opened

    def __call__(self, completion: Completion, task: Task) -> Reward:
        if is_formatted(THINK_BEGIN + completion.text if self._opened else completion.text):
            return Reward(1.0, FORMATTED)
        return Reward(0.0, TRUNCATED if completion.truncated else UNFORMATTED)


def is_formatted(text: str) -> bool:
    """Return whether a text has the format of `FormatReward`, with the opening `<think>`. Takes linear time."""
    if any(text.count(tag) != 1 for tag in (THINK_BEGIN, THINK_END, ANSWER_BEGIN, ANSWER_END)):
        return False
    before, _, rest = text.partition(THINK_BEGIN)
    thinking, think_end, rest = rest.partition(THINK_END)
    between, answer_begin, rest = rest.partition(ANSWER_BEGIN)
    answer, answer_end, after = rest.partition(ANSWER_END)
    in_order = bool(think_end and answer_begin and answer_end)
    return in_order and not (before + between + after).strip() and bool(thinking.strip() and answer.strip())


def format_length_instruction(target_tokens: int) -> str:
    """Return the sentence to append to a prompt's message. Raises ValueError for a target below one token."""
    check_int("target_tokens", target_tokens)
    return f"Think for {target_tokens} tokens before giving a response."


class LengthBudgetReward:
    """INTELLECT-2's penalty for the distance from a target length (arXiv 2505.07291): -|target - length| / 1000.

        r = r_task - alpha * |target - length|          alpha = 0.0003 per token

    Lengths are in tokens, for the whole completion. As in prime-rl, the prompt states the target
    (`format_length_instruction`). Use in a weighted reward:

        WeightedReward([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudgetReward())])

    When called, raises ValueError for a task without a target.
    """

    def __call__(self, completion: Completion, task: Task) -> Reward:
        if task.target_tokens is None:
            raise ValueError("a length budget needs the target length of the prompt; this task has no target_tokens")
        excess = completion.n_tokens - task.target_tokens
        verdict = LONGER if excess > 0 else SHORTER if excess < 0 else ON_TARGET
        return Reward(-abs(excess) / 1000, verdict)


class OverlongPenalty:
    """DAPO's soft overlong punishment (arXiv 2503.14476, equation 13).

        0                               length <= max - buffer
        (max - buffer - length)/buffer  otherwise, from 0 to -1
        -1                              length > max

    Here, max is the task's max_tokens, buffer is `buffer_tokens`, and length is the completion's, in tokens.

    Raises ValueError for a buffer below one token. When called, raises ValueError unless the task has max_tokens above
    the buffer.
    """

    def __init__(self, buffer_tokens: int = 4096) -> None:
        check_int("buffer_tokens", buffer_tokens)
        self._buffer_tokens = buffer_tokens

    def __call__(self, completion: Completion, task: Task) -> Reward:
        if task.max_tokens is None:
            raise ValueError("the overlong reward needs a length limit; this task has no max_tokens")
        free_tokens = task.max_tokens - self._buffer_tokens
        if free_tokens <= 0:
            raise ValueError(
                f"buffer_tokens is {self._buffer_tokens}, but max_tokens is {task.max_tokens}; choose a smaller buffer"
            )
        excess = completion.n_tokens - free_tokens
        return Reward(-min(excess / self._buffer_tokens, 1.0), LONG) if excess > 0 else Reward(0.0, SHORT)
