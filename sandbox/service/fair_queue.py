"""The bounded queue for the workers, with fair queueing over clients.

The next turn goes to the waiting client with the least time on the workers so far (start-time fair queueing: Goyal, Vin
and Cheng, 1996); requests of one client are served in order. So a client with many or long programs delays only itself.

A client is identified by its address; see client_key.
"""

import math
import time
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Generic, TypeVar

from sandbox.service.service_errors import ShuttingDown, TooManyRequests

_MAX_RETRY_AFTER = 60  # seconds
_WEIGHT = 0.1  # weight of the latest turn in the moving average of the duration of a turn
_MAX_TRACKED_CLIENTS = 1024  # above this, clients without recent usage are dropped


@dataclass(eq=False, slots=True)
class Turn:
    """A request's turn on the workers.

    client        the client's key
    admitted      whether it belongs to an already admitted request
    start_time    monotonic time of its start; 0 before
    charged_from  monotonic time from which the client is charged
    """

    client: str
    admitted: bool = False
    start_time: float = 0.0
    charged_from: float = 0.0


AnyTurn = TypeVar("AnyTurn", bound=Turn)


class _Client(Generic[AnyTurn]):
    """A client's turns.

    used          seconds of its finished turns
    charged_from  sum of `charged_from` of its running turns
    """

    __slots__ = ("charged_from", "running", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[AnyTurn] = deque()
        self.used = self.charged_from = 0.0
        self.running = 0

    def cost(self, now: float) -> float:
        """Return the seconds of all its turns until now."""
        return self.used + self.running * now - self.charged_from


@lru_cache(_MAX_TRACKED_CLIENTS)
def client_key(host: str) -> str:
    """Return the client of an address: for IPv6 its /64 prefix, since one client usually has all addresses with it."""
    try:
        return IPv6Address(host.partition("%")[0]).exploded[:19]
    except ValueError:
        return host


class FairQueue(Generic[AnyTurn]):
    """Schedules turns. Not thread-safe.

    max_running  maximum number of concurrent turns
    max_waiting  maximum number of waiting turns
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._free = max_running
        self._max_waiting = max_waiting
        self._clients: dict[str, _Client[AnyTurn]] = {}
        self._waiting_clients: dict[str, _Client[AnyTurn]] = {}  # clients with waiting turns
        self._virtual_time = 0.0  # cost of the latest turn's client, with which a new client starts
        self._turn_seconds = 0.1  # moving average
        self.waiting = 0
        self.draining = False

    @property
    def n_running(self) -> int:
        """Turns in progress."""
        return self._max_running - self._free

    def make_room(self, client: str) -> AnyTurn | None:
        """Make room for a request of this client; return the turn removed for it, if any. If the queue is full, this is
        the last turn of the client with the most waiting turns. Raises TooManyRequests if that is this client itself,
        and ShuttingDown if the service is stopping.
        """
        if self.draining:
            raise ShuttingDown
        if self._free or self.waiting < self._max_waiting:
            return None
        longest = max(
            self._waiting_clients.values(), key=lambda account: len(account.waiting), default=_Client[AnyTurn]()
        )
        own = self._waiting_clients.get(client)
        last = next((turn for turn in reversed(longest.waiting) if not turn.admitted), None)
        if last is None or len(longest.waiting) <= (len(own.waiting) if own is not None else 0) + 1:
            raise TooManyRequests(self.retry_after_seconds())
        self.leave(last)
        return last

    def retry_after_seconds(self) -> int:
        """Return the value for Retry-After: the estimated time in which the queue empties, in whole seconds."""
        seconds = (self.waiting + 1) * self._turn_seconds / self._max_running
        return max(1, min(_MAX_RETRY_AFTER, math.ceil(seconds)))

    def enter(self, turn: AnyTurn) -> bool:
        """Start or queue a turn; return whether it has started."""
        account = self._account(turn.client)
        if self._free:
            self._free -= 1
            self._begin(account, turn)
            return True
        account.waiting.append(turn)
        self._waiting_clients[turn.client] = account
        self.waiting += 1
        return False

    def leave(self, turn: AnyTurn) -> None:
        """Remove a waiting turn."""
        account = self._clients[turn.client]
        account.waiting.remove(turn)
        self._remove_from_queue(account, turn)

    def end(self, turn: AnyTurn) -> AnyTurn | None:
        """End a running turn; return the one that starts in its place, if any."""
        account, now = self._clients[turn.client], time.monotonic()
        account.running -= 1
        account.charged_from = account.charged_from - turn.charged_from if account.running else 0.0
        account.used += now - turn.start_time
        self._turn_seconds += _WEIGHT * (now - turn.start_time - self._turn_seconds)
        if not self._waiting_clients:
            self._free += 1
            return None
        account = min(self._waiting_clients.values(), key=lambda account: account.cost(now))
        following = account.waiting.popleft()
        self._remove_from_queue(account, following)
        self._begin(account, following)
        return following

    def drop_waiting(self) -> list[AnyTurn]:
        """Remove and return all waiting turns, and reject later ones."""
        self.draining = True
        turns = [turn for account in self._waiting_clients.values() for turn in account.waiting]
        for turn in turns:
            self.leave(turn)
        return turns

    def _account(self, client: str) -> _Client[AnyTurn]:
        account = self._clients.get(client)
        if account is None:
            if len(self._clients) >= _MAX_TRACKED_CLIENTS:
                self._drop_idle()
            account = self._clients[client] = _Client()
        if not account.running and not account.waiting:
            account.used = max(account.used, self._virtual_time)  # idle time earns no credit
        return account

    def _drop_idle(self) -> None:
        self._clients = {
            name: account
            for name, account in self._clients.items()
            if account.running or account.waiting or account.used > self._virtual_time
        }

    def _remove_from_queue(self, account: _Client[AnyTurn], turn: AnyTurn) -> None:
        self.waiting -= 1
        if not account.waiting:
            del self._waiting_clients[turn.client]

    def _begin(self, account: _Client[AnyTurn], turn: AnyTurn) -> None:
        now = time.monotonic()
        self._virtual_time = max(self._virtual_time, account.cost(now))
        turn.start_time, turn.charged_from = now, now - self._turn_seconds  # its estimated cost
        account.running += 1
        account.charged_from += turn.charged_from
