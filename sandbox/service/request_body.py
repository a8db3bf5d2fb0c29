"""One request: its body, which must be small enough and arrive in time, and whether its client is still connected.

`read_body` is for the other servers of this project, which have no queue of clients.
"""

import asyncio
import time
from types import TracebackType
from typing import Self

from starlette.requests import ClientDisconnect, Request

from sandbox.service import rate_limit, request_codec
from sandbox.service.executor import RequestExecutor
from sandbox.service.fair_queue import client_key
from sandbox.service.request_codec import SMALL_BYTES, JudgeBatch
from sandbox.service.service_errors import (
    ClientDisconnected,
    MalformedRequest,
    PayloadTooLarge,
    RequestTimeout,
    ServiceError,
    UnsupportedMediaType,
)


async def read_body(request: Request, max_bytes: int, seconds: float, *, keep: bool = True, advice: str = "") -> bytes:
    """Return the body of a request; b"" if it is not to be kept.

    seconds  time for all of it: bodies that never end must not fill the memory
    advice   what to do if it is too large; it ends the message

    Raises PayloadTooLarge, RequestTimeout, and MalformedRequest if the client goes away.
    """
    too_large = PayloadTooLarge(f"the body must have at most {max_bytes:,} bytes{advice}")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > max_bytes:
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
    except TimeoutError:
        raise RequestTimeout(f"the body did not arrive within {seconds:.0f} s") from None
    except ClientDisconnect:
        raise MalformedRequest("the client has gone") from None
    return b"".join(chunks)


class IncomingRequest:
    """A request while it is read and answered."""

    def __init__(self, request: Request, executor: RequestExecutor) -> None:
        self._request = request
        self._executor = executor
        self._size = 0
        self._departure: asyncio.Task[None] | None = None
        self.path: str = request.scope["path"]
        self.client = client_key(request.client.host if request.client is not None else "")

    async def read(self) -> "request_codec.Request | bytes | JudgeBatch":
        """Read the body and return what it asks for. Raises a ServiceError, or ClientDisconnected."""
        # A web page may send other content types to a service on the same machine without a preflight request.
        if self._request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMediaType("the body must be JSON; send the header content-type: application/json")
        body_seconds = self._executor.settings.body_seconds
        try:
            async with asyncio.timeout(body_seconds) as timeout:
                body = await self._body(timeout)
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {body_seconds:g} s") from None
        except ClientDisconnect:
            raise ClientDisconnected from None
        start_time = time.monotonic()
        try:
            if len(body) <= SMALL_BYTES:
                return request_codec.parse(self.path, body, self._executor.bounds)
            return await self._executor.parse_large_body(self.path, body)
        except ServiceError:
            self._executor.pace.charge(self.client, rate_limit.REFUSAL_SECONDS)
            raise
        finally:
            self._executor.pace.charge(self.client, time.monotonic() - start_time)

    async def _body(self, timeout: asyncio.Timeout) -> bytes:
        most = self._executor.settings.max_body
        if int(self._request.headers.get("content-length", 0)) > most:
            raise _too_large(most)
        await self._let_others_go_first(timeout)
        chunks = []
        async for chunk in self._request.stream():
            chunks.append(chunk)
            self._size += len(chunk)
            self._executor.bodies.acquire(self.client, len(chunk), size=self._size)
            if self._size > most:
                raise _too_large(most)
            if self._size > SMALL_BYTES:
                self._executor.pace.charge(self.client, len(chunk) * rate_limit.SECONDS_PER_BYTE)
                await self._let_others_go_first(timeout)
        return b"".join(chunks)

    async def _let_others_go_first(self, timeout: asyncio.Timeout) -> None:
        waited = await self._executor.pace.wait(self.client)
        if waited:
            before = timeout.when()
            assert before is not None
            timeout.reschedule(before + waited)

    def disconnect_future(self) -> "asyncio.Future[None]":
        """Return a future that completes when the client goes away. Call it only after the body has been read."""
        if self._departure is None:
            self._departure = asyncio.ensure_future(self._watch())
        return self._departure

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.bodies.release(self.client, self._size)
        if self._departure is not None:
            self._departure.cancel()


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body must have at most {most:,} bytes; `curate serve --max-body-mb N` allows more")
