"""The share of tests that a program passes. Use it for analysis only, and do not train on it.

A share can be had without solving anything: by printing the commonest answer, or the outputs of the statement's
examples. A model soon finds that out, and a problem whose tests mostly expect "NO" then teaches it to print "NO".
"""

from rewards.code import CodeReward
from sandbox import Judgement

__all__ = ["PartialReward"]


class PartialReward(CodeReward):
    """Like CodeReward, but runs all selected tests and returns the share of those passed, from 0.0 to 1.0."""

    _run_all = True

    def _value(self, judgement: Judgement) -> float:
        return judgement.pass_rate
