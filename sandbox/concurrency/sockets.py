"""TCP keepalive options, and interruption of HTTP requests through the sockets of their connections."""

import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Iterator
from typing import Any

_KEEPALIVE_SECONDS = 60  # the kernel closes the connection to a silent peer after this time
KEEPALIVE_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS // 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS // 6),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _KEEPALIVE_SECONDS * 1000),
]


class SocketInterrupt:
    """A callable that shuts down a thread's current connection, and all its later ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.has_fired = False

    def __call__(self) -> None:
        with self._lock:
            self.has_fired = True
            self._shut_down()

    def set_socket(self, connected: socket.socket) -> None:
        # TLS detaches the original for its handshake, which must also be interruptible.
        duplicate = socket.socket(fileno=os.dup(connected.fileno()))
        with self._lock:
            self._close_socket()
            self._socket = duplicate
            if self.has_fired:
                self._shut_down()

    def release(self) -> None:
        """Close the duplicate of the thread's socket."""
        with self._lock:
            self._close_socket()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _shut_down(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class SocketRegistry:
    """The sockets of connections whose classes `make_tracked_class` returned."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make_tracked_class(self, kind: Any) -> Any:
        """Return a subclass of a connection class that adds its sockets to this registry."""
        sockets = self

        class TrackedConnection(kind):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                with sockets._lock:
                    sockets._open.add(self.sock)

            def _new_conn(self) -> Any:
                connected = super()._new_conn()
                sockets._set_thread_socket(connected)
                return connected

            def request(self, *arguments: Any, **named: Any) -> None:
                if self.sock is not None:
                    sockets._set_thread_socket(self.sock)
                super().request(*arguments, **named)

        TrackedConnection.__name__ = kind.__name__  # the name in urllib3's error messages
        return TrackedConnection

    @contextlib.contextmanager
    def open_interrupt(self, interrupt: SocketInterrupt | None = None) -> Iterator[SocketInterrupt]:
        """Yield the interrupt, or a new one, for the requests that this thread sends in the block."""
        self._of_thread.interrupt = interrupt = interrupt or SocketInterrupt()
        try:
            yield interrupt
        finally:
            self._of_thread.interrupt = None
            interrupt.release()

    def shut_down_all(self) -> None:
        """Shut down every connection; pending requests fail."""
        with self._lock:
            for connected in self._open:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def _set_thread_socket(self, connected: socket.socket) -> None:
        interrupt: SocketInterrupt | None = getattr(self._of_thread, "interrupt", None)
        if interrupt is not None:
            interrupt.set_socket(connected)
