"""Rewards for the form of a completion: its tags and its length.

FormatReward         1.0 for `<think>...</think><answer>...</answer>`, else 0.0 (DeepSeek-R1, 2.2.2)
LengthBudgetReward   a penalty for the distance from the prompt's target length (INTELLECT-2)
OverlongPenalty      a penalty for coming near the length limit (DAPO)
"""

import math
from collections.abc import Sequence

from rewards.argument_checks import check_bool, check_int
from rewards.reward import TRUNCATED, Completion, Reward, Task

__all__ = [
    "ALPHA_PER_THOUSAND",
    "ANSWER_BEGIN",
    "ANSWER_END",
    "TARGETS",
    "FormatReward",
    "LengthBudgetReward",
    "OverlongPenalty",
    "is_formatted",
    "length_instruction",
    "task_reward",
]

NAMES = frozenset({"format", "length_budget", "overlong"})  # names of these rewards as parts of a weighted sum

FORMATTED, UNFORMATTED = "formatted", "unformatted"
THINK_BEGIN, THINK_END = "<think>", "</think>"
ANSWER_BEGIN, ANSWER_END = "<answer>", "</answer>"
ALPHA_PER_THOUSAND = 0.3
TARGETS = (2000, 4000, 6000, 8000, 10000)  # tokens; those of INTELLECT-2's longer run
ON_TARGET, SHORTER, LONGER = "on_target", "shorter", "longer"
SHORT, LONG = "short", "long"


def task_reward(total: float, parts: Sequence[tuple[str, float]]) -> float:
    """Return the unweighted sum of the rewards other than those for form; nan if it is unknown.

    Small differences in length make all totals of a group differ, even if all its completions are right, or none is.
    Only this sum decides whether a group has a learning signal: INTELLECT-2 filters groups by task rewards, and DAPO by
    accuracy.

    total  the weighted sum, which is returned if all parts are rewards for form
    parts  name and value of each reward
    """
    judged = [value for name, value in parts if name not in NAMES]
    return sum(judged) if judged and not math.isnan(total) else total


class FormatReward:
    """1.0 for each of the four tags once, in this order, text in both pairs, and only white space around them; else
    0.0.

    opened   the prompt ends with `<think>`, as in some chat templates; the completion must not repeat it
    """

    def __init__(self, *, opened: bool = False) -> None:
        check_bool("opened", opened)
        self._opened = opened

    def __call__(self, completion: Completion, task: Task) -> Reward:
        if is_formatted(THINK_BEGIN + completion.text if self._opened else completion.text):
            return Reward(1.0, FORMATTED)
        return Reward(0.0, TRUNCATED if completion.truncated else UNFORMATTED)


def is_formatted(text: str) -> bool:
    """Return whether a text that includes the opening `<think>` has the form. Takes linear time on any text."""
    if any(text.count(tag) != 1 for tag in (THINK_BEGIN, THINK_END, ANSWER_BEGIN, ANSWER_END)):
        return False
    before, _, rest = text.partition(THINK_BEGIN)
    thought, think_end, rest = rest.partition(THINK_END)
    between, answer_begin, rest = rest.partition(ANSWER_BEGIN)
    answer, answer_end, after = rest.partition(ANSWER_END)
    in_order = bool(think_end and answer_begin and answer_end)
    return in_order and not (before + between + after).strip() and bool(thought.strip() and answer.strip())


def length_instruction(target_tokens: int) -> str:
    """Return the instruction for the prompt, to be the end of the question or the system message.

    Raises ValueError for a target below one token.
    """
    check_int("target_tokens", target_tokens)
    return f"Think for {target_tokens} tokens before giving a response."


class LengthBudgetReward:
    """INTELLECT-2's reward for keeping to a length (arXiv 2505.07291): -|target - length| in thousands of tokens.

        r = r_task - alpha * |target - length|          alpha = 0.0003 per token

    The sentence in the prompt is prime-rl's, and so is the choice to count the whole completion. The target is drawn
    for each prompt, which states it; see `length_instruction`. In a weighted reward:

        WeightedReward([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudgetReward())])

    When called, raises ValueError for a task without a target.
    """

    def __call__(self, completion: Completion, task: Task) -> Reward:
        if task.target_tokens is None:
            raise ValueError("a length budget needs a length that the prompt asks for; this task has no target_tokens")
        excess = completion.n_tokens - task.target_tokens
        verdict = LONGER if excess > 0 else SHORTER if excess < 0 else ON_TARGET
        return Reward(-abs(excess) / 1000, verdict)


class OverlongPenalty:
    """DAPO's soft punishment of completions that come near the length limit (arXiv 2503.14476, equation 13).

        0                               length <= max - buffer
        (max - buffer - length)/buffer  in between: from 0 down to -1
        -1                              length > max

    Here max is the length limit, and `buffer_tokens` the length of the range below it.

    Raises ValueError for a buffer below one token. When called, raises ValueError for a task without max_tokens, and if
    the buffer is as long as max_tokens or longer, which would penalize every completion.
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
                f"a buffer of {self._buffer_tokens} tokens uses up all {task.max_tokens} tokens; choose a smaller one"
            )
        excess = completion.n_tokens - free_tokens
        return Reward(-min(excess / self._buffer_tokens, 1.0), LONG) if excess > 0 else Reward(0.0, SHORT)
