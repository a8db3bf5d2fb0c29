"""HTTP limits that uvicorn lacks, on connections, request heads, refused bodies and unread responses."""

import asyncio
import logging
import re
import socket
import struct
from typing import Any

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sandbox.service.listener import MAX_CONNECTIONS

_HEAD_BYTES = 64 * 1024
_PIPELINED = 16  # requests that may wait behind the first on one connection
_PIPELINED_BYTES = 64 * 1024  # total size of their bodies
_NO_LINGER = struct.pack("ii", 1, 0)  # SO_LINGER for a close that does not wait
_LINGER_SECONDS = 2  # time for the rest of a refused body: most clients send the whole body before they read


def build_bounded_config(
    app: Any,
    *,
    head_seconds: float,
    response_seconds: float,
    keep_alive_seconds: int,
    stop_seconds: int,
    max_connections: int = MAX_CONNECTIONS,
) -> Config:
    """Build uvicorn's settings for an ASGI application on an open network.

    head_seconds        time limit for the head of a request
    response_seconds    time limit for the client to read the buffered part of a response
    keep_alive_seconds  time limit of an idle connection
    stop_seconds        time limit for pending responses after the server is stopped
    """
    return Config(
        app,
        http=_build_bounded_protocol(head_seconds, response_seconds, max_connections),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=True,  # trusted from a proxy on this machine, or at FORWARDED_ALLOW_IPS
        server_header=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=stop_seconds,
    )


def _build_bounded_protocol(
    head_seconds: float, response_seconds: float, max_connections: int
) -> type[HttpToolsProtocol]:
    """Build uvicorn's protocol class with these limits. It disconnects clients that exceed a limit."""

    class BoundedProtocol(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None  # for a head, or for the rest of a refused body
        _received = 0  # bytes of the current request, head and body
        _body = 0  # bytes of its body alone
        _read_deadline: asyncio.TimerHandle | None = None  # for the client to read the response

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            self._cycles: list[RequestResponseCycle] = []  # of requests without a complete response
            if len(self.connections) > max_connections:
                self.transport.abort()
            transport.set_write_buffer_limits(high=0)  # type: ignore[attr-defined]  # report any unread byte
            self._expect(head_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            for cycle in self._list_unanswered_cycles():  # uvicorn notifies only the last cycle
                cycle.disconnected = True
                cycle.message_event.set()
            self._cancel_deadline()
            self._cancel_read_deadline()

        def data_received(self, data: bytes) -> None:
            if self._deadline is None and (self.cycle is None or self.cycle.response_complete):
                self._expect(head_seconds)
            self._received += len(data)
            super().data_received(data)
            ahead = sum(len(cycle.body) for cycle, _ in self.pipeline)
            # Twice the body: chunked encoding wraps it.
            if (
                self._received > _HEAD_BYTES + 2 * self._body
                or len(self.pipeline) > _PIPELINED
                or ahead > _PIPELINED_BYTES
            ):
                self.transport.abort()
            elif self.pipeline and not self.transport.is_closing():
                self.flow.resume_reading()  # only reading detects a disconnect

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read_deadline = self.loop.call_later(response_seconds, self._reset_connection)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._cancel_read_deadline()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._received = self._body = 0

        def on_headers_complete(self) -> None:
            self._cancel_deadline()
            self.headers[:] = _normalize_host(self.url, self.headers)
            super().on_headers_complete()
            self._cycles = [*self._list_unanswered_cycles(), self.cycle]

        def on_body(self, body: bytes) -> None:
            self._body += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._cancel_deadline()
            super().on_message_complete()
            if self.cycle.response_complete:
                self._expect(head_seconds)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:
                self._expect(_LINGER_SECONDS)

        def _list_unanswered_cycles(self) -> list[RequestResponseCycle]:
            return [cycle for cycle in self._cycles if not cycle.response_complete]

        def _expect(self, seconds: float) -> None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

        def _reset_connection(self) -> None:
            """Close the connection with a TCP reset, so the kernel discards unsent data."""
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()

        def _cancel_read_deadline(self) -> None:
            if self._read_deadline is not None:
                self._read_deadline.cancel()
                self._read_deadline = None

        def _cancel_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return BoundedProtocol


def _normalize_host(url: bytes, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Replace the header Host by the host in the request line, if there is one (RFC 9112, 3.2.2)."""
    if url.startswith(b"/") or b"://" not in url:
        return headers
    host = re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0]
    return [(b"host", host), *((name, value) for name, value in headers if name != b"host")]
