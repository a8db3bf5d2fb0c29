"""The sockets of a pool of HTTP connections, so that what waits on them can be ended from another thread."""

import contextlib
import socket
import threading
import weakref
from typing import Any


class Sockets:
    """Of all connections whose class was made by `following`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def following(self, kind: Any) -> Any:
        """The class of connections `kind`, with its sockets known here."""
        sockets = self

        class Following(kind):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                with sockets._lock:
                    sockets._open.add(self.sock)

        Following.__name__ = kind.__name__  # urllib3's messages have it
        return Following

    def hang_up(self) -> None:
        """End every connection; whoever waits for its answer gets an error."""
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
