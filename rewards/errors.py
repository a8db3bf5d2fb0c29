"""The exceptions of rewards. A wrong option or an incomplete task is a plain ValueError.

RewardError                    the base class
    UnknownReward              a reward is unknown, for callers without a value for it; also a SandboxError
        TooManyUnknownRewards  too many rewards are unknown to continue training
"""

from sandbox import SandboxError

__all__ = ["RewardError", "TooManyUnknownRewards", "UnknownReward"]


class RewardError(Exception):
    """A failure not caused by the completion; its reward is unknown."""


class UnknownReward(RewardError, SandboxError):
    """The reward of a completion is unknown: the sandbox failed, or the tests cannot be used."""


class TooManyUnknownRewards(UnknownReward):
    """Most recent rewards are unknown: the sandbox or the dataset is broken."""
