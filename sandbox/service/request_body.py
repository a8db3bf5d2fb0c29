"""Reader of request bodies, with bounds on size and time, and detection of disconnections."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request

from sandbox.closeable import Closeable
from sandbox.service import rate_limit, request_codec
from sandbox.service.dispatcher_client import DispatcherClient
from sandbox.service.fair_queue import make_client_key
from sandbox.service.rate_limit import RateLimiter
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.request_codec import JudgeBatch
from sandbox.service.service_errors import (
    ClientDisconnected,
    MalformedRequest,
    PayloadTooLarge,
    RequestTimeout,
    ServiceError,
    UnsupportedMediaType,
)
from sandbox.service.settings import ServiceSettings

_SMALL_BYTES = 64 * 1024  # bodies up to this size need no reservation: the number of connections bounds their memory


async def read_body(
    request: Request,
    max_bytes: int,
    seconds: float,
    *,
    keep: bool = True,
    advice: str = "",
    reserve: Callable[[int], Awaitable[None]] | None = None,
) -> bytes:
    """Read and return the body of a request.

    seconds  time limit for the whole body
    keep     False to discard the body, and return b""
    advice   end of the message of PayloadTooLarge, such as a remedy
    reserve  called once, before most of a large body is read, to reserve its size

    Raises PayloadTooLarge, RequestTimeout, and MalformedRequest if the client disconnects.
    """
    too_large = PayloadTooLarge(f"the body must have at most {max_bytes:,} bytes{advice}")
    length = request.headers.get("content-length", "")
    declared = int(length) if length.isdecimal() else None
    if declared is not None and declared > max_bytes:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise too_large
                if keep:
                    chunks.append(chunk)
                if reserve is not None and size > _SMALL_BYTES:
                    await reserve(max_bytes if declared is None else declared)
                    reserve = None
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise MalformedRequest("the client disconnected") from None
    return b"".join(chunks)


class RequestReader:
    """The context that all IncomingRequests of a front end share."""

    def __init__(self, dispatcher: DispatcherClient, settings: ServiceSettings, bounds: RequestBounds) -> None:
        self.dispatcher = dispatcher
        self.settings = settings
        self.bounds = bounds
        self.rate_limiter = RateLimiter()


class IncomingRequest(Closeable):
    """A request in progress; `close` releases its reservations."""

    def __init__(self, request: Request, reader: RequestReader) -> None:
        self.settings = reader.settings
        self._request = request
        self._reader = reader
        self._reservation: int | None = None
        self._disconnect: asyncio.Task[None] | None = None
        self.path: str = request.scope["path"]
        self.client = make_client_key(request.client.host if request.client is not None else "")
        reader.rate_limiter.enter(self.client)

    async def read(self) -> "request_codec.Request | JudgeBatch":
        """Read the body and parse it. Raises a ServiceError, or ClientDisconnected."""
        # Web pages can send other content types to a local service without a CORS preflight request.
        if self._request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaType("the body must be JSON; send the header content-type: application/json")
        settings, rate_limiter = self.settings, self._reader.rate_limiter
        await rate_limiter.wait(self.client)
        rate_limiter.charge(
            self.client, int(self._request.headers.get("content-length", 0)) * rate_limit.SECONDS_PER_BYTE
        )
        advice = "; `curate serve --max-body-mb N` allows more"
        try:
            body = await read_body(
                self._request, settings.max_body_bytes, settings.body_seconds, advice=advice, reserve=self._reserve
            )
        except MalformedRequest:
            raise ClientDisconnected from None
        start_time = time.monotonic()
        try:
            return request_codec.parse(self.path, body, self._reader.bounds)
        except ServiceError:
            rate_limiter.charge(self.client, rate_limit.REJECTION_SECONDS)
            raise
        finally:
            rate_limiter.charge(self.client, time.monotonic() - start_time)

    async def _reserve(self, n_bytes: int) -> None:
        self._reservation = await self._reader.dispatcher.reserve(self.client, n_bytes)

    def get_disconnect_future(self) -> "asyncio.Future[None]":
        """Return a future that completes when the client disconnects. Call it after reading the body."""
        if self._disconnect is None:
            self._disconnect = asyncio.ensure_future(self._wait_for_disconnect())
        return self._disconnect

    async def _wait_for_disconnect(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        self._reader.rate_limiter.leave(self.client)
        if self._reservation is not None:
            self._reader.dispatcher.release(self._reservation)
        if self._disconnect is not None:
            self._disconnect.cancel()
