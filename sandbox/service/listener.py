"""Listening sockets, for all servers of this project."""

import resource
import socket

MAX_CONNECTIONS = 8192  # of one process
_KEEPALIVE_SECONDS = 60  # time after which a silent peer counts as dead


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a listening socket; port 0 takes a free port. Raises OSError.

    shared  whether to share the port by SO_REUSEPORT; the kernel then distributes connections
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)
        # Accepted connections inherit TCP keepalive, so that dead clients are detected.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS // 2)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS // 6)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _KEEPALIVE_SECONDS * 1000)
        listener.bind(address)
        listener.listen(1024)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_many(host: str, port: int, count: int) -> list[socket.socket]:
    """Return several sockets that listen on the same, previously free port. Raises OSError."""
    first = listen(host, port)
    if count == 1:
        return [first]
    port = first.getsockname()[1]
    first.close()
    return [listen(host, port, shared=True) for _ in range(count)]


def raise_descriptor_limit() -> int:
    """Raise RLIMIT_NOFILE to its hard limit, but at most to 2 * MAX_CONNECTIONS; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MAX_CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, 2 * MAX_CONNECTIONS)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return wanted if soft < 0 else soft
