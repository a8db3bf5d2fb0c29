"""INTELLECT-2's reward for thinking as long as asked: minus the distance between the requested length and the answer's.

    r = r_task - alpha * |target - length|          alpha = 0.0003 per token

The formula is that of INTELLECT-2 (arXiv 2505.07291, on length rewards). The sentence in the prompt is prime-rl's, and
so is the choice to count the whole completion. The target is drawn for each prompt, which states it; see
`length_instruction`. In a weighted reward:

    Weighted([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudgetReward())])
"""

from rewards.argument_checks import check_int
from rewards.reward import Completion, Reward, Task

__all__ = ["ALPHA_PER_THOUSAND", "TARGETS", "LengthBudgetReward", "length_instruction"]

ALPHA_PER_THOUSAND = 0.3
TARGETS = (2000, 4000, 6000, 8000, 10000)  # tokens; those of INTELLECT-2's longer run
ON_TARGET, SHORTER, LONGER = "on_target", "shorter", "longer"


def length_instruction(target_tokens: int) -> str:
    """Return what the prompt must say, at the end of the question or as the system message.

    Raises ValueError for a target below one token.
    """
    check_int("target_tokens", target_tokens)
    return f"Think for {target_tokens} tokens before giving a response."


class LengthBudgetReward:
    """The value is -|target - length| in thousands of tokens. Raises ValueError for a task without a target."""

    def __call__(self, answer: Completion, task: Task) -> Reward:
        if task.target_tokens is None:
            raise ValueError("a length budget needs a length that the prompt asks for; this task has no target_tokens")
        excess = answer.n_tokens - task.target_tokens
        verdict = LONGER if excess > 0 else SHORTER if excess < 0 else ON_TARGET
        return Reward(-abs(excess) / 1000, verdict)
