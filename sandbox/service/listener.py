"""Listening sockets, for all servers of this project."""

import resource
import socket

from sandbox.concurrency.sockets import KEEPALIVE_OPTIONS

MAX_CONNECTIONS = 8192  # of one process


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Open a listening socket; port 0 takes a free port. Raises OSError.

    shared  whether to set SO_REUSEPORT, so that the kernel distributes connections over several sockets
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        for option in KEEPALIVE_OPTIONS:  # inherited by accepted connections
            listener.setsockopt(*option)
        listener.bind(address)
        listener.listen(1024)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_many(host: str, port: int, count: int) -> list[socket.socket]:
    """Open several sockets that listen on the same, previously free port. Raises OSError."""
    first = listen(host, port)
    if count == 1:
        return [first]
    port = first.getsockname()[1]
    first.close()
    return [listen(host, port, shared=True) for _ in range(count)]


def raise_descriptor_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit, but at most to 2 * MAX_CONNECTIONS; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * MAX_CONNECTIONS)
    if 0 <= soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return target if soft < 0 else soft
