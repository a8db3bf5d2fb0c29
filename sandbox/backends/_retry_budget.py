"""Retry budget of a service that is down, shared by all requests."""

import logging
import threading
import time

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
VARIABLE = "CURATE_RETRY_SECONDS"  # replaces that default


class RetryBudget:
    """Notes when a service stops answering and when it answers again. Any number of threads may use it.

    url       the address of the service, for messages
    seconds   the time budget, which begins with the first failure. When it is used up, each further request is tried
              once, until the service answers one
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url
        self._seconds = seconds
        self._lock = threading.Lock()
        self._began: float | None = None

    def record_failure(self, message: str) -> float:
        """Note that a request was not answered, and return how many seconds of the budget are left.

        The first failure is logged at once.
        """
        now = time.monotonic()
        with self._lock:
            is_first = self._began is None
            start_time = self._began = now if self._began is None else self._began
        if is_first:
            log.warning(
                "the service at %s does not answer: %s. Requests are repeated for %g s (%s changes that); after that, "
                "nothing is known about their programs. Check that `curate serve` runs at that address.",
                self._url,
                message,
                self._seconds,
                VARIABLE,
            )
        return start_time + self._seconds - now

    def record_success(self) -> None:
        """Note that the service has answered."""
        with self._lock:
            start_time, self._began = self._began, None
        if start_time is not None:
            log.warning("the service at %s answers again, after %.0f s", self._url, time.monotonic() - start_time)


def parse_budget_seconds(text: str | None) -> float:
    """Return the budget that the text of the environment variable states, in seconds; without one, RETRY_SECONDS.

    Raises ValueError.
    """
    if not text:
        return RETRY_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{VARIABLE} must be a number of seconds, such as 60, not {text!r}")
    return seconds
