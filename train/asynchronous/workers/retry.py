"""Retry calls to an unreachable controller, with backoff, until a deadline."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from train.errors import ControllerUnreachable

log = logging.getLogger(__name__)

_FIRST_SECONDS, _MAX_SECONDS = 0.25, 15.0

Result = TypeVar("Result")


class RetryPolicy:
    """Repeats calls for so many seconds after the first that failed, with pauses that grow.

    pause      waits for the given seconds, or until there is no point in going on; returns whether there is one
    n_failures number of calls that failed so far
    """

    def __init__(self, seconds: float, pause: Callable[[float], bool]) -> None:
        self._seconds = seconds
        self._pause = pause
        self.n_failures = 0

    def call_with_retries(self, call: Callable[[], Result]) -> Result | None:
        """Return the result of the call, or None if there is no point in going on.

        Raises ControllerUnreachable at the end.
        """
        first_failure, seconds = None, _FIRST_SECONDS
        while True:
            try:
                return call()
            except ControllerUnreachable as error:
                self.n_failures += 1
                now = time.monotonic()
                first_failure = first_failure or now
                gone = now - first_failure
                if gone >= self._seconds:
                    raise ControllerUnreachable(
                        f"{error} (tried for {gone:.0f} s). Start the worker again once the run goes on; "
                        "--patience SECONDS lets it try for longer."
                    ) from error
                log.info("%s; tried again", error)
            if not self._pause(seconds * random.uniform(0.5, 1.0)):  # workers must not all come back at once
                return None
            seconds = min(2 * seconds, _MAX_SECONDS)
