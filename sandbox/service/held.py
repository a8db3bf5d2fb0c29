"""How much memory is held for clients, so that none of them takes all of it."""

from collections import Counter

from sandbox.service.refusals import TooMany
from sandbox.service.translation import SMALL_BYTES


class Held:
    """Bytes that are held at the moment: at most so many, half of them for one client. what: for people."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._total = 0
        self._of = Counter[str]()

    def take(self, client: str, count: int, *, size: int) -> None:
        """`count` bytes more, of something that has `size` bytes so far. What is small is always taken: there are only
        so many connections. So is what comes alone. Raises TooMany."""
        alone = not self._total
        self._total += count
        self._of[client] += count
        if size > SMALL_BYTES and not alone and (self._total > self._most or self._of[client] > self._most // 2):
            self.give(client, count)
            raise TooMany(1, f"too many bytes are held of {self._what}")

    def give(self, client: str, count: int) -> None:
        self._total -= count
        self._of[client] -= count
        if not self._of[client]:
            del self._of[client]
