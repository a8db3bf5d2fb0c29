"""The bounded queue for the workers, with fair queueing over clients.

A free slot goes to the waiting client that has used the least worker time so far (start-time fair queueing: Goyal, Vin
and Cheng, 1996). Each client's requests start in order. So a client with many or long programs delays only itself.
"""

import math
import time
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Generic, TypeVar

from sandbox.service.service_errors import ServiceShutdown, TooManyRequests

_MAX_RETRY_AFTER = 60  # seconds
_WEIGHT = 0.1  # weight of the last finished request in the moving average of durations
_MAX_TRACKED_CLIENTS = 1024  # number of clients above which the queue drops those without recent usage


@dataclass(eq=False, slots=True)
class QueueEntry:
    """A queued or running request.

    client        the client's key
    is_admitted   whether it belongs to an admitted batch, so that it cannot be evicted
    start_time    monotonic time of its start; 0 before
    charged_from  monotonic time from which the client is charged
    """

    client: str
    is_admitted: bool = False
    start_time: float = 0.0
    charged_from: float = 0.0


Entry = TypeVar("Entry", bound=QueueEntry)


class _Client(Generic[Entry]):
    """The entries of a client.

    used          seconds of its finished entries
    charged_from  sum of `charged_from` of its running entries
    """

    __slots__ = ("charged_from", "running", "used", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.used = self.charged_from = 0.0
        self.running = 0

    def compute_cost(self, now: float) -> float:
        """Return the seconds of its finished and running entries."""
        return self.used + self.running * now - self.charged_from


@lru_cache(_MAX_TRACKED_CLIENTS)
def make_client_key(host: str) -> str:
    """Return the key of the client at an address: for IPv6 its /64 prefix, which one client usually owns."""
    try:
        return IPv6Address(host.partition("%")[0]).exploded[:19]
    except ValueError:
        return host


class FairQueue(Generic[Entry]):
    """A bounded queue that starts entries in fair order. Not thread-safe.

    max_running  number of slots, one per running entry
    max_waiting  maximum number of waiting entries
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._free = max_running
        self._max_waiting = max_waiting
        self._clients: dict[str, _Client[Entry]] = {}
        self._waiting_clients: dict[str, _Client[Entry]] = {}
        self._virtual_time = 0.0  # cost of the last client that got a slot; the initial cost of a new client
        self._mean_seconds = 0.1  # moving average of the durations of entries
        self.n_waiting = 0
        self.draining = False

    @property
    def n_running(self) -> int:
        """Number of running entries."""
        return self._max_running - self._free

    def admit(self, client: str) -> Entry | None:
        """Admit a request of this client; return the entry evicted for it, if any.

        A full queue evicts the last entry of the client with the most waiting entries. Raises TooManyRequests unless
        that client has at least two more than this one, and ServiceShutdown while draining.
        """
        if self.draining:
            raise ServiceShutdown
        if self._free or self.n_waiting < self._max_waiting:
            return None
        longest = max(self._waiting_clients.values(), key=lambda each: len(each.waiting), default=_Client[Entry]())
        own = self._waiting_clients.get(client)
        last = next((entry for entry in reversed(longest.waiting) if not entry.is_admitted), None)
        if last is None or len(longest.waiting) <= (len(own.waiting) if own is not None else 0) + 1:
            raise TooManyRequests(self.estimate_retry_seconds())
        self.remove(last)
        return last

    def estimate_retry_seconds(self) -> int:
        """Estimate the time until the queue is empty, in whole seconds, for Retry-After."""
        seconds = (self.n_waiting + 1) * self._mean_seconds / self._max_running
        return max(1, min(_MAX_RETRY_AFTER, math.ceil(seconds)))

    def add(self, entry: Entry) -> bool:
        """Start or queue an entry; return whether it has started."""
        client = self._find_client(entry.client)
        if self._free:
            self._free -= 1
            self._start(client, entry)
            return True
        client.waiting.append(entry)
        self._waiting_clients[entry.client] = client
        self.n_waiting += 1
        return False

    def remove(self, entry: Entry) -> None:
        """Remove a waiting entry."""
        client = self._clients[entry.client]
        client.waiting.remove(entry)
        self._update_waiting(client, entry)

    def finish(self, entry: Entry) -> Entry | None:
        """Free the slot of a running entry; return the entry that starts in it, if any."""
        client, now = self._clients[entry.client], time.monotonic()
        client.running -= 1
        client.charged_from = client.charged_from - entry.charged_from if client.running else 0.0
        client.used += now - entry.start_time
        self._mean_seconds += _WEIGHT * (now - entry.start_time - self._mean_seconds)
        if not self._waiting_clients:
            self._free += 1
            return None
        client = min(self._waiting_clients.values(), key=lambda each: each.compute_cost(now))
        following = client.waiting.popleft()
        self._update_waiting(client, following)
        self._start(client, following)
        return following

    def drain(self) -> list[Entry]:
        """Remove and return all waiting entries, and reject later requests."""
        self.draining = True
        entries = [entry for client in self._waiting_clients.values() for entry in client.waiting]
        for entry in entries:
            self.remove(entry)
        return entries

    def _find_client(self, key: str) -> _Client[Entry]:
        client = self._clients.get(key)
        if client is None:
            if len(self._clients) >= _MAX_TRACKED_CLIENTS:
                self._drop_idle_clients()
            client = self._clients[key] = _Client()
        if not client.running and not client.waiting:
            client.used = max(client.used, self._virtual_time)  # a client gains no advantage by idle time
        return client

    def _drop_idle_clients(self) -> None:
        self._clients = {
            key: client
            for key, client in self._clients.items()
            if client.running or client.waiting or client.used > self._virtual_time
        }

    def _update_waiting(self, client: _Client[Entry], entry: Entry) -> None:
        self.n_waiting -= 1
        if not client.waiting:
            del self._waiting_clients[entry.client]

    def _start(self, client: _Client[Entry], entry: Entry) -> None:
        now = time.monotonic()
        self._virtual_time = max(self._virtual_time, client.compute_cost(now))
        entry.start_time, entry.charged_from = now, now - self._mean_seconds  # charges the mean duration in advance
        client.running += 1
        client.charged_from += entry.charged_from
