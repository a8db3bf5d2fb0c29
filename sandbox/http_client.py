"""HTTP requests to one server, with timeouts, but without redirects and retries.

A response of any status is a value; a request without a response raises ServerUnreachable.
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
_MAX_MESSAGE_BYTES = 200
_CHUNK_BYTES = 1 << 16
_URLLIB3_OBJECTS = re.compile(r"<[^<>]*>(: )?|\w*Connection\w*\([^()]*\): ")  # reprs of objects in urllib3's messages


class ServerUnreachable(Exception):
    """The server is unreachable, closed the connection, or timed out."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response of any status. Header names are case-insensitive.

    retry_after_seconds  Retry-After, at most five minutes; 0 if absent
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    retry_after_seconds: float

    def json(self) -> Any:
        """Return the JSON value of the body; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def get_json_object(self) -> dict[str, Any]:
        """Return the JSON object of the body; empty if it is not one."""
        content = self.json()
        return content if isinstance(content, dict) else {}

    def get_error_message(self) -> str:
        """Return the server's error message: a field of the JSON object or, without it, the start of the body."""
        content = self.get_json_object()
        error = content.get("detail") or content.get("error") or content.get("message")
        message = error.get("message") if isinstance(error, dict) else error
        return str(message or self.body[:_MAX_MESSAGE_BYTES].decode("utf-8", "replace"))


class HttpClient:
    """Sends requests to one server. Thread-safe.

    url              http://HOST:PORT or https://HOST, with an optional path prefix
    headers          headers of every request
    connections      maximum number of idle connections
    connect_seconds  connect timeout
    socket_options   arguments of setsockopt for each connection

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
            parts = parse_url(url.rstrip("/"))
        except (LocationValueError, HTTPError) as error:
            raise ValueError(f"{url!r} is not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"{url!r} does not begin with http:// or https:// and a host")
        self.url: str = parts._replace(auth=None).url  # without credentials, so messages may contain it
        self.password = (parts.auth or "").partition(":")[2]
        self.headers = dict(headers or {})
        self._path = parts.path or ""
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
    ) -> HttpResponse:
        """Send a request once. Raises ServerUnreachable.

        body          bytes, sent within `connect_seconds`; or a stream, each chunk of which is sent within that time,
                      with its length in `headers`
        read_seconds  read timeout, and upper bound of the connect timeout
        max_seconds   time limit of the whole response, checked whenever a chunk arrives
        max_bytes     size limit of its body
        unpack        whether to decompress the body by its Content-Encoding
        """
        deadline = time.monotonic() + max_seconds
        content = bytearray()
        with self.open_response(
            method, path, body, read_seconds=read_seconds, headers=headers, unpack=unpack
        ) as response:
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                is_late = time.monotonic() > deadline
                if is_late or len(content) > max_bytes:
                    limit = f"{max_seconds:g} s" if is_late else f"{max_bytes:g} bytes"
                    raise ServerUnreachable(f"the response was not complete after {limit}")
        return HttpResponse(response.status, bytes(content), response.headers, parse_retry_after(response.headers))

    @contextmanager
    def open_response(
        self, method: str, path: str, body: bytes | IO[bytes] | None = None, *, read_seconds: float,
        headers: Mapping[str, str] | None = None, unpack: bool = True,
    ) -> Iterator[urllib3.BaseHTTPResponse]:  # fmt: skip
        """Send a request once, and yield the response, whose body the caller reads; see `request`.

        The connection is reused only if the caller reads the body to its end. Raises ServerUnreachable on entry, and in
        the `with` block if the connection fails.
        """
        response = None
        try:
            response = self._pool.urlopen(
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
            yield response
        except HTTPError as error:
            message = _URLLIB3_OBJECTS.sub("", str(getattr(error, "reason", None) or error))
            raise ServerUnreachable(message or type(error).__name__) from error
        finally:
            if response is not None:
                response.close()

    def open_interrupt(self, interrupt: SocketInterrupt | None = None) -> AbstractContextManager[SocketInterrupt]:
        """Yield `interrupt`, or a new one. A call of it, from any thread, aborts this thread's requests."""
        return self._sockets.open_interrupt(interrupt)

    def close(self) -> None:
        """Close all connections. Requests in progress raise ServerUnreachable."""
        self._sockets.shut_down_all()
        self._pool.close()


def parse_retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 if invalid or absent."""
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if seconds > 0 else 0.0
