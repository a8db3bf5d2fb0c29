"""Counts completions whose reward is unknown, and says when there are too many of them to go on training.

One completion without a reward is no reason to stop, whatever it did to the sandbox. Many of them say that the sandbox
or the tests are broken.
"""

import logging
import threading
from collections import deque

from rewards.reward import TESTS_FAILED, Reward
from sandbox import SandboxError

log = logging.getLogger(__name__)

IN_A_ROW = 50  # completions
OF_THE_LAST, AT_MOST = 200, 100


class Unknowns:
    """Counts rewards without a value. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: deque[bool] = deque(maxlen=OF_THE_LAST)
        self._in_a_row = 0
        self._count = 0

    @property
    def count(self) -> int:
        """Completions without a reward so far."""
        return self._count

    def note(self, reward: Reward) -> None:
        """Count one reward, and log why it has no value.

        Raises SandboxError for the fiftieth without a value in a row, or the hundredth of the last two hundred; and for
        each one after that, as long as it is so.
        """
        unknown = reward.value is None
        with self._lock:
            self._last.append(unknown)
            self._in_a_row = self._in_a_row + 1 if unknown else 0
            self._count += unknown
            count, in_a_row, of_the_last = self._count, self._in_a_row, sum(self._last)
        if not unknown:
            return
        reason = f"{reward.verdict}: {reward.detail}" if reward.detail else reward.verdict
        log.warning("nothing is known of a completion (number %d in this process): %s", count, reason)
        if in_a_row < IN_A_ROW and of_the_last < AT_MOST:
            return
        many = (
            f"the last {in_a_row} completions" if in_a_row >= IN_A_ROW else f"{of_the_last} of the last {OF_THE_LAST}"
        )
        advice = (
            "The tests of the dataset cannot judge. Build it anew with `curate build-dataset`, which verifies them"
            if reward.verdict == TESTS_FAILED
            else "Mend the sandbox before you go on: `curate doctor` says what it lacks"
        )
        raise SandboxError(f"no reward is known for {many}, so training on the others was stopped. {advice} ({reason})")
