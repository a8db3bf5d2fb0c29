"""Simulated outages of a judge's backend, within the judge's process."""

import errno
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

_ERROR_REPLY = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def simulate(condition: str) -> Iterator[None]:
    """Make all new processes, or all new connections, fail within this context.

    condition   "no process": fork fails with EAGAIN; "no memory": fork raises MemoryError; "refused": connect fails
                with ECONNREFUSED; "hangs": connect fails with ETIMEDOUT; "error": every server responds HTTP 500
    """
    patches: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, value: Any) -> None:
        patches.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    if condition in ("no process", "no memory"):
        fail = _make_raiser(
            OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) if condition == "no process" else MemoryError()
        )
        patch(os, "fork", fail)
        patch(subprocess, "_fork_exec", fail)
        patch(os, "posix_spawn", fail)
    elif condition == "error":
        server = _start_error_server()
        connect = socket.socket.connect
        patch(socket.socket, "connect", lambda self, address: connect(self, _redirect_to_server(self, address, server)))
    else:
        number = errno.ECONNREFUSED if condition == "refused" else errno.ETIMEDOUT
        patch(socket.socket, "connect", _make_raiser(OSError(number, os.strerror(number))))
    try:
        yield
    finally:
        for owner, name, value in reversed(patches):
            setattr(owner, name, value)


def _make_raiser(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def _redirect_to_server(client: socket.socket, address: Any, server: tuple[str, int]) -> Any:
    return server if client.family in (socket.AF_INET, socket.AF_INET6) else address


def _start_error_server() -> tuple[str, int]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(_ERROR_REPLY)

    Thread(target=serve, daemon=True).start()
    address: tuple[str, int] = listener.getsockname()
    return address
