"""Whether an answer has the form `<think>...</think><answer>...</answer>`: 1.0, else 0.0 (DeepSeek-R1, 2.2.2)."""

from rewards.reward import TRUNCATED, Answer, Reward, Task

FORMATTED, UNFORMATTED = "formatted", "unformatted"
THINK, THOUGHT = "<think>", "</think>"
ANSWER, ANSWERED = "<answer>", "</answer>"


class FormatReward:
    """Each of the four tags once, in this order; something in both pairs, and nothing but white space around them.

    opened: the prompt ends with `<think>`, as the chat templates of some models do, and the answer must not have it.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self._opened = opened

    def __call__(self, answer: Answer, task: Task) -> Reward:
        if formatted(THINK + answer.text if self._opened else answer.text):
            return Reward(1.0, FORMATTED)
        return Reward(0.0, TRUNCATED if answer.truncated else UNFORMATTED)


def formatted(text: str) -> bool:
    """Takes linear time on any text."""
    if any(text.count(tag) != 1 for tag in (THINK, THOUGHT, ANSWER, ANSWERED)):
        return False
    before, _, rest = text.partition(THINK)
    thought, closed, rest = rest.partition(THOUGHT)
    between, opened, rest = rest.partition(ANSWER)
    said, ended, after = rest.partition(ANSWERED)
    in_order = bool(closed and opened and ended)
    return in_order and not (before + between + after).strip() and bool(thought.strip() and said.strip())
