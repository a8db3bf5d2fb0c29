"""One request to a relay, bounded in length and time. Relays are untrusted; the caller verifies what they send."""

import threading
from collections.abc import Callable
from http.client import HTTPException

from sandbox.concurrency.sockets import SocketInterrupt
from sandbox.http_client import HttpClient, ServerUnreachable, parse_retry_after
from train.errors import ConfigError

_CONNECT_SECONDS = 5.0
_CHUNK_BYTES = 2**18
_RETRYABLE_STATUSES = {429, 503}
_MAX_BUSY_SECONDS = 10.0  # a relay that is left alone for longer would be forgotten
_MAX_REFUSAL_BYTES = 1000
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


def open_relay(url: str, max_connections: int) -> HttpClient:
    """Return a client for requests with `get`. Raises ConfigError if this is no URL."""
    try:
        return HttpClient(url, connections=max_connections, connect_seconds=_CONNECT_SECONDS)
    except ValueError as error:
        raise ConfigError(f"a relay has no URL: {error}") from error


def get(
    client: HttpClient, path: str, max_bytes: int, *, offset: int | None = None, seconds: float,
    interrupt: SocketInterrupt | None = None, on_progress: Callable[[int], object] = lambda n_bytes: None,
) -> bytes:  # fmt: skip
    """Return the content at a path, such as runs/RUN/latest. Redirects are not followed.

    offset       ask for the `max_bytes` that begin there; None: for all
    seconds      time for all of it
    interrupt    ends the request earlier
    on_progress  called with the number of bytes that are here, from time to time

    Raises NotAvailable, RelayBusy, RelayError and ResponseTooLarge.
    """
    interrupt, url = interrupt or SocketInterrupt(), f"{client.url}/{path}"
    # Time limits of sockets are for one piece each, so a relay could trickle bytes indefinitely.
    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    headers = {} if offset is None else {"range": f"bytes={offset}-{offset + max_bytes - 1}"}
    try:
        with (
            client.open_interrupt(interrupt),
            client.open_response(
                "GET", f"/{path}", read_seconds=max(seconds, 0.001), headers=headers, unpack=False
            ) as reply,
        ):
            if reply.status in _RETRYABLE_STATUSES:
                pause = parse_retry_after(reply.headers) or 1.0
                raise RelayBusy(f"{url} answers {reply.status}", min(pause, _MAX_BUSY_SECONDS))
            if reply.status == 404:
                if reply.length_remaining is not None and reply.length_remaining < _MAX_REFUSAL_BYTES:
                    reply.read()  # so that the connection can be used again
                raise NotAvailable(f"{url} is not there")
            if reply.status != (200 if offset is None else 206):
                raise RelayError(f"{url} answers {reply.status}")
            content = bytearray()
            while chunk := reply.read1(_CHUNK_BYTES):
                content += chunk
                on_progress(len(content))
                if len(content) > max_bytes:
                    raise ResponseTooLarge(f"{url} has more than {max_bytes} bytes")
                if interrupt.has_fired:
                    break
            if interrupt.has_fired:
                raise RelayError(f"{url} is too slow")
            return bytes(content)
    except (ServerUnreachable, HTTPException, OSError) as error:
        raise RelayError(f"{url} is too slow" if interrupt.has_fired else _printable(str(error))) from error
    finally:
        timer.cancel()


def _printable(words: str) -> str:
    """Return words that may come from the relay as they can go to a terminal."""
    return "".join(character if character.isprintable() else "?" for character in words[:_MAX_WORDS])
