"""The service's process: it bounds connections, handles signals, and stops without losing a request it has accepted."""

import asyncio
import logging
import math
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from sandbox.box import Sandbox
from sandbox.jail import linux
from sandbox.service.app import ServiceApp
from sandbox.service.bounded_http import MAX_CONNECTIONS, bounded_config
from sandbox.service.settings import ServiceSettings

log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 30  # how long a connection may stay open between requests
_KEEPALIVE_SECONDS = 60  # time after which a peer that does not respond counts as gone
_SHUTDOWN_SECONDS = 5  # time to send the last answers once all runs have been abandoned


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free port. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit TCP keepalive, so that dead clients are detected.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS // 2)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS // 6)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _KEEPALIVE_SECONDS * 1000)
        listener.bind(address)
        listener.listen(1024)
    except BaseException:
        listener.close()
        raise
    return listener


def serve(box: Sandbox, settings: ServiceSettings, listener: socket.socket, on_ready: Callable[[], object]) -> bool:
    """Serve until SIGTERM or SIGINT, then close the box; `on_ready` is called once requests can be answered.

    The first signal lets accepted requests finish, for at most settings.drain_seconds; a second one stops at once.
    Returns whether every accepted request has been answered.
    """
    raise_descriptor_limit()
    linux.enable_malloc_trim()  # memory of large bodies and answers is not kept after use
    app = ServiceApp(box, settings)
    config = bounded_config(
        app,
        head_seconds=settings.head_seconds,
        answer_seconds=settings.answer_seconds,
        keep_alive_seconds=_KEEP_ALIVE_SECONDS,
        stop_seconds=math.ceil(settings.drain_seconds) + _SHUTDOWN_SECONDS,
    )
    server = _Server(config, app, settings.drain_seconds, on_ready)
    try:
        server.run(sockets=[listener])
    finally:
        box.close()
        app.executor.close()
    return not server.gave_up


class _Server(uvicorn.Server):
    """uvicorn's server, with a shutdown of our own."""

    def __init__(
        self, config: uvicorn.Config, app: ServiceApp, drain_seconds: float, ready: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self.gave_up = False
        self._executor = app.executor
        self._drain_seconds = drain_seconds
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM. Unlike uvicorn, do not raise them again at the end: a service that stopped when
        it was told to has not failed."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._executor.queue.draining = True  # from now on nothing new is accepted

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info(
            "stopping: %d requests are running, %d waiting",
            self._executor.queue.n_running,
            self._executor.queue.waiting,
        )
        deadline = asyncio.get_running_loop().call_later(self._drain_seconds, self._give_up)
        await super().shutdown(sockets)
        deadline.cancel()
        if self.force_exit and self.server_state.tasks:
            self._give_up()
            await asyncio.wait(self.server_state.tasks, timeout=_SHUTDOWN_SECONDS)

    def _give_up(self) -> None:
        self.gave_up = self.gave_up or bool(self.server_state.tasks)
        self._executor.abort_all()


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as it may, up to twice MAX_CONNECTIONS; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * MAX_CONNECTIONS)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft < 0 else soft
