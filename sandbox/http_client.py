"""HTTP requests to one server: no redirects, no hidden retries, a time limit.

A reply of any status is a value. A request without a reply raises ServerUnreachable, with a message free of urllib3's
objects. Callers decide about retries.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import inf
from typing import IO, Any

import urllib3
from urllib3.exceptions import HTTPError, LocationValueError
from urllib3.util import Timeout, parse_url

from sandbox.concurrency.sockets import SocketInterrupt, SocketRegistry

_MAX_RETRY_AFTER_SECONDS = 300.0
_MAX_SHOWN_BYTES = 200
_CHUNK_BYTES = 1 << 16
_OBJECTS = re.compile(r"<[^<>]*>(: )?|\w*Connection\w*\([^()]*\): ")  # urllib3's objects in messages


class ServerUnreachable(Exception):
    """There is no reply: the server is unreachable, closed the connection, or timed out."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply of any status. Header names are case-insensitive.

    retry_after_seconds  the server's Retry-After, at most five minutes; 0 if absent
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    retry_after_seconds: float

    def json(self) -> Any:
        """Return the JSON value in the body; None if it holds none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def json_object(self) -> dict[str, Any]:
        """Return the JSON object in the body, or an empty one if it holds none."""
        content = self.json()
        return content if isinstance(content, dict) else {}

    def message(self) -> str:
        """Return the server's error message: a field of its JSON, or else the start of the body."""
        content = self.json_object()
        error = content.get("detail") or content.get("error") or content.get("message")
        words = error.get("message") if isinstance(error, dict) else error
        return str(words or self.body[:_MAX_SHOWN_BYTES].decode("utf-8", "replace"))


class HttpClient:
    """Sends requests to one server. Several threads may use it.

    url              http://HOST:PORT or https://HOST, with a path that all requests begin with, if any
    headers          sent with every request
    connections      maximum number of idle connections
    connect_seconds  time limit for a connection
    socket_options   options of each connection, as setsockopt takes them

    Raises ValueError for an invalid URL.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        connections: int = 8,
        connect_seconds: float = 10.0,
        socket_options: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        try:
            where = parse_url(url.rstrip("/"))
        except (LocationValueError, HTTPError) as error:
            raise ValueError(f"{url!r} is not a URL: {error}") from error
        if where.scheme not in ("http", "https") or not where.host:
            raise ValueError(f"{url!r} does not begin with http:// or https:// and a host")
        self.url: str = where._replace(auth=None).url  # for messages, without credentials
        self.password = (where.auth or "").partition(":")[2]
        self.headers = dict(headers or {})
        self._path = where.path or ""
        self._connect_seconds = connect_seconds
        self._sockets = SocketRegistry()
        options = {"socket_options": list(socket_options)} if socket_options else {}
        self._pool = urllib3.connection_from_url(self.url, maxsize=connections, **options)
        self._pool.ConnectionCls = self._sockets.make_tracked_class(self._pool.ConnectionCls)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None = None,
        *,
        read_seconds: float,
        max_seconds: float = inf,
        max_bytes: float = inf,
        headers: Mapping[str, str] | None = None,
        unpack: bool = True,
    ) -> HttpReply:
        """Send a request once. Raises ServerUnreachable.

        body          bytes, sent within `connect_seconds`; or a stream, with that time for each chunk, and its length
                      in `headers`
        read_seconds  the maximum pause of the server, and time limit of the connection
        max_seconds   time limit of the whole reply, checked whenever a part of it arrives
        max_bytes     size limit of its body
        unpack        decompress the body by its Content-Encoding
        """
        deadline = time.monotonic() + max_seconds
        content = bytearray()
        with self.open_reply(method, path, body, read_seconds=read_seconds, headers=headers, unpack=unpack) as reply:
            while part := reply.read1(_CHUNK_BYTES):
                content += part
                is_late = time.monotonic() > deadline
                if is_late or len(content) > max_bytes:
                    limit = f"{max_seconds:g} s" if is_late else f"{max_bytes:g} bytes"
                    raise ServerUnreachable(f"the reply was not complete after {limit}")
        return HttpReply(reply.status, bytes(content), reply.headers, parse_retry_after(reply.headers))

    @contextmanager
    def open_reply(
        self, method: str, path: str, body: bytes | IO[bytes] | None = None, *, read_seconds: float,
        headers: Mapping[str, str] | None = None, unpack: bool = True,
    ) -> Iterator[urllib3.BaseHTTPResponse]:  # fmt: skip
        """Send a request once, and yield the reply before its body is read; see `request`.

        The connection is used again if the body was read to its end. Raises ServerUnreachable, also in the block.
        """
        reply = None
        try:
            reply = self._pool.urlopen(
                method,
                self._path + path,
                body=body,
                headers={**self.headers, **(headers or {})},
                redirect=False,
                retries=False,
                timeout=Timeout(connect=min(self._connect_seconds, read_seconds), read=read_seconds),
                preload_content=False,
                decode_content=unpack,
            )
            yield reply
        except HTTPError as error:
            words = _OBJECTS.sub("", str(getattr(error, "reason", None) or error))
            raise ServerUnreachable(words or type(error).__name__) from error
        finally:
            if reply is not None:
                reply.close()

    def open_interrupt(self, interrupt: SocketInterrupt | None = None) -> AbstractContextManager[SocketInterrupt]:
        """Yield a function that aborts this thread's requests, from any thread: `interrupt`, or a new one."""
        return self._sockets.open_interrupt(interrupt)

    def close(self) -> None:
        """Close all connections. Requests in progress raise ServerUnreachable."""
        self._sockets.shutdown_all()
        self._pool.close()


def parse_retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header, which is a number or a date; 0 if invalid."""
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if seconds > 0 else 0.0
