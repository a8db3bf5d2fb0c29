"""A request: its body within bounds of size and time, and whether its client is still there."""

import asyncio
from types import TracebackType
from typing import Any, Self

from starlette.requests import ClientDisconnect, Request

from sandbox import messages
from sandbox.service.answers import Gone, Malformed, NotJson, TooLarge, TooMany, TooSlow
from sandbox.service.settings import BODIES, Settings


class Held:
    """Bytes of all bodies that are read or worked on at the moment."""

    def __init__(self) -> None:
        self.count = 0


class Asking:
    """One request while it is read and answered."""

    def __init__(self, request: Request, settings: Settings, held: Held) -> None:
        self._request = request
        self.settings = settings
        self._held = held
        self._size = 0
        self._departure: asyncio.Task[None] | None = None

    async def json(self) -> Any:
        """What the body says. Raises a Refusal, or Gone."""
        # A page in somebody's browser can send other types to a service on the same machine without asking first.
        if self._request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise NotJson("the body must be JSON; send the header content-type: application/json")
        try:
            async with asyncio.timeout(self.settings.body_seconds):
                body = await self._read()
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {self.settings.body_seconds:g} s") from None
        except ClientDisconnect:
            raise Gone from None
        try:
            return messages.loads(body)
        except ValueError as error:
            raise Malformed(f"the body is not JSON: {error}") from None

    async def _read(self) -> bytes:
        most = self.settings.max_body
        if int(self._request.headers.get("content-length", 0)) > most:
            raise _too_large(most)
        chunks = []
        async for chunk in self._request.stream():
            chunks.append(chunk)
            self._size += len(chunk)
            self._held.count += len(chunk)
            if self._size > most:
                raise _too_large(most)
            if self._held.count > BODIES * most:
                raise TooMany(1)
        return b"".join(chunks)

    def departure(self) -> "asyncio.Future[None]":
        """Completes when the client goes away. Only after the body has been read."""
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
        self._held.count -= self._size
        if self._departure is not None:
            self._departure.cancel()


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"a body has at most {most} bytes here; `curate serve --max-body-mb` takes more")
