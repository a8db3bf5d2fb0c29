"""The service's main process: runs the dispatcher, starts the front ends, and shuts down gracefully."""

import asyncio
import logging
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from sandbox.box import Sandbox
from sandbox.errors import SandboxError
from sandbox.kernel import linux
from sandbox.service import request_bounds
from sandbox.service.dispatcher import ServiceDispatcher, Session
from sandbox.service.front_end import FrontEndConfig
from sandbox.service.listener import raise_descriptor_limit
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.settings import ServiceSettings

log = logging.getLogger(__name__)

_SHUTDOWN_SECONDS = 5  # maximum time for the last responses after all programs are killed
_RESTART_SECONDS = 1  # pause before the replacement of a front end that failed to start
_PROJECT = str(Path(__file__).parents[2])


def serve(
    box: Sandbox, settings: ServiceSettings, listeners: Sequence[socket.socket], on_ready: Callable[[], object]
) -> bool:
    """Serve until SIGTERM or SIGINT, with a front end for each listening socket; then close the sockets and the box.

    After the first signal, drain for at most settings.drain_seconds; a second signal aborts all requests. `on_ready` is
    called once the service is ready. Returns whether every accepted request got a response. Raises SandboxError if a
    front end does not start.
    """
    raise_descriptor_limit()
    linux.enable_malloc_trim()  # returns the memory of large requests and responses to the kernel

    async def run() -> bool:
        try:
            return await _Service(box, settings, listeners).run(on_ready)
        finally:
            await asyncio.to_thread(box.close)  # workers may still respond, so this precedes the end of the loop

    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        return runner.run(run())


class _FrontEnd:
    """A front end's process and session."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.is_ready = False
        self.process: subprocess.Popen[bytes] | None = None
        self.session: Session | None = None

    def start(self, config: bytes) -> socket.socket:
        """Start the process; return the socket connected to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = theirs.fileno(), self.listener.fileno()
            code = f"import sys; sys.path.insert(0, {_PROJECT!r}); from sandbox.service.front_end import main; "
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-B", "-c", f"{code}main(*{descriptors})"],
                pass_fds=descriptors,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # so that it gets no signals of this process group, such as Ctrl-C
            )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError), self.process.stdin as stdin:  # the process may have exited already
            stdin.write(config)
        return ours

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class _Service:
    """The front ends and their lifecycle."""

    def __init__(self, box: Sandbox, settings: ServiceSettings, listeners: Sequence[socket.socket]) -> None:
        bounds = RequestBounds(settings.max_limits or request_bounds.make_default_max_limits(box.workers))
        self._config = pickle.dumps(FrontEndConfig(settings, bounds, box.workers))
        self._drain_seconds = settings.drain_seconds
        self._dispatcher = ServiceDispatcher(box, settings)
        self._front_ends = {_FrontEnd(listener) for listener in listeners}
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._exit_event = asyncio.Event()
        self._all_responded = True

    async def run(self, on_ready: Callable[[], object]) -> bool:
        """Serve; return whether every accepted request got a response."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._stop)
        try:
            for front_end in self._front_ends:
                await self._start(front_end)
            await self._started.wait()
            is_ready = all(front_end.is_ready for front_end in self._front_ends)
            if is_ready and not self._is_draining:
                on_ready()
            if is_ready or self._is_draining:
                await self._exit_event.wait()
                return self._all_responded
        finally:
            for front_end in self._front_ends:
                front_end.kill()
        raise SandboxError("a front end of the service exited during its start; see its error above")

    @property
    def _is_draining(self) -> bool:
        return self._dispatcher.queue.draining

    async def _start(self, front_end: _FrontEnd) -> None:
        if self._is_draining:
            return

        def on_ready() -> None:
            front_end.is_ready = True
            if all(each.is_ready for each in self._front_ends):
                self._started.set()

        front_end.is_ready = False
        front_end.session = Session(self._dispatcher, on_ready, lambda: self._replace(front_end))
        link = front_end.session.link
        await self._loop.create_connection(lambda: link, sock=front_end.start(self._config))

    def _replace(self, front_end: _FrontEnd) -> None:
        front_end.kill()
        front_end.session = None
        if self._is_draining:
            self._exit_if_unused()
        elif not self._started.is_set():
            self._started.set()
        else:
            log.warning("a front end has exited, and its requests failed; starting another one")
            pause = 0 if front_end.is_ready else _RESTART_SECONDS
            self._loop.call_later(pause, lambda: asyncio.ensure_future(self._start(front_end)))

    def _stop(self) -> None:
        queue = self._dispatcher.queue
        if queue.draining:
            self._abort()
            return
        log.info("stopping: %d requests are running, %d waiting", queue.n_running, queue.n_waiting)
        queue.draining = True  # reject new requests
        for front_end in self._front_ends:
            front_end.listener.close()
            if front_end.session is not None:
                front_end.session.link.call("drain")
        self._started.set()
        self._exit_if_unused()
        self._loop.call_later(self._drain_seconds, self._abort)

    def _abort(self) -> None:
        if self._dispatcher.abort_requests():
            self._all_responded = False
        self._loop.call_later(_SHUTDOWN_SECONDS, self._force_exit)

    def _force_exit(self) -> None:
        self._all_responded = False  # a front end that is still running has unsent responses
        self._exit_event.set()

    def _exit_if_unused(self) -> None:
        if not any(front_end.session for front_end in self._front_ends):
            self._exit_event.set()
