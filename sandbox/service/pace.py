"""What a client costs before it has a turn: its bodies are received and read. While others are there, it gets a small
share of the time for that, so that they do not pay for it."""

import asyncio
import time
from collections.abc import Callable

_SHARE = 0.04  # of one processor
_AT_ONCE_SECONDS = 0.1  # that a client may use before it has to wait
_LOOK_SECONDS = 0.05
_MANY = 4096
BYTE_SECONDS = 6e-9  # to receive one
REFUSAL_SECONDS = 0.005  # what one counts for that was refused, beside the time that it took


class Pace:
    """Belongs to one event loop, no locks."""

    def __init__(self, crowded: Callable[[str], bool]) -> None:
        self._crowded = crowded  # whether others than this client are there
        self._used: dict[str, tuple[float, float]] = {}  # client -> seconds used, as of when

    def charge(self, client: str, seconds: float) -> None:
        self._used[client] = self._of(client) + seconds, time.monotonic()
        if len(self._used) > _MANY:
            self._used = {each: used for each, used in self._used.items() if self._of(each)}

    async def wait(self, client: str) -> float:
        """Until this client may go on; gives the seconds that the wait took."""
        if self._of(client) <= _AT_ONCE_SECONDS:
            return 0.0
        began = time.monotonic()
        while self._of(client) > _AT_ONCE_SECONDS and self._crowded(client):
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic() - began

    def _of(self, client: str) -> float:
        used, since = self._used.get(client, (0.0, 0.0))
        return max(0.0, used - _SHARE * (time.monotonic() - since))
