"""The process of a relay: it serves files, and a thread brings new ones."""

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from sandbox.service.listener import listen, raise_descriptor_limit
from train.bounded_http import bounded_config
from train.errors import ConfigError

log = logging.getLogger(__name__)

_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS, _STOP_SECONDS = 10.0, 60.0, 60, 2
_MAX_CONNECTIONS = 2048
_FOLLOWER_SECONDS = 5.0


def open_listener(address: str) -> socket.socket:
    """Return a socket that listens at HOST:PORT; port 0 takes a free one. Raises ConfigError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"--listen must be HOST:PORT, such as 0.0.0.0:8710, not {address}")
    try:
        return listen(host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error}. Choose another --listen.") from error


def listener_url(listener: socket.socket) -> str:
    """Return the URL of a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: ASGIApp,
    listener: socket.socket,
    background_loop: Callable[[threading.Event], None],
    on_ready: Callable[[], object],
) -> None:
    """Serve until SIGINT or SIGTERM.

    background_loop  runs in a thread of its own until its event is set. If it ends with an error, so does the server
    on_ready         is called when requests can be answered
    """
    raise_descriptor_limit()
    config = bounded_config(
        app,
        head_seconds=_HEAD_SECONDS,
        answer_seconds=_RESPONSE_TIMEOUT_SECONDS,
        keep_alive_seconds=_KEEP_ALIVE_SECONDS,
        stop_seconds=_STOP_SECONDS,
        max_connections=_MAX_CONNECTIONS,
    )
    server, stop = _Server(config, on_ready), threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            background_loop(stop)
        except BaseException as error:  # the main thread raises it
            errors.append(error)
            server.should_exit = True

    follower = threading.Thread(target=run, name="follower", daemon=True)
    follower.start()
    try:
        server.run(sockets=[listener])
    finally:
        stop.set()
        listener.close()
        follower.join(_FOLLOWER_SECONDS)
    if errors:
        raise errors[0]


class _Server(uvicorn.Server):
    """uvicorn's server. A relay that stopped when it was told to has not failed."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM, and do not raise them again at the end, as uvicorn would."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
