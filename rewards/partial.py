"""The share of tests that a program passes. For analysis only: do not train on it.

It can be had without solving anything: by printing the commonest answer, or what the statement's examples show. A model
finds that out soon, and a problem whose tests mostly expect "NO" then teaches it to print "NO".
"""

from rewards.code import CodeReward
from sandbox import Judgement


class PartialReward(CodeReward):
    """As CodeReward, but all selected tests are run, and the value is the share of those passed, from 0.0 to 1.0."""

    _run_all = True

    def _worth(self, judgement: Judgement) -> float:
        return judgement.pass_rate
