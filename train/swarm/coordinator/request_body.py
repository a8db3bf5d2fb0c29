"""Bodies of requests, bounded in size and time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from sandbox.service.service_errors import MalformedRequest, PayloadTooLarge, RequestTimeout
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
    """Return the body of a request; b"" if it is not to be kept.

    Raises PayloadTooLarge, RequestTimeout, and MalformedRequest if the client goes away.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    chunks, size = [], 0
    seconds = min(_MIN_SECONDS + max_bytes / _SLOWEST, MAX_UPLOAD_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                if keep:
                    chunks.append(chunk)
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {seconds:.0f} s") from None
    except ClientDisconnect:
        raise MalformedRequest("the client has gone") from None
    return b"".join(chunks)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body must have at most {max_bytes:,} bytes")
