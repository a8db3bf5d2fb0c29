"""1.0 if an answer has the form `<think>...</think><answer>...</answer>`, else 0.0 (DeepSeek-R1, 2.2.2)."""

from rewards.argument_checks import check_bool
from rewards.reward import TRUNCATED, Completion, Reward, Task

__all__ = ["ANSWER_BEGIN", "ANSWER_END", "FORMATTED", "UNFORMATTED", "FormatReward", "is_formatted"]

FORMATTED, UNFORMATTED = "formatted", "unformatted"
THINK_BEGIN, THINK_END = "<think>", "</think>"
ANSWER_BEGIN, ANSWER_END = "<answer>", "</answer>"


class FormatReward:
    """Requires each of the four tags once, in this order, text in both pairs, and only white space around them.

    opened   the prompt ends with `<think>`, as the chat templates of some models do; the answer must not repeat it
    """

    def __init__(self, *, opened: bool = False) -> None:
        check_bool("opened", opened)
        self._opened = opened

    def __call__(self, answer: Completion, task: Task) -> Reward:
        if is_formatted(THINK_BEGIN + answer.text if self._opened else answer.text):
            return Reward(1.0, FORMATTED)
        return Reward(0.0, TRUNCATED if answer.truncated else UNFORMATTED)


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
