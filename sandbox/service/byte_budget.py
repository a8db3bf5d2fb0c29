"""How many bytes are held for clients, so that no client takes all of the memory."""

from collections import Counter

from sandbox.service.request_codec import SMALL_BYTES
from sandbox.service.service_errors import TooManyRequests


class ByteBudget:
    """Bytes held at the moment.

    most  bytes held for all clients together; one client may hold half of them
    what  what the bytes are, for the error message
    """

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._total = 0
        self._by_client = Counter[str]()

    def acquire(self, client: str, count: int, *, size: int) -> None:
        """Hold `count` more bytes of something that has `size` bytes so far. Raises TooManyRequests if that is too
        much.

        Something small is always accepted, since the number of connections is bounded; so is anything while nothing
        else is held.
        """
        alone = not self._total
        self._total += count
        self._by_client[client] += count
        if size > SMALL_BYTES and not alone and (self._total > self._most or self._by_client[client] > self._most // 2):
            self.release(client, count)
            raise TooManyRequests(1, f"the service holds too many bytes of {self._what}")

    def release(self, client: str, count: int) -> None:
        """Release bytes that were taken for this client."""
        self._total -= count
        self._by_client[client] -= count
        if not self._by_client[client]:
            del self._by_client[client]
