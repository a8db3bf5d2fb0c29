"""Lanes of one worker each (sandbox/judging/worker.py), and the base class of the backends that use them."""

import contextlib
import logging
import os
import queue
import select
import socket
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sandbox import limit_bounds
from sandbox.backends._dispatch import Job, Lane, LaneLost, QueuedBackend, RequestDispatcher
from sandbox.errors import BackendUnavailable, CannotIsolate
from sandbox.jail.worker_config import CONFINING_LEVELS, NONE
from sandbox.judging.channel import Channel, frame_request
from sandbox.request import Request, Response

log = logging.getLogger(__name__)

# Starts a worker, given its level of isolation and the reasons why stronger levels failed ("" for the strongest level).
# Raises BackendUnavailable, including CannotIsolate, or LaneLost.
WorkerStarter = Callable[[str, str], Lane]


class WorkerBackend(QueuedBackend):
    """The base class of the local and the docker backend. Raises BackendUnavailable.

    start      starts one worker
    workers    maximum number of workers, which start on demand
    isolation  "full" or "best-effort"; see Sandbox
    memory_mb  memory of the workers' machine, shared by concurrent runs
    levels     the levels of isolation to try, in order; empty for those of `isolation`
    """

    def __init__(
        self, start: WorkerStarter, *, workers: int, isolation: str, memory_mb: int, levels: Sequence[str] = ()
    ) -> None:
        levels = levels or (CONFINING_LEVELS if isolation == "full" else (*CONFINING_LEVELS, NONE))
        refused: dict[str, str] = {}

        def start_lane() -> Lane:
            return start(levels[len(refused)], "; ".join(f"{level}: {reason}" for level, reason in refused.items()))

        super().__init__(RequestDispatcher(start_lane, max_lanes=workers, memory_mb=memory_mb))
        self._limit_clamp = limit_bounds.LimitClamp(limit_bounds.make_machine_limits(memory_mb))
        self._end = weakref.finalize(self, self.dispatcher.close)
        try:
            self.layers = self._start_first(levels, refused)
        except BaseException:
            self.close()
            raise

    def _start_first(self, levels: Sequence[str], refused: dict[str, str]) -> dict[str, str]:
        """Start the first worker at the strongest level that this machine supports; return its layers."""
        for level in levels:
            try:
                layers = self.dispatcher.start_lane().layers
            except CannotIsolate as error:
                refused[level] = str(error)
                continue
            if level == NONE:
                reason = "; ".join(refused.values())
                log.warning("without isolation, submissions can read expected outputs (%s)", reason)
            return layers
        tried = ". ".join(f"Tried {level}: {reason}" for level, reason in refused.items())
        raise BackendUnavailable(
            f"cannot isolate programs on this machine. {tried}. To judge without isolation, where submissions can"
            ' read expected outputs, pass isolation="best-effort" (--isolation best-effort)'
        )

    def _submit(self, request: Request[Any], on_response: Callable[[Any], object]) -> Job:
        return super()._submit(self._limit_clamp.clamp_request(request), on_response)

    def close(self) -> None:
        self._end()


