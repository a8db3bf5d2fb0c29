"""A GET request to a relay, bounded in size and time. The caller verifies the content."""

import threading
from collections.abc import Callable
from http.client import HTTPException

from sandbox.concurrency.sockets import SocketInterrupt
from sandbox.http_client import HttpClient, ServerUnreachable, parse_retry_after
from train.errors import ConfigError

_CONNECT_SECONDS = 5.0
_CHUNK_BYTES = 2**18
_RETRYABLE_STATUSES = {429, 503}
_MAX_BUSY_SECONDS = 10.0  # upper bound of Retry-After, so a relay cannot exclude itself for long
_MAX_REFUSAL_BYTES = 1000
_MAX_REASON_CHARACTERS = 200


class NotAvailable(Exception):
    """HTTP 404 from a relay, which does not have the file or range yet."""


class RelayBusy(NotAvailable):
    """HTTP 429 or 503 from a relay. seconds: time until a retry, from Retry-After, at most _MAX_BUSY_SECONDS."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class RelayError(Exception):
    """A relay that is unreachable, times out, or sends an unexpected status."""


class ResponseTooLarge(RelayError):
    """A response with more bytes than requested."""


def open_relay(url: str, max_connections: int) -> HttpClient:
    """Return a client for `get`. Raises ConfigError if the URL is invalid."""
    try:
        return HttpClient(url, connections=max_connections, connect_seconds=_CONNECT_SECONDS)
    except ValueError as error:
        raise ConfigError(f"the URL of a relay is invalid: {error}. Correct it.") from error


def get(
    client: HttpClient, path: str, max_bytes: int, *, offset: int | None = None, seconds: float,
    interrupt: SocketInterrupt | None = None, on_progress: Callable[[int], object] = lambda n_bytes: None,
) -> bytes:  # fmt: skip
    """Return the content at a path, such as runs/RUN/latest, without following redirects.

    offset       start of a range of `max_bytes` to request; None: request the whole file
    seconds      timeout for the whole response
    interrupt    lets another thread cancel the request
    on_progress  receives the number of bytes received so far, repeatedly

    Raises NotAvailable, RelayBusy, RelayError and ResponseTooLarge.
    """
    interrupt, url = interrupt or SocketInterrupt(), f"{client.url}/{path}"
    # A timer, because socket timeouts apply to each read, so a relay could trickle bytes indefinitely.
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
                raise RelayBusy(f"{url} returns HTTP {reply.status}", min(pause, _MAX_BUSY_SECONDS))
            if reply.status == 404:
                if reply.length_remaining is not None and reply.length_remaining < _MAX_REFUSAL_BYTES:
                    reply.read()  # the connection can be reused only after this
                raise NotAvailable(f"{url} returns HTTP 404")
            if reply.status != (200 if offset is None else 206):
                raise RelayError(f"{url} returns HTTP {reply.status}")
            content = bytearray()
            while chunk := reply.read1(_CHUNK_BYTES):
                content += chunk
                on_progress(len(content))
                if len(content) > max_bytes:
                    raise ResponseTooLarge(f"{url} sends more than {max_bytes} bytes")
                if interrupt.has_fired:
                    break
            if interrupt.has_fired:
                raise RelayError(f"{url} timed out")
            return bytes(content)
    except (ServerUnreachable, HTTPException, OSError) as error:
        reason = f"{url} timed out" if interrupt.has_fired else replace_nonprintable(str(error), _MAX_REASON_CHARACTERS)
        raise RelayError(reason) from error
    finally:
        timer.cancel()


def replace_nonprintable(text: str, max_characters: int) -> str:
    """Truncate an untrusted text, and replace nonprintable characters with question marks."""
    return "".join(character if character.isprintable() else "?" for character in text[:max_characters])
