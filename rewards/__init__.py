"""Rewards of completions. They use the sandbox, but neither curation nor training.

reward          Completion, Task and Reward: the interface of all rewards
errors          exceptions of rewards

Rewards:
code            whether the program in the completion passes all tests, or the share that it passes
mathematics     whether the final answer to a math problem is right
form            required tags, and penalties for the length
weighted        the weighted sum of several rewards

Their parts:
argument_checks     checks of arguments
extract/            the program in a completion
case_selection      the selection of the tests to run
async_rewards       concurrent scoring of completions
math_comparison     the comparison of two answers, a program in the sandbox
process_singletons  one sandbox and one code reward per process, and the maximum number of unknown rewards

For other trainers:
trl             reward functions for TRL
verl            a reward function for verl
verl_manager    a reward manager for verl
verifiers       a task for verifiers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewards.async_rewards import AsyncRewards
    from rewards.code import CodeReward, PartialReward
    from rewards.errors import RewardError, TooManyUnknownRewards, UnknownReward
    from rewards.extract import extract_program, extract_submission
    from rewards.form import FormatReward, LengthBudgetReward, OverlongPenalty
    from rewards.mathematics import MathReward
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
    "code": ["CodeReward", "PartialReward"],
    "errors": ["RewardError", "TooManyUnknownRewards", "UnknownReward"],
    "extract": ["extract_program", "extract_submission"],
    "form": ["FormatReward", "LengthBudgetReward", "OverlongPenalty"],
    "mathematics": ["MathReward"],
    "reward": ["Completion", "Reward", "RewardCallable", "Task"],
    "weighted": ["WeightedReward"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Import on first use, so a command loads only the modules that it needs.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
