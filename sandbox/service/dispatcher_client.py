"""A front end's connection to the dispatcher."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Protocol

from sandbox.request import Request, Response
from sandbox.service.link import Link
from sandbox.service.service_errors import ClientDisconnected, ServiceError


class Client(Protocol):
    """The sender of a request."""

    client: str  # see make_client_key

    def get_disconnect_future(self) -> "asyncio.Future[None]":
        """Return a future that completes when the client disconnects."""


class DispatcherClient:
    """Sends requests to the dispatcher; see dispatcher.Session.

    workers   number of concurrent programs
    on_drain  called when the service starts to drain
    on_end    called when the dispatcher exits
    """

    def __init__(self, workers: int, on_drain: Callable[[], object], on_end: Callable[[], object]) -> None:
        self.workers = workers
        self.link = Link({"respond": self._complete, "drain": on_drain}, on_end)
        self._numbers = itertools.count()
        self._open: dict[int, asyncio.Future[Any]] = {}

    def report_ready(self) -> None:
        """Report that this front end accepts requests."""
        self.link.call("ready")

    async def execute(
        self,
        requester: Client,
        request: Request[Response],
        *,
        timeout_seconds: float | None = None,
        is_admitted: bool = False,
    ) -> Response:
        """Execute a request and return the response; cancel it if its client disconnects.

        is_admitted   whether it belongs to a batch that `admit` has admitted

        Raises a ServiceError, or ClientDisconnected.
        """
        number, response_future = self._call("execute", requester.client, request, timeout_seconds, is_admitted)
        disconnect = requester.get_disconnect_future()
        try:
            await asyncio.wait((response_future, disconnect), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not response_future.done():
                del self._open[number]
                self.link.call("cancel", number)
        if not response_future.done():
            raise ClientDisconnected
        result: Response = _unwrap(response_future.result())
        return result

    async def admit(self, client: str) -> None:
        """Admit a batch of this client to the queue. Raises TooManyRequests or ServiceShutdown."""
        _unwrap(await self._call("admit", client)[1])

    async def reserve(self, client: str, n_bytes: int) -> int:
        """Reserve bytes for a body; return the number for `release`. Raises TooManyRequests."""
        number, response_future = self._call("reserve", client, n_bytes)
        try:
            _unwrap(await response_future)
        except BaseException:
            self.release(number)
            raise
        return number

    def release(self, number: int) -> None:
        """Release the bytes that `reserve` has reserved under this number."""
        self.link.call("release", number)

    def count(self, path: str, status: int) -> None:
        """Count a response in the metrics. Call it before sending the response, so that later metrics include it."""
        self.link.call("count", path, status)
        self.link.flush()

    async def describe(self) -> dict[str, Any]:
        """Return the properties and load of the dispatcher's Sandbox."""
        about: dict[str, Any] = await self._call("describe")[1]
        return about

    async def fetch_metrics(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        text: bytes = await self._call("metrics")[1]
        return text

    def _call(self, method: str, *arguments: Any) -> "tuple[int, asyncio.Future[Any]]":
        number = next(self._numbers)
        response_future = self._open[number] = asyncio.get_running_loop().create_future()
        self.link.call(method, number, *arguments)
        return number, response_future

    def _complete(self, number: int, response: Any) -> None:
        response_future = self._open.pop(number, None)
        if response_future is not None and not response_future.done():
            response_future.set_result(response)


def _unwrap(response: Any) -> Any:
    if isinstance(response, ServiceError):
        raise response
    return response
