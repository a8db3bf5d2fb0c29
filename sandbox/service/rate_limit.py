"""A rate limit on the processor time of a front end that each client uses to send and parse requests.

While several clients have open requests, each may use at most 4% of a processor.
"""

import asyncio
import time
from collections import Counter

_SHARE = 0.04  # each client's share of one processor
_BURST_SECONDS = 0.1  # processor time in excess of the share that does not delay a client
_POLL_SECONDS = 0.05
_MAX_TRACKED_CLIENTS = 4096
SECONDS_PER_BYTE = 6e-9  # cost of receiving one byte
REJECTION_SECONDS = 0.005  # cost of a rejected request, in addition to its processor time


class RateLimiter:
    """The limiter of all clients of a front end, for one event loop."""

    def __init__(self) -> None:
        self._open = Counter[str]()  # open requests per client
        self._used: dict[str, tuple[float, float]] = {}  # client -> used seconds, and monotonic time of that count

    def enter(self, client: str) -> None:
        """Register an open request."""
        self._open[client] += 1

    def leave(self, client: str) -> None:
        """Unregister a request."""
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def charge(self, client: str, seconds: float) -> None:
        """Charge processor time to a client."""
        self._used[client] = self._compute_excess_seconds(client) + seconds, time.monotonic()
        if len(self._used) > _MAX_TRACKED_CLIENTS:
            self._used = {name: used for name, used in self._used.items() if self._compute_excess_seconds(name)}

    async def wait(self, client: str) -> None:
        """Wait until the client is within its share, or has the only open requests."""
        while self._compute_excess_seconds(client) > _BURST_SECONDS and len(self._open) > 1:
            await asyncio.sleep(_POLL_SECONDS)

    def _compute_excess_seconds(self, client: str) -> float:
        """Return the processor time that the client has used in excess of its share."""
        used, since = self._used.get(client, (0.0, 0.0))
        return max(0.0, used - _SHARE * (time.monotonic() - since))
