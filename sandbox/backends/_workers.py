"""Worker processes (sandbox/jail/worker.py) as the pool has them: it waits for none, and one thread for all."""

import os
import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol

from sandbox.request import Answer, Request


class WorkerLost(Exception):
    """A worker ended while it started; starting another may help."""


class Worker(Protocol):
    """A worker process that is ready for requests. Only `join` blocks.

    `begin`, `flush` and `receive` raise EOFError or ConnectionError if the worker is gone.
    """

    layers: dict[str, str]

    def fileno(self) -> int: ...

    def begin(self, request: Request[Any]) -> bool:
        """Send a request; return whether all of it is sent. Raises ValueError or TypeError for one that cannot be."""

    def flush(self) -> bool:
        """Send more of a request; return whether all of it is sent."""

    def receive(self, request: Request[Answer]) -> Answer | Exception | None:
        """Read what there is; return the answer, or the error that was sent, once it is complete."""

    def stderr_tail(self) -> str:
        """Return what the worker wrote to stderr before it ended, for people to read."""

    def abort(self) -> None:
        """Make the worker abandon its request and end. Raises OSError."""

    def join(self) -> None:
        """Wait until the worker has ended, and remove what it may have left behind."""


# Starts a worker. The arguments: the level of isolation, and why there is no stronger one ("" if there is).
# Raises BackendUnavailable, among them CannotIsolate, or WorkerLost.
WorkerStarter = Callable[[str, str], Worker]


class BlockingConnection(Protocol):
    """A connection to a worker that can only be waited for."""

    layers: dict[str, str]

    def execute(self, request: Request[Answer]) -> Answer | Exception:
        """Send a request and wait for its answer. An error that the worker answers is returned, not raised.

        Raises EOFError or ConnectionError if the worker is gone, and ValueError or TypeError for a request that
        cannot be sent.
        """

    def stderr_tail(self) -> str: ...
    def abort(self) -> None: ...
    def join(self) -> None: ...


class WaitingWorker:
    """A worker with a thread that waits for it."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._connection = connection
        self.layers = connection.layers
        self.stderr_tail, self.abort = connection.stderr_tail, connection.abort
        self._requests: queue.SimpleQueue[Request[Any] | None] = queue.SimpleQueue()
        self._outcome: Any = None
        self._ready = os.eventfd(0, os.EFD_NONBLOCK)
        self._thread = in_thread(self._execute)

    def fileno(self) -> int:
        return self._ready

    def begin(self, request: Request[Any]) -> bool:
        self._requests.put(request)
        return True

    def flush(self) -> bool:
        return True

    def receive(self, request: Request[Answer]) -> Any:
        try:
            os.eventfd_read(self._ready)
        except BlockingIOError:
            return None
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, EOFError | ConnectionError):
            raise outcome
        return outcome

    def join(self) -> None:
        self._requests.put(None)
        self._connection.join()
        self._thread.join()
        os.close(self._ready)

    def _execute(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._outcome = self._connection.execute(request)
            except Exception as error:
                self._outcome = error
                abort(self._connection)  # half of a message may have been sent or received
            os.eventfd_write(self._ready, 1)


def abort(worker: Worker | BlockingConnection | None) -> None:
    """Make a worker abandon its request and end, if there is one."""
    if worker is not None:
        try:
            worker.abort()
        except OSError:
            return  # it has ended already


def in_thread(function: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Call a function in a thread of its own."""
    thread = threading.Thread(target=function, args=arguments, daemon=True, name="sandbox-worker")
    thread.start()
    return thread
