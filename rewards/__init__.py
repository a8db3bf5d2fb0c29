"""What a completion of a model is worth. Rewards use the sandbox and know nothing of curation or training.

reward          Answer, Task and Reward: what every reward takes and returns
errors          what callers may have to catch

Rewards, one in each module:
code            1.0 if the program in the answer passes every test
partial         the share of tests that it passes, for analysis only
mathematics/    whether the final answer to a question of mathematics is right
format          whether the answer has the form <think>...</think><answer>...</answer>
length_budget   a penalty for missing the length that the prompt asks for (INTELLECT-2)
overlong        a penalty for answers that come near the length limit (DAPO)
weighted        the weighted sum of several rewards

Their parts:
parameters      check the parameters that a caller gives
extract/        find the program in an answer
selection       choose the tests that are run
async_rewards   score many completions at once, as they arrive
unknown         count unknown rewards, and stop if there are too many
shared          one sandbox and one code reward for each process, for the trainers below

For trainers other than ours:
trl             reward functions for TRL
verl            a reward function for verl
verl_manager    a reward manager for verl
verifiers       a task for verifiers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewards.async_rewards import AsyncRewards
    from rewards.code import CodeReward
    from rewards.errors import RewardError, TooManyUnknownRewards, UnknownReward
    from rewards.extract import program_in, submission_in
    from rewards.format import FormatReward
    from rewards.length_budget import LengthBudget
    from rewards.mathematics.reward import MathAnswer
    from rewards.overlong import Overlong
    from rewards.partial import PartialReward
    from rewards.reward import Answer, Reward, Score, Task
    from rewards.weighted import Weighted

__all__ = [
    "Answer",
    "AsyncRewards",
    "CodeReward",
    "FormatReward",
    "LengthBudget",
    "MathAnswer",
    "Overlong",
    "PartialReward",
    "Reward",
    "RewardError",
    "Score",
    "Task",
    "TooManyUnknownRewards",
    "UnknownReward",
    "Weighted",
    "program_in",
    "submission_in",
]

_HOMES = {
    "async_rewards": ["AsyncRewards"],
    "code": ["CodeReward"],
    "errors": ["RewardError", "TooManyUnknownRewards", "UnknownReward"],
    "extract": ["program_in", "submission_in"],
    "format": ["FormatReward"],
    "length_budget": ["LengthBudget"],
    "mathematics.reward": ["MathAnswer"],
    "overlong": ["Overlong"],
    "partial": ["PartialReward"],
    "reward": ["Answer", "Reward", "Score", "Task"],
    "weighted": ["Weighted"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Loaded on first use: the process that compares mathematical answers imports this package and must stay small.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
