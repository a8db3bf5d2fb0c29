"""The exceptions of rewards. A wrong option or an incomplete task is a plain ValueError.

RewardError                        the base of all of them
    UnknownReward                  a reward is unknown, for callers that cannot represent this; also a SandboxError
        TooManyUnknownRewards      too many rewards are unknown to continue training
"""

from sandbox import SandboxError

__all__ = ["RewardError", "TooManyUnknownRewards", "UnknownReward"]


class RewardError(Exception):
    """A failure not caused by the completion; its reward is unknown."""


class UnknownReward(RewardError, SandboxError):
    """A completion has no reward, because the sandbox failed or the tests cannot be used."""


class TooManyUnknownRewards(UnknownReward):
    """Most recent completions have no reward: the sandbox or the dataset is broken."""