class ResponseReader:
    """A thread that reads the responses of all SocketLanes."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lanes: dict[int, SocketLane] = {}
        self._epoll = select.epoll()
        self._wake = os.eventfd(0)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, daemon=True, name="sandbox-responses")
        self._thread.start()

    def add(self, lane: "SocketLane") -> None:
        self._lanes[lane.fileno()] = lane
        self._epoll.register(lane.fileno(), select.EPOLLIN)

    def set_flush(self, lane: "SocketLane", *, enabled: bool) -> None:
        """Set whether to call `lane.flush` when its socket is writable. Raises OSError if the worker has exited."""
        self._epoll.modify(lane.fileno(), select.EPOLLIN | (select.EPOLLOUT if enabled else 0))

    def remove(self, lane: "SocketLane") -> None:
        if self._lanes.pop(lane.fileno(), None) is not None:
            with contextlib.suppress(ValueError):  # the epoll is closed
                self._epoll.unregister(lane.fileno())

    def close(self) -> None:
        """Stop the thread."""
        if os.getpid() == self._owner:  # a forked process shares the eventfd
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        with self._epoll:
            while True:
                responses: list[tuple[Lane, Job, Any]] = []
                for descriptor, events in self._epoll.poll():
                    if descriptor == self._wake:
                        os.close(self._wake)
                        return
                    if (lane := self._lanes.get(descriptor)) is not None:
                        self._read(lane, events, responses)
                if responses:
                    responses[0][0].dispatcher.deliver(responses)

    def _read(self, lane: "SocketLane", events: int, responses: list[tuple[Lane, Job, Any]]) -> None:
        try:
            if events & select.EPOLLOUT and lane.flush():
                self.set_flush(lane, enabled=False)
            if events & ~select.EPOLLOUT and (response := lane.receive()) is not None:
                responses.append((lane, *response))
        except Exception as error:  # a faulty lane must not stop this thread
            self.remove(lane)
            lane.dispatcher.drop_lane(lane, str(error))


class SocketLane(Channel, Lane):
    """The connection to a worker over a socket, without a separate thread; see ResponseReader."""

    def __init__(self, connected: socket.socket, reader: ResponseReader) -> None:
        Channel.__init__(self, connected.fileno(), connected.fileno())
        Lane.__init__(self)
        self._socket = connected
        self._reader = reader
        self._job: Job | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def open(self) -> None:
        self._reader.add(self)

    def send(self, jobs: Sequence[Job]) -> None:
        with contextlib.suppress(BlockingIOError):  # raised if the socket is neither readable nor at EOF
            if not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise LaneLost("it exited while it was idle")
        self._unsent = memoryview(frame_request(jobs[0].request))
        self._job = jobs[0]
        if not self.flush():
            self._reader.set_flush(self, enabled=True)

    def flush(self) -> bool:
        """Send as much of the request as possible without blocking; return whether it is complete."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent, socket.MSG_DONTWAIT) :]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> tuple[Job, Any] | None:
        """Read the available bytes; return the job and its response or error, or None while the response is incomplete.

        Raises EOFError or ConnectionError if the worker has exited.
        """
        try:
            data = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        job = self._job
        if job is None:
            raise EOFError("it exited, or sent an unsolicited response")
        response = self.take_response(data, job.request)
        if response is None:
            return None
        self._job = None
        return job, response

    def cancel(self, job: Job | None) -> None:
        # Sends EOF even if a forked process holds the socket too, unlike close().
        with contextlib.suppress(OSError):  # the worker has exited already
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self, reason: str) -> str:
        self._reader.remove(self)
        self.cancel(None)
        self._socket.close()
        return reason


class ThreadLane(Lane):
    """The connection to a worker, with a thread that sends requests and waits for their responses."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    @abstractmethod
    def execute(self, request: Request[Response]) -> Response | Exception:
        """Send a request, and return its response or the exception to raise for it.

        Raises EOFError, OSError or LaneLost if the worker has exited, and any other Exception if the request cannot be
        encoded.
        """

    @abstractmethod
    def abort(self) -> None:
        """Close the connection, so that the worker aborts its request and exits."""

    def open(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="sandbox-worker").start()

    def send(self, jobs: Sequence[Job]) -> None:
        self._jobs.put(jobs[0])

    def cancel(self, job: Job) -> None:
        self.abort()

    def join(self, reason: str) -> str:
        self._jobs.put(None)
        return reason

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                response: Any = self.execute(job.request)
            except (EOFError, OSError, LaneLost) as error:
                self.dispatcher.drop_lane(self, str(error))
                return
            except Exception as error:
                response = error
                self.abort()  # part of a message may have been sent or received
            self.dispatcher.deliver([(self, job, response)])
