"""Which relay is asked for the next piece: the one that should have sent it first, by how often and how fast it served
before and by what it is sending already.

A relay that sends something else than the manifest says is left alone for a while, and twice as long each time.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from sandbox.concurrency.sockets import SocketInterrupt

MAX_CONCURRENT, MAX_CONCURRENT_FOR_RELAYS = 4, 2
_WEIGHT = 0.3  # of the newest observation in the moving averages
_FLOOR = 0.02  # chance that any relay is drawn, so that one that was slow can show that it is not any more
_TELLING_BYTES = 2**18  # smaller transfers say more about the latency than about the bandwidth
_QUARANTINE_SECONDS, _MAX_QUARANTINE_SECONDS = 600.0, 86400.0
_MIN_DEADLINE_SECONDS = 5.0
_DEADLINE_FACTOR = 4.0  # times what a piece takes with the median bandwidth
_MAX_DOUBLINGS = 5  # of the deadline, for a relay that has missed it so often in a row
_UNKNOWN_BANDWIDTH = 10e6  # bytes per second, until something is known
_MIN_SUCCESS = 0.001


@dataclass(slots=True)
class _Relay:
    """What is known of a relay.

    bandwidth  bytes per second, of all its transfers together; None: nothing is known
    sending    bytes of the transfers that run
    running    number of these
    load       integral of `running` over time, up to `load_at`
    late       transfers in a row that did not end in time
    """

    success: float = 1.0
    bandwidth: float | None = None
    sending: int = 0
    running: int = 0
    load: float = 0.0
    load_at: float = 0.0
    late: int = 0
    lies: int = 0
    alone_until: float = 0.0  # it lied, or asked for it


@dataclass(slots=True)
class Transfer:
    """A piece that a relay is sending.

    expected_seconds  what it should take
    deadline_seconds  after which another relay is tried
    cancel            ends it
    """

    url: str
    n_bytes: int
    started_at: float
    expected_seconds: float
    deadline_seconds: float
    load_at_start: float  # of the relay when it began
    arrived_bytes: int = 0
    cancel: SocketInterrupt = field(default_factory=SocketInterrupt)

    def record_progress(self, n_bytes: int) -> None:
        """Note how much of it is here."""
        self.arrived_bytes = n_bytes


class RelaySelector:
    """The relays of a client. Many threads use it at once.

    at_once      pieces that one relay sends at once, at most. They share its bandwidth, so that each takes longer: a
                 relay, which passes on whole shards, asks for few
    min_seconds  the shortest deadline of a transfer
    """

    def __init__(
        self, urls: Sequence[str], *, at_once: int = MAX_CONCURRENT, min_seconds: float = _MIN_DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None,
    ) -> None:  # fmt: skip
        self._relays = {url.rstrip("/"): _Relay() for url in urls}
        self._at_once, self._min_seconds = at_once, min_seconds
        self._clock, self._rng = clock, rng or random.Random()
        self._lock = threading.Lock()

    @property
    def urls(self) -> tuple[str, ...]:
        """All of them, quarantined or not."""
        return tuple(self._relays)

    def available(self) -> list[str]:
        """Return those that can be asked now: they are not in quarantine, and have not asked to be left alone."""
        with self._lock:
            return self._able()

    def choose(self, n_bytes: int, among: Collection[str]) -> str | None:
        """Return the one of these relays that should have sent a piece first, rarely any; None if none can be asked."""
        with self._lock:
            able = [url for url in self._able() if url in among and self._relays[url].running < self._at_once]
            if not able:
                return None
            self._rng.shuffle(able)  # of equals, any
            if self._rng.random() < _FLOOR:
                return able[0]
            return min(able, key=lambda url: self._seconds_for(url, n_bytes))

    def expected_seconds(self, url: str, n_bytes: int) -> float:
        """Return how long a piece should take if a relay is asked for it now, after all that it is sending."""
        with self._lock:
            return self._seconds_for(url, n_bytes)

    def start_transfer(self, url: str, n_bytes: int) -> Transfer:
        """Note that a relay is asked for a piece. One of `record_success`, `record_failure` and `record_cancelled` has
        to follow."""
        with self._lock:
            relay = self._relays[url]
            now, expected = self._clock(), self._seconds_for(url, n_bytes)
            self._count(relay, n_bytes, 1)
            retry = _DEADLINE_FACTOR * relay.sending / (self._median() or _UNKNOWN_BANDWIDTH)
            deadline = max(self._min_seconds, retry) * 2 ** min(relay.late, _MAX_DOUBLINGS)
            return Transfer(url, n_bytes, now, expected, deadline, relay.load)

    def record_success(self, transfer: Transfer) -> None:
        """Note that a relay sent what it should."""
        with self._lock:
            relay = self._end(transfer)
            relay.success += _WEIGHT * (1 - relay.success)
            relay.late = 0

    def record_failure(self, transfer: Transfer) -> None:
        """Note that a relay broke off, or was too slow."""
        with self._lock:
            relay = self._end(transfer)
            relay.success *= 1 - _WEIGHT
            if self._clock() - transfer.started_at >= transfer.deadline_seconds:
                relay.late += 1

    def record_cancelled(self, transfer: Transfer) -> None:
        """Note that a transfer ended for a reason that says nothing about the relay, or only that it is slow."""
        with self._lock:
            relay = self._end(transfer)
            if transfer.cancel.has_fired and self._clock() - transfer.started_at > 2 * transfer.expected_seconds:
                relay.success *= 1 - _WEIGHT

    def record_request_failure(self, url: str) -> None:
        """Note that a relay did not send something small."""
        with self._lock:
            self._relays[url].success *= 1 - _WEIGHT

    def back_off(self, url: str, seconds: float) -> None:
        """Leave a relay alone that asks for it."""
        with self._lock:
            relay = self._relays[url]
            relay.success *= 1 - _WEIGHT
            relay.alone_until = max(relay.alone_until, self._clock() + seconds)

    def quarantine(self, url: str) -> None:
        """Quarantine a relay that sent corrupt data. Simultaneous failures count once."""
        with self._lock:
            relay, now = self._relays[url], self._clock()
            relay.success *= 1 - _WEIGHT
            if relay.alone_until <= now + _MIN_DEADLINE_SECONDS * 2**_MAX_DOUBLINGS:
                seconds = _QUARANTINE_SECONDS * 2 ** min(relay.lies, 20)
                relay.alone_until = now + min(seconds, _MAX_QUARANTINE_SECONDS)
                relay.lies += 1

    def seconds_until_available(self) -> float:
        """Return the seconds until a relay can be asked; 0 if one can be asked now."""
        with self._lock:
            return max(0.0, min(relay.alone_until for relay in self._relays.values()) - self._clock())

    def _able(self) -> list[str]:
        now = self._clock()
        return [url for url, relay in self._relays.items() if relay.alone_until <= now]

    def _median(self) -> float | None:
        known = [relay.bandwidth for relay in self._relays.values() if relay.bandwidth is not None]
        return statistics.median(known) if known else None

    def _seconds_for(self, url: str, n_bytes: int) -> float:
        relay = self._relays[url]
        bandwidth = relay.bandwidth or self._median() or _UNKNOWN_BANDWIDTH
        return (relay.sending + n_bytes) / (bandwidth * max(relay.success, _MIN_SUCCESS))

    def _count(self, relay: _Relay, n_bytes: int, one: int) -> None:
        now = self._clock()
        relay.load += relay.running * (now - relay.load_at)
        relay.load_at = now
        relay.running += one
        relay.sending += one * n_bytes

    def _end(self, transfer: Transfer) -> _Relay:
        """Count a transfer as ended, and what it tells about the bandwidth."""
        relay = self._relays[transfer.url]
        self._count(relay, transfer.n_bytes, -1)
        seconds = max(self._clock() - transfer.started_at, 1e-6)
        if transfer.arrived_bytes >= _TELLING_BYTES:
            beside = max(
                (relay.load - transfer.load_at_start) / seconds, 1.0
            )  # transfers that shared the relay's bandwidth
            found = transfer.arrived_bytes * beside / seconds
            relay.bandwidth = (
                found if relay.bandwidth is None else relay.bandwidth + _WEIGHT * (found - relay.bandwidth)
            )
        return relay
