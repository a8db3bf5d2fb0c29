"""Bounds that uvicorn does not set: how many connections, how long and large a request's head, how long a body that
nobody wants any more."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 8192
_HEAD_BYTES = 64 * 1024
_PIPELINED = 16  # requests on one connection before the first is answered
_LINGER_SECONDS = 2  # for the rest of a body after its request has been refused: most clients send it all, then listen


def bounded(head_seconds: float) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with these bounds. Who exceeds one is disconnected."""

    class Bounded(HttpToolsProtocol):
        """Between requests uvicorn's own limit holds."""

        # until which what is under way must have come, a head or the rest of an unwanted body
        _deadline: asyncio.TimerHandle | None = None
        _received = 0  # bytes of the request at hand, head and body
        _body = 0

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            if len(self.connections) > MOST:
                self.transport.abort()
            self._expect(head_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._forget_deadline()

        def data_received(self, data: bytes) -> None:
            if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
                self._expect(head_seconds)
            self._received += len(data)
            super().data_received(data)
            # Twice the body: what chunks are wrapped in.
            if self._received > _HEAD_BYTES + 2 * self._body or len(self.pipeline) > _PIPELINED:
                self.transport.abort()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._received = self._body = 0

        def on_headers_complete(self) -> None:
            self._forget_deadline()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._body += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._forget_deadline()
            super().on_message_complete()
            if self.cycle.response_complete:
                self._expect(head_seconds)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:
                self._expect(_LINGER_SECONDS)

        def _expect(self, seconds: float) -> None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

        def _forget_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Bounded
