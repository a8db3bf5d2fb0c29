"""Selection of the relay with the shortest expected transfer time, from success rate, bandwidth and load.

A relay that sends corrupt data is quarantined. Each quarantine of a relay is twice as long as the previous one.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from sandbox.concurrency.sockets import SocketInterrupt

MAX_CONCURRENT, MAX_CONCURRENT_FOR_RELAYS = 4, 2
_NEWEST_WEIGHT = 0.3  # weight of the newest observation in the moving averages
_EXPLORE_PROBABILITY = 0.02  # probability of choosing a random relay, so estimates of slow relays can recover
_MIN_MEASURED_BYTES = 2**18  # smaller transfers measure latency rather than bandwidth
_QUARANTINE_SECONDS, _MAX_QUARANTINE_SECONDS = 600.0, 86400.0
_MIN_DEADLINE_SECONDS = 5.0
_DEADLINE_FACTOR = 4.0  # deadline of a transfer, as a multiple of its duration at the median bandwidth
_MAX_DOUBLINGS = 5  # maximum doublings of a relay's deadline, one for each successive missed deadline
_DEFAULT_BANDWIDTH = 10e6  # bytes per second, assumed before the first measurement
_MIN_SUCCESS_RATE = 0.001


@dataclass(slots=True)
class _Relay:
    """The statistics of a relay.

    success_rate       moving average of its successes, from 0 to 1
    bandwidth          bytes per second of all its transfers together; None before the first measurement
    pending_bytes      total size of its transfers in progress
    n_running          number of its transfers in progress
    transfer_seconds   sum of the durations of all its transfers, up to `updated_at`
    n_late             number of successive transfers that missed their deadline
    unavailable_until  end of its quarantine, or of the backoff that it requested
    """

    success_rate: float = 1.0
    bandwidth: float | None = None
    pending_bytes: int = 0
    n_running: int = 0
    transfer_seconds: float = 0.0
    updated_at: float = 0.0
    n_late: int = 0
    n_quarantines: int = 0
    unavailable_until: float = 0.0


@dataclass(slots=True)
class Transfer:
    """A transfer in progress.

    expected_seconds        estimated duration
    deadline_seconds        timeout; another relay is then tried
    relay_transfer_seconds  the relay's `transfer_seconds` at `started_at`
    cancel                  interrupts the transfer
    """

    url: str
    n_bytes: int
    started_at: float
    expected_seconds: float
    deadline_seconds: float
    relay_transfer_seconds: float
    arrived_bytes: int = 0
    cancel: SocketInterrupt = field(default_factory=SocketInterrupt)

    def record_progress(self, n_bytes: int) -> None:
        """Record the total number of bytes received so far."""
        self.arrived_bytes = n_bytes


class RelaySelector:
    """A selector among the relays of a client. Thread-safe.

    max_concurrent  maximum number of concurrent transfers from a relay; they share its bandwidth
    min_seconds     minimum timeout of a transfer
    """

    def __init__(
        self, urls: Sequence[str], *, max_concurrent: int = MAX_CONCURRENT, min_seconds: float = _MIN_DEADLINE_SECONDS,
        clock: Callable[[], float] = time.monotonic, rng: random.Random | None = None,
    ) -> None:  # fmt: skip
        self._relays = {url.rstrip("/"): _Relay() for url in urls}
        self._max_concurrent, self._min_seconds = max_concurrent, min_seconds
        self._clock, self._rng = clock, rng or random.Random()
        self._lock = threading.Lock()

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all relays, including unavailable ones."""
        return tuple(self._relays)

    def list_available(self) -> list[str]:
        """Return the URLs of relays neither in quarantine nor in backoff."""
        with self._lock:
            return self._list_available()

    def choose(self, n_bytes: int, candidates: Collection[str]) -> str | None:
        """Choose the candidate with the shortest expected transfer time, or occasionally a random one.

        Returns None if all candidates are busy or unavailable.
        """
        with self._lock:
            free = [
                url
                for url in self._list_available()
                if url in candidates and self._relays[url].n_running < self._max_concurrent
            ]
            if not free:
                return None
            self._rng.shuffle(free)  # break ties at random
            if self._rng.random() < _EXPLORE_PROBABILITY:
                return free[0]
            return min(free, key=lambda url: self._estimate_seconds(url, n_bytes))

    def estimate_seconds(self, url: str, n_bytes: int) -> float:
        """Return the expected duration of a new transfer, given the relay's transfers in progress."""
        with self._lock:
            return self._estimate_seconds(url, n_bytes)

    def start_transfer(self, url: str, n_bytes: int) -> Transfer:
        """Record the start of a transfer. Call `record_success`, `record_failure` or `record_cancelled` at its end."""
        with self._lock:
            relay = self._relays[url]
            now, expected = self._clock(), self._estimate_seconds(url, n_bytes)
            self._add_transfers(relay, n_bytes, 1)
            median_bandwidth = self._compute_median_bandwidth() or _DEFAULT_BANDWIDTH
            deadline = max(self._min_seconds, _DEADLINE_FACTOR * relay.pending_bytes / median_bandwidth)
            deadline *= 2 ** min(relay.n_late, _MAX_DOUBLINGS)
            return Transfer(url, n_bytes, now, expected, deadline, relay.transfer_seconds)

    def record_success(self, transfer: Transfer) -> None:
        """Record a complete transfer with a valid digest."""
        with self._lock:
            relay = self._end_transfer(transfer)
            relay.success_rate += _NEWEST_WEIGHT * (1 - relay.success_rate)
            relay.n_late = 0

    def record_failure(self, transfer: Transfer) -> None:
        """Record a transfer that failed or missed its deadline."""
        with self._lock:
            relay = self._end_transfer(transfer)
            relay.success_rate *= 1 - _NEWEST_WEIGHT
            if self._clock() - transfer.started_at >= transfer.deadline_seconds:
                relay.n_late += 1

    def record_cancelled(self, transfer: Transfer) -> None:
        """Record a cancelled transfer. Count it as a failure if it took more than twice its expected duration."""
        with self._lock:
            relay = self._end_transfer(transfer)
            if transfer.cancel.has_fired and self._clock() - transfer.started_at > 2 * transfer.expected_seconds:
                relay.success_rate *= 1 - _NEWEST_WEIGHT

    def record_request_failure(self, url: str) -> None:
        """Record a failed request for `latest` or a manifest."""
        with self._lock:
            self._relays[url].success_rate *= 1 - _NEWEST_WEIGHT

    def back_off(self, url: str, seconds: float) -> None:
        """Exclude a relay for a time that it requested."""
        with self._lock:
            relay = self._relays[url]
            relay.success_rate *= 1 - _NEWEST_WEIGHT
            relay.unavailable_until = max(relay.unavailable_until, self._clock() + seconds)

    def quarantine(self, url: str) -> None:
        """Quarantine a relay that sent corrupt data. Simultaneous failures count once."""
        with self._lock:
            relay, now = self._relays[url], self._clock()
            relay.success_rate *= 1 - _NEWEST_WEIGHT
            if relay.unavailable_until <= now + _MIN_DEADLINE_SECONDS * 2**_MAX_DOUBLINGS:
                seconds = _QUARANTINE_SECONDS * 2 ** min(relay.n_quarantines, 20)
                relay.unavailable_until = now + min(seconds, _MAX_QUARANTINE_SECONDS)
                relay.n_quarantines += 1

    def get_seconds_until_available(self) -> float:
        """Return the seconds until a relay is available; 0 if one is now."""
        with self._lock:
            return max(0.0, min(relay.unavailable_until for relay in self._relays.values()) - self._clock())

    def _list_available(self) -> list[str]:
        now = self._clock()
        return [url for url, relay in self._relays.items() if relay.unavailable_until <= now]

    def _compute_median_bandwidth(self) -> float | None:
        bandwidths = [relay.bandwidth for relay in self._relays.values() if relay.bandwidth is not None]
        return statistics.median(bandwidths) if bandwidths else None

    def _estimate_seconds(self, url: str, n_bytes: int) -> float:
        relay = self._relays[url]
        bandwidth = relay.bandwidth or self._compute_median_bandwidth() or _DEFAULT_BANDWIDTH
        return (relay.pending_bytes + n_bytes) / (bandwidth * max(relay.success_rate, _MIN_SUCCESS_RATE))

    def _add_transfers(self, relay: _Relay, n_bytes: int, n: int) -> None:
        now = self._clock()
        relay.transfer_seconds += relay.n_running * (now - relay.updated_at)
        relay.updated_at = now
        relay.n_running += n
        relay.pending_bytes += n * n_bytes

    def _end_transfer(self, transfer: Transfer) -> _Relay:
        """End a transfer, and update the relay's bandwidth."""
        relay = self._relays[transfer.url]
        self._add_transfers(relay, transfer.n_bytes, -1)
        seconds = max(self._clock() - transfer.started_at, 1e-6)
        if transfer.arrived_bytes >= _MIN_MEASURED_BYTES:
            # Concurrent transfers share the bandwidth, so their mean number scales this one's.
            mean_running = max((relay.transfer_seconds - transfer.relay_transfer_seconds) / seconds, 1.0)
            measured = transfer.arrived_bytes * mean_running / seconds
            previous = measured if relay.bandwidth is None else relay.bandwidth
            relay.bandwidth = previous + _NEWEST_WEIGHT * (measured - previous)
        return relay
