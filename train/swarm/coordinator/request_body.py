"""Bodies of requests, bounded in size and time."""

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from sandbox.service import request_body
from train.swarm.coordinator.refusals import RetryLater

_MIN_SECONDS = 15.0
_SLOWEST = 50_000  # bytes per second of a body, on average
MAX_UPLOAD_SECONDS = 900.0
_MAX_CONCURRENT = 512 * 2**20  # bytes of all bodies that arrive or wait to be written


class UploadBudget:
    """Memory for bodies. What does not fit has to come later."""

    def __init__(self, n_bytes: int = _MAX_CONCURRENT) -> None:
        self._free = n_bytes

    @contextmanager
    def reserve(self, max_bytes: int) -> Iterator[None]:
        """Set memory aside. Raises RetryLater if there is none."""
        if max_bytes > self._free:
            raise RetryLater("too many uploads at once", 5)
        self._free -= max_bytes
        try:
            yield
        finally:
            self._free += max_bytes


async def read_body(request: Request, max_bytes: int, *, keep: bool = True) -> bytes:
    """Return the body of a request, which has time in proportion to its size; see the function of the same name."""
    seconds = min(_MIN_SECONDS + max_bytes / _SLOWEST, MAX_UPLOAD_SECONDS)
    return await request_body.read_body(request, max_bytes, seconds, keep=keep)
