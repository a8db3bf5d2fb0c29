"""What callers of rewards may have to catch. A wrong option or an incomplete task is a plain ValueError.

RewardError                        the base of all of them
    UnknownReward                  a reward is unknown, and the caller has no value for that; also a SandboxError
        TooManyUnknownRewards      so many rewards are unknown that training on the others makes no sense
"""

from sandbox import SandboxError

__all__ = ["RewardError", "TooManyUnknownRewards", "UnknownReward"]


class RewardError(Exception):
    """Something other than the completion failed; nothing is known about what the completion is worth."""


class UnknownReward(RewardError, SandboxError):
    """The sandbox failed or the tests cannot be used, so that a completion has no reward."""


class TooManyUnknownRewards(UnknownReward):
    """Most recent completions have no reward: the sandbox or the dataset is broken."""
