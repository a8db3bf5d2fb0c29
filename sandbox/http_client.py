"""HTTP requests to one server: no redirects, no hidden retries, a time limit.

A reply of any status is a value. A request without a reply raises ServerUnreachable, in words that name no object of
urllib3. Callers decide what is worth another attempt.
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
_OBJECTS = re.compile(r"<[^<>]*>(: )?|\w*Connection\w*\([^()]*\): ")  # how urllib3 names its own


class ServerUnreachable(Exception):
    """There is no reply: the server cannot be reached, hung up, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply of any status. Names of headers are looked up in any case.

    retry_after_seconds  how long the server wants to be left alone, at most five minutes; 0 if it does not say
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
        """Return what the server says of a refusal: a field of its JSON, or else the beginning of the body."""
        content = self.json_object()
        error = content.get("detail") or content.get("error") or content.get("message")
        words = error.get("message") if isinstance(error, dict) else error
        return str(words or self.body[:_MAX_SHOWN_BYTES].decode("utf-8", "replace"))


class HttpClient:
    """Sends requests to one server. Several threads may use it.

    url              http://HOST:PORT or https://HOST, with a path that all requests begin with, if any
    headers          sent with every request
    connections      the most that are kept open between requests
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
        self.url: str = where._replace(auth=None).url  # it is shown; credentials are not
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

        body          bytes, sent within `connect_seconds`; or a stream, of which each piece has that time, and whose
                      length `headers` say
        read_seconds  the longest pause of the server, and the longest time until it is connected
        max_seconds   the longest time until the reply is complete, checked whenever a part of it arrives
        max_bytes     size limit of its body
        unpack        decompress the body, if the reply says how
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
        """Yield a function that ends this thread's requests, from any thread: `interrupt`, or a new one."""
        return self._sockets.open_interrupt(interrupt)

    def close(self) -> None:
        """Close all connections. Requests in progress raise ServerUnreachable."""
        self._sockets.shutdown_all()
        self._pool.close()


def parse_retry_after(headers: Mapping[str, str]) -> float:
    """Return the pause that the header Retry-After asks for, in seconds or until a date; 0 if it is neither."""
    header = headers.get("retry-after", "")
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if seconds > 0 else 0.0
