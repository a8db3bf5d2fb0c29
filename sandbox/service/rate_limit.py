"""What a client costs before it gets a worker: its bodies are received and parsed.

While several clients are active, each may use at most 4 % of one core for receiving and parsing its requests.
"""

import asyncio
import time
from collections.abc import Callable

_SHARE = 0.04  # each client's share of one processor
_BURST_SECONDS = 0.1  # processor time that a client may use before it has to wait
_POLL_SECONDS = 0.05
_MAX_TRACKED_CLIENTS = 4096
SECONDS_PER_BYTE = 6e-9  # cost of receiving one byte
REFUSAL_SECONDS = 0.005  # cost of a refused request, in addition to the time it took


class RateLimiter:
    """Seconds used by each client. For one event loop only: it has no locks."""

    def __init__(self, is_crowded: Callable[[str], bool]) -> None:
        self._is_crowded = is_crowded  # whether clients other than this one are present
        self._used: dict[str, tuple[float, float]] = {}  # client -> seconds used, as of when

    def charge(self, client: str, seconds: float) -> None:
        """Add seconds of processor time to what a client has used."""
        self._used[client] = self._owed(client) + seconds, time.monotonic()
        if len(self._used) > _MAX_TRACKED_CLIENTS:
            self._used = {name: used for name, used in self._used.items() if self._owed(name)}

    async def wait(self, client: str) -> float:
        """Wait until this client may continue; return the seconds that the wait took."""
        if self._owed(client) <= _BURST_SECONDS:
            return 0.0
        start_time = time.monotonic()
        while self._owed(client) > _BURST_SECONDS and self._is_crowded(client):
            await asyncio.sleep(_POLL_SECONDS)
        return time.monotonic() - start_time

    def _owed(self, client: str) -> float:
        """Seconds that the client has used above its share."""
        used, since = self._used.get(client, (0.0, 0.0))
        return max(0.0, used - _SHARE * (time.monotonic() - since))
