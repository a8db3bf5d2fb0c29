"""Listening sockets, for all servers of this project."""

import resource
import socket

from sandbox.concurrency.sockets import KEEPALIVE_OPTIONS

MAX_CONNECTIONS = 8192  # maximum number of connections of one process


def listen(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Open a listening socket. Raises OSError.

    port        0 for a free port
    reuse_port  whether to set SO_REUSEPORT, so that the kernel distributes connections over several sockets
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
        for option in KEEPALIVE_OPTIONS:  # accepted connections inherit them
            listener.setsockopt(*option)
        listener.bind(address)
        listener.listen(1024)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_many(host: str, port: int, count: int) -> list[socket.socket]:
    """Open `count` sockets that listen on the same port, which no other process uses. Raises OSError."""
    first = listen(host, port)
    if count == 1:
        return [first]
    port = first.getsockname()[1]
    first.close()
    return [listen(host, port, reuse_port=True) for _ in range(count)]


def raise_descriptor_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit, but at most to 2 * MAX_CONNECTIONS; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * MAX_CONNECTIONS)
    if 0 <= soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return target if soft < 0 else soft
