"""The sockets of a pool of HTTP connections, so that another thread can end calls that wait for an answer."""

import contextlib
import socket
import threading
import weakref
from collections.abc import Iterator
from typing import Any


class SocketInterrupt:
    """When called, it hangs up the connection that a thread uses, and each connection that the thread takes later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fired = False
        self._socket: socket.socket | None = None

    def __call__(self) -> None:
        with self._lock:
            self._fired = True
            self._hang_up()

    def set_socket(self, connected: socket.socket) -> None:
        """Record the socket on which the thread waits from now on."""
        with self._lock:
            self._socket = connected
            if self._fired:
                self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class SocketRegistry:
    """Knows the sockets of all connections whose class was made by `make_tracked_class`."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make_tracked_class(self, kind: Any) -> Any:
        """Return a subclass of `kind`, a class of connections, whose sockets are known here."""
        sockets = self

        class Following(kind):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                with sockets._lock:
                    sockets._open.add(self.sock)

            def getresponse(self) -> Any:
                interrupt = getattr(sockets._of_thread, "interrupt", None)
                if interrupt is not None and self.sock is not None:
                    interrupt.set_socket(self.sock)
                return super().getresponse()

        Following.__name__ = kind.__name__  # urllib3's messages show it
        return Following

    @contextlib.contextmanager
    def open_interrupt(self) -> Iterator[SocketInterrupt]:
        """Yield an Interrupt. Called within the block, it ends the request whose answer this thread is waiting for."""
        self._of_thread.interrupt = SocketInterrupt()
        try:
            yield self._of_thread.interrupt
        finally:
            self._of_thread.interrupt = None

    def shutdown_all(self) -> None:
        """End every connection. A thread that waits for an answer gets an error."""
        with self._lock:
            for connected in self._open:
                with contextlib.suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)
