"""How much each address may ask of a relay: token buckets for requests and for bytes."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_MAX_ADDRESSES = 10_000  # that are remembered; the least recent are forgotten, and begin with full buckets again


@dataclass(slots=True)
class _Bucket:
    requests: float
    n_bytes: float
    at: float


class RelayRateLimiter:
    """The rates of a relay. One thread uses it.

    requests_per_second, bytes_per_second   of one address in the long run
    burst_seconds                           an address that was quiet may ask for what these seconds allow at once
    """

    def __init__(
        self, requests_per_second: float, bytes_per_second: float, *, burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._requests, self._bytes, self._burst = requests_per_second, bytes_per_second, burst_seconds
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_seconds(self, address: str, n_bytes: int) -> float:
        """Return 0 if an address may have an answer of this size now, and count it; else the seconds until it may.

        An answer that is larger than the bucket may be had when the bucket is full; the bucket is in debt afterwards.
        """
        now = self._clock()
        bucket = self._buckets.pop(address, None) or _Bucket(
            self._requests * self._burst, self._bytes * self._burst, now
        )
        self._buckets[address] = bucket
        if len(self._buckets) > _MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        passed, bucket.at = now - bucket.at, now
        bucket.requests = min(bucket.requests + passed * self._requests, max(1.0, self._requests * self._burst))
        bucket.n_bytes = min(bucket.n_bytes + passed * self._bytes, self._bytes * self._burst)
        needed = min(n_bytes, self._bytes * self._burst)
        wait = max((1 - bucket.requests) / self._requests, (needed - bucket.n_bytes) / self._bytes, 0.0)
        if wait == 0:
            bucket.requests -= 1
            bucket.n_bytes -= n_bytes
        return wait


def retry_after(seconds: float) -> str:
    """Return the value of the header Retry-After."""
    return str(max(1, math.ceil(seconds)))
