"""Bodies of requests, bounded in size and time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from sandbox.service.refusals import Malformed, TooLarge, TooSlow
from train.swarm.coordinator.refusals import Later

_LEAST_SECONDS = 15.0
_SLOWEST = 50_000  # bytes per second of a body, on average
LONGEST_UPLOAD_SECONDS = 900.0
_MOST_AT_ONCE = 512 * 2**20  # bytes of all bodies that arrive or wait to be written


class Room:
    """Memory for bodies. What does not fit has to come later."""

    def __init__(self, n_bytes: int = _MOST_AT_ONCE) -> None:
        self._free = n_bytes

    @contextmanager
    def for_body(self, most_bytes: int) -> Iterator[None]:
        """Set memory aside. Raises Later if there is none."""
        if most_bytes > self._free:
            raise Later("too many uploads at once", 5)
        self._free -= most_bytes
        try:
            yield
        finally:
            self._free += most_bytes


async def body_of(request: Request, most_bytes: int, *, keep: bool = True) -> bytes:
    """Return the body of a request; b"" if it is not to be kept.

    Raises TooLarge, TooSlow, and Malformed if the client goes away.
    """
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    chunks, size = [], 0
    seconds = min(_LEAST_SECONDS + most_bytes / _SLOWEST, LONGEST_UPLOAD_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most_bytes:
                    raise _too_large(most_bytes)
                if keep:
                    chunks.append(chunk)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {seconds:.0f} s") from None
    except ClientDisconnect:
        raise Malformed("the client has gone") from None
    return b"".join(chunks)


def _too_large(most_bytes: int) -> TooLarge:
    return TooLarge(f"the body must have at most {most_bytes:,} bytes")
