"""The queue for the workers, in which only a limited number of requests may wait.

The next turn goes to the waiting client that has had the least time on the workers (start-time fair queueing: Goyal,
Vin and Cheng, 1996); requests of one client are served in order. So a client with many or long programs delays itself,
not others.

A client is everyone who shares an address: see client_of. A single client is served first come, first served.
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

from sandbox.service.service_errors import ClientDisconnected, QueueTimeout, ShuttingDown, TooManyRequests

_MAX_RETRY_AFTER = 60  # seconds
_WEIGHT = 0.1  # weight of the latest turn in the moving average of the duration of a turn
_MAX_TRACKED_CLIENTS = 1024  # when there are more, those that have no time to make up for are forgotten


@dataclass(eq=False, slots=True)
class _Turn:
    """A turn that a request waits for; `began` completes with the time at which the turn began."""

    began: "asyncio.Future[float]"
    admitted: bool


class _Client:
    """A client's turns.

    used   seconds of its finished turns
    began  sum of the times at which its running turns began
    """

    def __init__(self) -> None:
        self.waiting: deque[_Turn] = deque()
        self.used = 0.0
        self.running = 0
        self.began = 0.0
        self.listed = False  # whether it is in the heap, where every client with waiting requests is

    def cost(self, min_seconds: float) -> float:
        """Seconds of all its turns; a running one counts as long as it has lasted, but at least `min_seconds`."""
        if not self.running:
            return self.used
        return self.used + max(self.running * time.monotonic() - self.began, self.running * min_seconds)


@lru_cache(_MAX_TRACKED_CLIENTS)
def client_key(host: str) -> str:
    """Return the client behind an address. Only the first half of an IPv6 address counts, since the
    holder of one such address has all others with the same first half.
    """
    try:
        return IPv6Address(host.partition("%")[0]).exploded[:19]
    except ValueError:
        return host


class FairQueue:
    """Gives out turns. For one event loop only: it has no locks.

    turns        turns that may be in progress at once
    max_waiting  requests that may wait
    """

    def __init__(self, turns: int, max_waiting: int) -> None:
        self._turns = turns
        self._free = turns
        self._max_waiting = max_waiting
        self._clients: dict[str, _Client] = {}
        self._heap: list[tuple[float, int, _Client]] = []  # cost when listed, a number that breaks ties, client
        self._numbers = itertools.count()
        self._reached = 0.0  # the cost of the client that had the latest turn: a new client starts from there
        self._turn_seconds = 0.1  # moving average
        self.waiting = 0
        self.draining = False

    @property
    def n_running(self) -> int:
        """Turns in progress."""
        return self._turns - self._free

    def is_contended(self, client: str) -> bool:
        """Return whether any other client waits or has a turn."""
        account = self._clients.get(client)
        own = (account.running + len(account.waiting)) if account is not None else 0
        return self.n_running + self.waiting > own

    def make_room(self, client: str) -> None:
        """Make sure that a request of this client may wait.

        If the queue is full, the last request of the client with the most waiting requests is turned away to make
        room. Raises TooManyRequests if this client itself has the most, and ShuttingDown if the service is stopping.
        """
        if self.draining:
            raise ShuttingDown
        if self._free or self.waiting < self._max_waiting:
            return
        greediest = max(self._clients.values(), key=lambda account: len(account.waiting))
        own = self._clients.get(client)
        if len(greediest.waiting) <= (len(own.waiting) if own is not None else 0) + 1:
            raise TooManyRequests(self.retry_after_seconds())
        last = next((turn for turn in reversed(greediest.waiting) if not turn.admitted), None)
        if last is None:
            raise TooManyRequests(self.retry_after_seconds())
        greediest.waiting.remove(last)
        self.waiting -= 1
        last.began.set_exception(TooManyRequests(self.retry_after_seconds()))

    def retry_after_seconds(self) -> int:
        """Return the whole seconds after which to try again: by then, those who wait now should have had turns."""
        seconds = (self.waiting + 1) * self._turn_seconds / self._turns
        return max(1, min(_MAX_RETRY_AFTER, math.ceil(seconds)))

    @asynccontextmanager
    async def wait_for_turn(
        self,
        client: str,
        disconnect_future: Callable[[], asyncio.Future[Any]],
        timeout_seconds: float | None = None,
        *,
        admitted: bool = False,
    ) -> AsyncIterator[float]:
        """Wait for a turn and hold it while the context is open; yield the seconds that the wait took.

        client             who waits
        disconnect_future  returns a future that completes when the client goes away; then it gets no turn
        timeout_seconds    how long to wait at most
        admitted           whether this is a later part of a request that has been admitted already

        Raises TooManyRequests, ShuttingDown, ClientDisconnected, and QueueTimeout after `timeout_seconds`.
        """
        if not admitted:
            self.make_room(client)
        arrived = time.monotonic()
        account = self._account(client)
        if self._free:
            self._free -= 1
            start_time = self._begin(account)
        else:
            start_time = await self._wait(
                account, _Turn(asyncio.Future(), admitted), disconnect_future(), timeout_seconds
            )
        try:
            yield start_time - arrived
        finally:
            self._turn_seconds += _WEIGHT * (time.monotonic() - start_time - self._turn_seconds)
            self._end(account, start_time)

    def _account(self, client: str) -> _Client:
        account = self._clients.get(client)
        if account is None:
            if len(self._clients) >= _MAX_TRACKED_CLIENTS:
                self._forget_idle()
            account = self._clients[client] = _Client()
        if not account.running and not account.waiting:
            account.used = max(account.used, self._reached)  # idle time earns no turns
        return account

    def _forget_idle(self) -> None:
        self._clients = {
            name: account
            for name, account in self._clients.items()
            if account.running or account.waiting or account.used > self._reached
        }

    def _begin(self, account: _Client) -> float:
        self._reached = max(self._reached, account.cost(self._turn_seconds))
        now = time.monotonic()
        account.running += 1
        account.began += now
        return now

    def _end(self, account: _Client, start_time: float) -> None:
        account.running -= 1
        account.began = account.began - start_time if account.running else 0.0
        account.used += time.monotonic() - start_time
        self._next()

    async def _wait(
        self, account: _Client, turn: _Turn, departure: asyncio.Future[Any], patience_seconds: float | None
    ) -> float:
        account.waiting.append(turn)
        self.waiting += 1
        self._list(account)
        try:
            await asyncio.wait((turn.began, departure), timeout=patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._leave(account, turn)
            raise
        if departure.done():
            self._leave(account, turn)
            raise ClientDisconnected
        if not turn.began.done():
            self._leave(account, turn)
            raise QueueTimeout(self.retry_after_seconds())
        return turn.began.result()  # raises ShuttingDown, or TooManyRequests

    def _leave(self, account: _Client, turn: _Turn) -> None:
        if not turn.began.done():
            account.waiting.remove(turn)
            self.waiting -= 1
        elif turn.began.exception() is None:
            self._end(account, turn.began.result())  # the turn had begun already

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
            # Its running turns have cost more since it was listed, perhaps so much that others come first.
            if self._heap and account.cost(self._turn_seconds) > self._heap[0][0] + self._turn_seconds:
                self._list(account)
                continue
            self.waiting -= 1
            turn = account.waiting.popleft()
            turn.began.set_result(self._begin(account))
            self._list(account)
            return
        self._free += 1

    def reject_waiting(self) -> None:
        """Turn away everyone who waits: they get ShuttingDown."""
        self.draining = True
        for account in self._clients.values():
            while account.waiting:
                account.waiting.popleft().began.set_exception(ShuttingDown())
        self.waiting = 0
