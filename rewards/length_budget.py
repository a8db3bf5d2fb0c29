"""INTELLECT-2's reward for thinking as long as asked: minus the distance between the length asked for and the answer's.

    r = r_task - alpha * |target - length|          alpha = 0.0003 a token

(INTELLECT-2, arXiv 2505.07291, on length rewards; the words of the prompt, and that the length is that of the whole
completion, are prime-rl's.) The target is drawn for each prompt and stands in it, see `words`. In a Weighted reward:

    Weighted([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudget())])
"""

from rewards.reward import Answer, Reward, Task

ALPHA_PER_THOUSAND = 0.3
TARGETS = (2000, 4000, 6000, 8000, 10000)  # tokens; those of their longer run
WITHIN, SHORTER, LONGER = "on_target", "shorter", "longer"


def words(target_tokens: int) -> str:
    """What the prompt must say, at the end of the question or as the system's message. Raises ValueError."""
    if target_tokens < 1:
        raise ValueError(f"target_tokens must be at least 1, not {target_tokens}")
    return f"Think for {target_tokens} tokens before giving a response."


class LengthBudget:
    """-|target - length| in thousands of tokens. Raises ValueError for a task without a target."""

    def __call__(self, answer: Answer, task: Task) -> Reward:
        if task.target_tokens is None:
            raise ValueError("a length budget needs a length that the prompt asks for; this task has no target_tokens")
        away = answer.n_tokens - task.target_tokens
        return Reward(-abs(away) / 1000, LONGER if away > 0 else SHORTER if away < 0 else WITHIN)
