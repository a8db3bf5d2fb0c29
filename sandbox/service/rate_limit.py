"""A rate limit on the processor time of a front end for receiving and parsing a client's requests. While several
clients have open requests at one front end, each may use at most 4 % of its processor for this.
"""

import asyncio
import time
from collections import Counter

_SHARE = 0.04  # each client's share of one processor
_BURST_SECONDS = 0.1  # processor time that a client may use before it has to wait
_POLL_SECONDS = 0.05
_MAX_TRACKED_CLIENTS = 4096
SECONDS_PER_BYTE = 6e-9  # cost of receiving one byte
REFUSAL_SECONDS = 0.005  # cost of a refused request, in addition to the time it took


class RateLimiter:
    """Processor seconds used by each client. For one event loop only."""

    def __init__(self) -> None:
        self._open = Counter[str]()  # open requests per client
        self._used: dict[str, tuple[float, float]] = {}  # client -> seconds used, as of when

    def enter(self, client: str) -> None:
        """Register an open request."""
        self._open[client] += 1

    def leave(self, client: str) -> None:
        """Unregister a request."""
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def charge(self, client: str, seconds: float) -> None:
        """Add seconds of processor time to what a client has used."""
        self._used[client] = self._owed(client) + seconds, time.monotonic()
        if len(self._used) > _MAX_TRACKED_CLIENTS:
            self._used = {name: used for name, used in self._used.items() if self._owed(name)}

    async def wait(self, client: str) -> None:
        """Wait until this client may continue."""
        while self._owed(client) > _BURST_SECONDS and len(self._open) > 1:
            await asyncio.sleep(_POLL_SECONDS)

    def _owed(self, client: str) -> float:
        """Seconds that the client has used above its share."""
        used, since = self._used.get(client, (0.0, 0.0))
        return max(0.0, used - _SHARE * (time.monotonic() - since))
