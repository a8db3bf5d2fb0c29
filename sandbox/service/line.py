"""The line for the workers: first come, first served; so many may wait, and no more."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sandbox.service.answers import Gone, Overdue, Stopping, TooMany

_LONGEST_WAIT = 60  # seconds that a client is told to stay away
_WEIGHT = 0.1  # of the latest turn in the moving average of what a turn takes


class Line:
    """places: turns at a time. room: requests that may wait. Belongs to one event loop, no locks."""

    def __init__(self, places: int, room: int) -> None:
        self._places = places
        self._free = places
        self._room = room
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turn_seconds = 0.1
        self.draining = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return self._places - self._free

    def check_room(self) -> None:
        """Raises TooMany if a request would be turned away, Stopping if the service ends."""
        if self.draining:
            raise Stopping
        if not self._free and len(self._waiting) >= self._room:
            raise TooMany(self.seconds_until_room())

    def seconds_until_room(self) -> int:
        """Whole seconds after which to try again: what those who wait will take, as turns took lately."""
        seconds = (len(self._waiting) + 1) * self._turn_seconds / self._places
        return max(1, min(_LONGEST_WAIT, math.ceil(seconds)))

    @asynccontextmanager
    async def turn(
        self, departure: Callable[[], asyncio.Future[Any]], patience: float | None = None, *, admitted: bool = False
    ) -> AsyncIterator[float]:
        """Wait for a turn and have it; gives the seconds that the wait took.

        departure() completes when the client goes away: who is not there does not get a turn. `admitted` is for the
        later parts of a request that has had one already. Raises TooMany, Stopping, Gone, and Overdue after `patience`
        seconds.
        """
        if not admitted:
            self.check_room()
        came = time.monotonic()
        if self._free:
            self._free -= 1
        else:
            await self._wait(departure(), patience)
        began = time.monotonic()
        try:
            yield began - came
        finally:
            self._turn_seconds += _WEIGHT * (time.monotonic() - began - self._turn_seconds)
            self._next()

    async def _wait(self, departure: asyncio.Future[Any], patience: float | None) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait((turn, departure), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._leave(turn)
            raise
        if departure.done():
            self._leave(turn)
            raise Gone
        if not turn.done():
            self._leave(turn)
            raise Overdue(self.seconds_until_room())
        turn.result()  # raises Stopping

    def _leave(self, turn: "asyncio.Future[None]") -> None:
        if not turn.done():
            self._waiting.remove(turn)
        elif turn.exception() is None:
            self._next()  # it was our turn already

    def _next(self) -> None:
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._free += 1

    def give_up(self) -> None:
        """Send home all who wait: they get Stopping."""
        self.draining = True
        while self._waiting:
            self._waiting.popleft().set_exception(Stopping())
