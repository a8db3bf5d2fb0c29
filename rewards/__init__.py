"""What a completion of a model is worth. Rewards use the sandbox and know nothing of curation or training.

reward          Completion, Task and Reward: what every reward takes and returns
errors          what callers may have to catch

Rewards, one in each module:
code            1.0 if the program in the completion passes every test
partial         the share of tests that it passes, for analysis only
mathematics/    whether the final answer to a question of mathematics is right
format          whether the completion has the form <think>...</think><answer>...</answer>
length_budget   a penalty for missing the length that the prompt asks for (INTELLECT-2)
overlong        a penalty for completions that come near the length limit (DAPO)
weighted        the weighted sum of several rewards

Their parts:
argument_checks     check the arguments of a caller
extract/            find the program in a completion
case_selection      choose the tests to run
async_rewards       score many completions concurrently, as they arrive
unknown_counter     count unknown rewards, and stop if there are too many
process_singletons  one sandbox and one code reward per process, for the trainers below

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
    from rewards.extract import extract_program, extract_submission
    from rewards.format import FormatReward
    from rewards.length_budget import LengthBudgetReward
    from rewards.mathematics.reward import MathReward
    from rewards.overlong import OverlongPenalty
    from rewards.partial import PartialReward
    from rewards.reward import Completion, Reward, RewardCallable, Task
    from rewards.weighted import WeightedReward

__all__ = [
    "AsyncRewards",
    "CodeReward",
    "Completion",
    "FormatReward",
    "LengthBudgetReward",
    "MathReward",
    "OverlongPenalty",
    "PartialReward",
    "Reward",
    "RewardCallable",
    "RewardError",
    "Task",
    "TooManyUnknownRewards",
    "UnknownReward",
    "WeightedReward",
    "extract_program",
    "extract_submission",
]

_HOMES = {
    "async_rewards": ["AsyncRewards"],
    "code": ["CodeReward"],
    "errors": ["RewardError", "TooManyUnknownRewards", "UnknownReward"],
    "extract": ["extract_program", "extract_submission"],
    "format": ["FormatReward"],
    "length_budget": ["LengthBudgetReward"],
    "mathematics.reward": ["MathReward"],
    "overlong": ["OverlongPenalty"],
    "partial": ["PartialReward"],
    "reward": ["Completion", "Reward", "RewardCallable", "Task"],
    "weighted": ["WeightedReward"],
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
