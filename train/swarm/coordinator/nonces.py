"""Replay protection of requests, by nonce, signing time, and incarnation of the coordinator."""

from collections import OrderedDict

from sandbox.service.service_errors import Unauthorized
from train.swarm.coordinator.intake import RetryLater
from train.swarm.requests import RequestHead

MAX_CLOCK_SKEW_SECONDS = 60.0
NONCE_TTL_SECONDS = 180.0
MAX_PER_NODE = 10_000


class StaleIncarnation(Exception):
    """A request for an earlier incarnation of the coordinator, or for none."""


class NonceCache:
    """The nonces of all nodes, for requests with a valid signature. Not thread-safe.

    The cache keeps a nonce longer than its request is valid. It bounds memory by refusing requests of a node with too
    many nonces.

    start: random id of this incarnation; requests for others are refused, since their nonces are lost
    """

    def __init__(self, start: bytes, *, max_per_node: int = MAX_PER_NODE) -> None:
        self.start = start
        self._max_per_node = max_per_node
        self._seen: dict[bytes, OrderedDict[bytes, float]] = {}
        self._swept = 0.0

    def check(self, head: RequestHead, now: float) -> None:
        """Check the incarnation and signing time of a request. now: seconds since 1970.

        Raises StaleIncarnation and Unauthorized.
        """
        if head.incarnation != self.start:
            raise StaleIncarnation("the request is for an earlier incarnation of the coordinator")
        ahead = head.time_ms / 1000 - now
        if abs(ahead) > MAX_CLOCK_SKEW_SECONDS:
            side = "ahead of" if ahead > 0 else "behind"
            raise Unauthorized(
                f"the signing time is wrong: the clock of this machine is {abs(ahead):.0f} s {side} the "
                "coordinator's, or the request was delayed. Set the clock."
            )

    def record(self, head: RequestHead, now: float) -> None:
        """Record the nonce of a joined node. Raises Unauthorized if it is replayed, and RetryLater."""
        self._sweep(now)
        seen = self._seen.setdefault(head.node, OrderedDict())
        self._forget(seen, now)
        if head.nonce in seen:
            raise Unauthorized("the request was received already")
        if len(seen) >= self._max_per_node:
            raise RetryLater("too many requests of this node", 30)
        seen[head.nonce] = now

    def __len__(self) -> int:
        return sum(map(len, self._seen.values()))

    def _sweep(self, now: float) -> None:
        """Drop expired nonces of all nodes, once in NONCE_TTL_SECONDS."""
        if now - self._swept < NONCE_TTL_SECONDS:
            return
        self._swept = now
        for node in list(self._seen):
            self._forget(self._seen[node], now)
            if not self._seen[node]:
                del self._seen[node]

    @staticmethod
    def _forget(seen: "OrderedDict[bytes, float]", now: float) -> None:
        while seen and now - next(iter(seen.values())) > NONCE_TTL_SECONDS:
            seen.popitem(last=False)
