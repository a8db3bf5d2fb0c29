"""The service's process: connections within bounds, signals, and an end that loses nothing that was accepted."""

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
from sandbox.service.app import App
from sandbox.service.http_protocol import MOST, bounded
from sandbox.service.settings import Settings

log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 30  # of a connection between requests
_DEAD_SECONDS = 60  # until a peer that answers nothing counts as gone
_GOODBYE_SECONDS = 5  # for the last answers, once all runs have been given up


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, port 0 on one that is free. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What follows, connections inherit: a client that vanished without a word must not stay for ever.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_SECONDS // 2)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD_SECONDS // 6)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_SECONDS * 1000)
        listener.bind(address)
        listener.listen(1024)
    except BaseException:
        listener.close()
        raise
    return listener


def serve(box: Sandbox, settings: Settings, listener: socket.socket, ready: Callable[[], object]) -> bool:
    """Serve until SIGTERM or SIGINT; `ready` is called once requests are answered. Closes the box.

    The first signal lets what was accepted finish, for settings.drain_seconds at most; a second one ends at once.
    Returns whether all that was accepted has been answered.
    """
    _raise_descriptor_limit()
    linux.give_freed_memory_back()  # large bodies and answers are not kept when they have gone
    app = App(box, settings)
    config = uvicorn.Config(
        app,
        http=bounded(settings.head_seconds, settings.answer_seconds),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds) + _GOODBYE_SECONDS,
    )
    server = _Server(config, app, settings.drain_seconds, ready)
    try:
        server.run(sockets=[listener])
    finally:
        box.close()
        app.work.close()
    return not server.gave_up


class _Server(uvicorn.Server):
    """uvicorn's, with an end of our own."""

    def __init__(self, config: uvicorn.Config, app: App, drain_seconds: float, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self.gave_up = False
        self._work = app.work
        self._drain_seconds = drain_seconds
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's, not raised again at the end: a service that was told to stop, and did, has not failed."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._work.line.draining = True  # from now on nothing new is accepted

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping: %d requests are running, %d waiting", self._work.line.running, self._work.line.waiting)
        patience = asyncio.get_running_loop().call_later(self._drain_seconds, self._give_up)
        await super().shutdown(sockets)
        patience.cancel()
        if self.force_exit and self.server_state.tasks:
            self._give_up()
            await asyncio.wait(self.server_state.tasks, timeout=_GOODBYE_SECONDS)

    def _give_up(self) -> None:
        self.gave_up = self.gave_up or bool(self.server_state.tasks)
        self._work.give_up()


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST if hard == resource.RLIM_INFINITY else min(hard, 2 * MOST)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
