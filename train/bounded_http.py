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
_MAX_PIPELINED_REQUESTS = 16  # HTTP pipelining: requests of one connection that wait for an earlier response
_MAX_PIPELINED_BYTES = 64 * 1024  # total size of the bodies of pipelined requests
_NO_LINGER = struct.pack("ii", 1, 0)  # SO_LINGER with a timeout of 0: closing sends a TCP reset
_LINGER_SECONDS = 2  # time to read the rest of a refused body: most clients send the whole body before they read


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
        proxy_headers=True,  # trust X-Forwarded-For only from proxies on this machine or in FORWARDED_ALLOW_IPS
        server_header=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=stop_seconds,
    )


def _build_bounded_protocol(
    head_seconds: float, response_seconds: float, max_connections: int
) -> type[HttpToolsProtocol]:
    class BoundedProtocol(HttpToolsProtocol):
        _receive_deadline: asyncio.TimerHandle | None = None  # deadline for a head, or for the rest of a refused body
        _request_bytes = 0  # size of the current request so far, head and body
        _body_bytes = 0
        _response_deadline: asyncio.TimerHandle | None = None  # deadline for the client to read the response

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)  # type: ignore[arg-type]
            self._cycles: list[RequestResponseCycle] = []
            if len(self.connections) > max_connections:
                self.transport.abort()
            transport.set_write_buffer_limits(high=0)  # type: ignore[attr-defined]  # report any unread byte
            self._set_receive_deadline(head_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            # uvicorn itself notifies only the last cycle of a disconnect.
            for cycle in self._list_unanswered_cycles():
                cycle.disconnected = True
                cycle.message_event.set()
            self._cancel_receive_deadline()
            self._cancel_response_deadline()

        def data_received(self, data: bytes) -> None:
            if self._receive_deadline is None and (self.cycle is None or self.cycle.response_complete):
                self._set_receive_deadline(head_seconds)
            self._request_bytes += len(data)
            super().data_received(data)
            pipelined_bytes = sum(len(cycle.body) for cycle, _ in self.pipeline)
            # Chunked encoding can double the size of a body.
            if (
                self._request_bytes > _HEAD_BYTES + 2 * self._body_bytes
                or len(self.pipeline) > _MAX_PIPELINED_REQUESTS
                or pipelined_bytes > _MAX_PIPELINED_BYTES
            ):
                self.transport.abort()
            elif self.pipeline and not self.transport.is_closing():
                self.flow.resume_reading()  # asyncio detects a disconnect only while it reads

        def pause_writing(self) -> None:
            super().pause_writing()
            self._response_deadline = self.loop.call_later(response_seconds, self._reset_connection)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._cancel_response_deadline()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._request_bytes = self._body_bytes = 0

        def on_headers_complete(self) -> None:
            self._cancel_receive_deadline()
            self.headers[:] = _normalize_host(self.url, self.headers)
            super().on_headers_complete()
            self._cycles = [*self._list_unanswered_cycles(), self.cycle]

        def on_body(self, body: bytes) -> None:
            self._body_bytes += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._cancel_receive_deadline()
            super().on_message_complete()
            if self.cycle.response_complete:
                self._set_receive_deadline(head_seconds)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and self.cycle.more_body:
                self._set_receive_deadline(_LINGER_SECONDS)

        def _list_unanswered_cycles(self) -> list[RequestResponseCycle]:
            return [cycle for cycle in self._cycles if not cycle.response_complete]

        def _set_receive_deadline(self, seconds: float) -> None:
            self._receive_deadline = self.loop.call_later(seconds, self.transport.abort)

        def _reset_connection(self) -> None:
            """Close the connection with a TCP reset, so the kernel discards unsent data."""
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()

        def _cancel_response_deadline(self) -> None:
            if self._response_deadline is not None:
                self._response_deadline.cancel()
                self._response_deadline = None

        def _cancel_receive_deadline(self) -> None:
            if self._receive_deadline is not None:
                self._receive_deadline.cancel()
                self._receive_deadline = None

    return BoundedProtocol


def _normalize_host(url: bytes, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Replace the header Host by the host of an absolute URL in the request line (RFC 9112, 3.2.2)."""
    if url.startswith(b"/") or b"://" not in url:
        return headers
    host = re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0]
    return [(b"host", host), *((name, value) for name, value in headers if name != b"host")]
