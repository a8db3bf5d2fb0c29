"""Counts completions whose reward is unknown, and stops training when there are too many of them.

One unknown reward is not a reason to stop, whatever the completion did to the sandbox. Many of them mean that the
sandbox or the tests are broken.
"""

import logging
import threading
from collections import deque

from rewards.errors import TooManyUnknownRewards
from rewards.reward import TESTS_FAILED, Reward

__all__ = ["UnknownRewardCounter"]

log = logging.getLogger(__name__)

_MAX_IN_A_ROW = 50  # completions
_WINDOW, _MAX_IN_WINDOW = 200, 100  # completions


class UnknownRewardCounter:
    """Counts unknown rewards. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window: deque[bool] = deque(maxlen=_WINDOW)
        self._in_a_row = 0
        self._count = 0

    @property
    def count(self) -> int:
        """The number of unknown rewards so far."""
        return self._count

    def record(self, reward: Reward) -> None:
        """Count one reward and, if it is unknown, log why.

        Raises TooManyUnknownRewards for the fiftieth unknown reward in a row, or the hundredth of the last two hundred,
        and for each unknown reward after that until there are fewer again.
        """
        unknown = reward.value is None
        with self._lock:
            self._window.append(unknown)
            self._in_a_row = self._in_a_row + 1 if unknown else 0
            self._count += unknown
            count, in_a_row, in_window = self._count, self._in_a_row, sum(self._window)
        if not unknown:
            return
        reason = f"{reward.verdict}: {reward.detail}" if reward.detail else reward.verdict
        log.warning("the reward of a completion is unknown (number %d in this process): %s", count, reason)
        if in_a_row >= _MAX_IN_A_ROW:
            raise _too_many(f"the last {in_a_row} completions", reward.verdict, reason)
        if in_window >= _MAX_IN_WINDOW:
            raise _too_many(f"{in_window} of the last {_WINDOW} completions", reward.verdict, reason)


def _too_many(completions: str, verdict: str, reason: str) -> TooManyUnknownRewards:
    advice = (
        "The tests of the dataset cannot be used. Build it again with `curate build-dataset`, which verifies them"
        if verdict == TESTS_FAILED
        else "Repair the sandbox before you continue: `curate doctor` shows what is missing"
    )
    return TooManyUnknownRewards(f"training stopped: the rewards of {completions} are unknown. {advice} ({reason})")
