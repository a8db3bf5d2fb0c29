"""The exceptions of rewards. Invalid options and incomplete tasks raise ValueError."""

from sandbox import SandboxError


class RewardError(Exception):
    """The base class of failures that the completion did not cause."""


class UnknownReward(RewardError, SandboxError):
    """An unknown reward: the sandbox failed, or the tests cannot be used."""


class TooManyUnknownRewards(UnknownReward):
    """Too many unknown rewards to continue training: the sandbox or the dataset is broken."""
