"""One request to a relay, bounded in length and time. Relays are untrusted; the caller verifies what they send.

Time limits of sockets are for one piece each, so a relay could trickle bytes indefinitely. A watchdog thread closes the
connection at the deadline.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

_CONNECT_SECONDS = 5.0
_CHUNK_BYTES = 2**18
_RETRYABLE_STATUSES = {429, 503}
_MAX_BUSY_SECONDS = 10.0
_MAX_WORDS = 200


class NotAvailable(Exception):
    """The relay does not have it, or not yet."""


class RelayBusy(NotAvailable):
    """The relay has too much to do, and says how many seconds it wants to be left alone."""

    def __init__(self, words: str, seconds: float) -> None:
        super().__init__(words)
        self.seconds = seconds


class RelayError(Exception):
    """The relay does not answer, answers too slowly, or with something else than it was asked for."""


class ResponseTooLarge(RelayError):
    """The relay sends more than was asked for."""


class RequestCancelToken:
    """Ends a request from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self.is_cut = False

    def cancel(self) -> None:
        """Hang up, now or as soon as there is a connection."""
        with self._lock:
            self.is_cut = True
            if self._connection is not None:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def attach(self, connection: socket.socket) -> None:
        """Note which connection the request uses. Raises HTTPError if it is cut already."""
        self.detach()
        with self._lock:
            if self.is_cut:
                raise HTTPError("it is not wanted any more")
            # A name of our own for the connection: TLS takes the socket over while it greets, which can be cut, too.
            self._connection = socket.socket(fileno=os.dup(connection.fileno()))

    def detach(self) -> None:
        """The request needs no connection any more."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class _Current(threading.local):
    """The cut of the request that the thread makes."""

    cut = RequestCancelToken()


_current = _Current()


class _Cuttable:
    """What a connection of urllib3 needs, so that a request can be cut also while it greets, or its head is read."""

    sock: Any

    def _new_conn(self) -> socket.socket:
        made: socket.socket = super()._new_conn()  # type: ignore[misc]
        try:
            _current.cut.attach(made)
        except BaseException:
            made.close()
            raise
        return made

    def request(self, *words: Any, **named: Any) -> None:
        if self.sock is not None:
            _current.cut.attach(self.sock)
        super().request(*words, **named)  # type: ignore[misc]


class _Http(_Cuttable, HTTPConnection):
    pass


class _Https(_Cuttable, HTTPSConnection):
    pass


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


def new_pool(max_connections: int) -> urllib3.PoolManager:
    """Return connections for requests with `get`."""
    pool = urllib3.PoolManager(maxsize=max_connections, num_pools=64, block=False)
    pool.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return pool


def get(
    pool: urllib3.PoolManager, url: str, max_bytes: int, *, seconds: float, token: RequestCancelToken | None = None,
    on_progress: Callable[[int], object] = lambda n_bytes: None,
) -> bytes:  # fmt: skip
    """Return the content at a URL. Redirects are not followed.

    pool         from `new_pool`
    seconds      time for all of it
    token        ends the request earlier
    on_progress  called with the number of bytes that are here, from time to time

    Raises NotAvailable, RelayBusy, RelayError and ResponseTooLarge.
    """
    token = token or RequestCancelToken()
    timer = threading.Timer(seconds, token.cancel)
    timer.daemon = True
    timer.start()
    _current.cut = token
    try:
        return _get(pool, url, max_bytes, time.monotonic() + seconds, token, on_progress)
    except (HTTPError, HTTPException, OSError) as error:
        raise RelayError(f"{url} is too slow" if token.is_cut else _reason(error)) from error
    finally:
        timer.cancel()
        token.detach()


def _get(
    pool: urllib3.PoolManager,
    url: str,
    max_bytes: int,
    until: float,
    token: RequestCancelToken,
    arrived: Callable[[int], object],
) -> bytes:
    left = max(until - time.monotonic(), 0.001)
    reply = pool.request(
        "GET",
        url,
        preload_content=False,
        decode_content=False,
        retries=False,
        redirect=False,
        timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, left), read=left),
    )
    is_whole = False
    try:
        if reply.status in _RETRYABLE_STATUSES:
            raise RelayBusy(f"{url} answers {reply.status}", _busy_seconds(reply.headers.get("retry-after", "")))
        if reply.status == 404:
            is_whole = _is_short(reply)
            raise NotAvailable(f"{url} is not there")
        if reply.status != 200:
            raise RelayError(f"{url} answers {reply.status}")
        content = bytearray()
        while chunk := reply.read1(_CHUNK_BYTES):
            content += chunk
            arrived(len(content))
            if len(content) > max_bytes:
                raise ResponseTooLarge(f"{url} has more than {max_bytes} bytes")
            if token.is_cut:
                raise RelayError(f"{url} is too slow")
        is_whole = True
        return bytes(content)
    finally:
        if is_whole:
            reply.release_conn()
        else:
            reply.close()  # the rest of an answer that nobody wants


def _is_short(reply: urllib3.BaseHTTPResponse) -> bool:
    """Read what comes with a refusal if it is short, so that the connection can be used again."""
    length = reply.headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 3:  # a number of many digits is no number to Python
        return False
    reply.read(1000)
    return True


def _busy_seconds(retry_after: str) -> float:
    """Return how long to leave a relay alone that says so; not so long that it would be forgotten."""
    return min(float(retry_after), _MAX_BUSY_SECONDS) if retry_after.isdecimal() else 1.0


def _reason(error: Exception) -> str:
    """Return what went wrong in words. They may come from the relay, and go to a terminal."""
    words = str(getattr(error, "reason", None) or error).rpartition(": ")[2][:_MAX_WORDS]
    return "".join(character if character.isprintable() else "?" for character in words)
