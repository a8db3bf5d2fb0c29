"""The line for the workers: so many may wait, and no more. Whose turn it is next: the client's that has had the least
time on the workers, of those who wait (start-time fair queueing: Goyal, Vin and Cheng, 1996); a client's own requests
come in their order. So a client with many or long programs keeps itself waiting, not others.

A client is whoever shares an address: see client_of. With nothing but one client it is first come, first served.
"""

import asyncio
import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Any

from sandbox.service.refusals import Gone, Overdue, Stopping, TooMany

_LONGEST_WAIT = 60  # seconds that a client is told to stay away
_WEIGHT = 0.1  # of the latest turn in the moving average of what a turn takes
_MANY = 1024  # clients that are remembered before those are forgotten that owe nothing


@dataclass(eq=False, slots=True)
class _Turn:
    """One that is waited for; then it is the time when it began."""

    began: "asyncio.Future[float]"
    admitted: bool


class _Client:
    """used: seconds of turns that are over; of the running ones, the sum of the times when they began."""

    def __init__(self) -> None:
        self.waiting: deque[_Turn] = deque()
        self.used = 0.0
        self.running = 0
        self.began = 0.0
        self.listed = False  # in the heap, as whoever has somebody waiting is

    def cost(self, least_seconds: float) -> float:
        """Seconds of its turns, those that run counted as they are by now, but at least with what a turn takes."""
        if not self.running:
            return self.used
        return self.used + max(self.running * time.monotonic() - self.began, self.running * least_seconds)


@lru_cache(_MANY)
def client_of(host: str) -> str:
    """Who asks, by address: of IPv6 the first half, as whoever has one address there has all of the second half."""
    try:
        return IPv6Address(host.partition("%")[0]).exploded[:19]
    except ValueError:
        return host


class Line:
    """places: turns at a time. room: requests that may wait. Belongs to one event loop, no locks."""

    def __init__(self, places: int, room: int) -> None:
        self._places = places
        self._free = places
        self._room = room
        self._clients: dict[str, _Client] = {}
        self._heap: list[tuple[float, int, _Client]] = []  # cost when listed
        self._numbers = itertools.count()
        self._reached = 0.0  # the cost of the client who had the latest turn: who comes anew starts from there
        self._turn_seconds = 0.1
        self.waiting = 0
        self.draining = False

    @property
    def running(self) -> int:
        return self._places - self._free

    def is_crowded(self, client: str) -> bool:
        """Whether others than this client wait or have a turn."""
        own = self._clients.get(client)
        mine = (own.running + len(own.waiting)) if own is not None else 0
        return self.running + self.waiting > mine

    def check_room(self, client: str) -> None:
        """Raises TooMany if a request would be turned away, Stopping if the service ends. When nobody can wait any
        more, the one who came last of the client with the most requests that wait is turned away for it."""
        if self.draining:
            raise Stopping
        if self._free or self.waiting < self._room:
            return
        greediest = max(self._clients.values(), key=lambda each: len(each.waiting))
        own = self._clients.get(client)
        if len(greediest.waiting) <= (len(own.waiting) if own is not None else 0) + 1:
            raise TooMany(self.seconds_until_room())
        last = next((turn for turn in reversed(greediest.waiting) if not turn.admitted), None)
        if last is None:
            raise TooMany(self.seconds_until_room())
        greediest.waiting.remove(last)
        self.waiting -= 1
        last.began.set_exception(TooMany(self.seconds_until_room()))

    def seconds_until_room(self) -> int:
        """Whole seconds after which to try again: what those who wait will take, as turns took lately."""
        seconds = (self.waiting + 1) * self._turn_seconds / self._places
        return max(1, min(_LONGEST_WAIT, math.ceil(seconds)))

    @asynccontextmanager
    async def turn(
        self,
        client: str,
        departure: Callable[[], asyncio.Future[Any]],
        patience: float | None = None,
        *,
        admitted: bool = False,
    ) -> AsyncIterator[float]:
        """Wait for a turn and have it; gives the seconds that the wait took.

        departure() completes when the client goes away: who is not there does not get a turn. `admitted` is for the
        later parts of a request that has had one already. Raises TooMany, Stopping, Gone, and Overdue after `patience`
        seconds.
        """
        if not admitted:
            self.check_room(client)
        came = time.monotonic()
        account = self._account(client)
        if self._free:
            self._free -= 1
            began = self._begin(account)
        else:
            began = await self._wait(account, _Turn(asyncio.Future(), admitted), departure(), patience)
        try:
            yield began - came
        finally:
            self._turn_seconds += _WEIGHT * (time.monotonic() - began - self._turn_seconds)
            self._end(account, began)

    def _account(self, client: str) -> _Client:
        account = self._clients.get(client)
        if account is None:
            if len(self._clients) >= _MANY:
                self._forget()
            account = self._clients[client] = _Client()
        if not account.running and not account.waiting:
            account.used = max(account.used, self._reached)  # nobody saves up turns
        return account

    def _forget(self) -> None:
        self._clients = {
            name: each
            for name, each in self._clients.items()
            if each.running or each.waiting or each.used > self._reached
        }

    def _begin(self, account: _Client) -> float:
        self._reached = max(self._reached, account.cost(self._turn_seconds))
        now = time.monotonic()
        account.running += 1
        account.began += now
        return now

    def _end(self, account: _Client, began: float) -> None:
        account.running -= 1
        account.began = account.began - began if account.running else 0.0
        account.used += time.monotonic() - began
        self._next()

    async def _wait(
        self, account: _Client, turn: _Turn, departure: asyncio.Future[Any], patience: float | None
    ) -> float:
        account.waiting.append(turn)
        self.waiting += 1
        self._list(account)
        try:
            await asyncio.wait((turn.began, departure), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._leave(account, turn)
            raise
        if departure.done():
            self._leave(account, turn)
            raise Gone
        if not turn.began.done():
            self._leave(account, turn)
            raise Overdue(self.seconds_until_room())
        return turn.began.result()  # raises Stopping, or TooMany

    def _leave(self, account: _Client, turn: _Turn) -> None:
        if not turn.began.done():
            account.waiting.remove(turn)
            self.waiting -= 1
        elif turn.began.exception() is None:
            self._end(account, turn.began.result())  # it was our turn already

    def _list(self, account: _Client) -> None:
        if account.waiting and not account.listed:
            account.listed = True
            heapq.heappush(self._heap, (account.cost(self._turn_seconds), next(self._numbers), account))

    def _next(self) -> None:
        while self._heap:
            _, _, account = heapq.heappop(self._heap)
            account.listed = False
            if not account.waiting:
                continue
            # What it has running costs more by now: perhaps so much that others come first.
            if self._heap and account.cost(self._turn_seconds) > self._heap[0][0] + self._turn_seconds:
                self._list(account)
                continue
            self.waiting -= 1
            turn = account.waiting.popleft()
            turn.began.set_result(self._begin(account))
            self._list(account)
            return
        self._free += 1

    def give_up(self) -> None:
        """Send home all who wait: they get Stopping."""
        self.draining = True
        for account in self._clients.values():
            while account.waiting:
                account.waiting.popleft().began.set_exception(Stopping())
        self.waiting = 0
