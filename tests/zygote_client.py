"""Client of tests/zygote.py: asks for a child and, as a script, stands in for it until it exits.

The script replaces `python` and `curate` in a shell: `python -I -S -E zygote_client.py SOCKET curate stats ...`. It
imports built-in modules alone, since its own start is all that a command then costs.
"""

import _socket
import _thread
import array
import marshal
import os
import sys
from collections.abc import Mapping, Sequence

SOCKET_TYPE = _socket.SOCK_SEQPACKET
MAX_MESSAGE = 1 << 20  # bytes; arguments and an environment


def connect(path: str) -> _socket.socket:
    connection = _socket.socket(_socket.AF_UNIX, SOCKET_TYPE | _socket.SOCK_CLOEXEC)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def request(
    connection: _socket.socket,
    arguments: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    *,
    start_new_session: bool = False,
    is_tied: bool = False,
) -> int:
    """Have the child started, with the descriptors as its standard streams, and return its process id.

    is_tied     whether the child is killed as soon as the connection closes

    Raises OSError if the child cannot enter the folder, as subprocess.Popen does.
    """
    message = marshal.dumps((list(arguments), cwd, dict(environment), start_new_session, is_tied))
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, MAX_MESSAGE)
    connection.sendmsg([message], [rights])
    reply = connection.recv(MAX_MESSAGE)
    if not reply:
        raise RuntimeError("the zygote exited; see `log` in the folder that CURATE_TESTS_RUN names")
    pid, error = marshal.loads(reply)
    if error:
        raise OSError(*error)
    return int(pid)


def status_of(connection: _socket.socket) -> int:
    """Wait for the child, and return its exit status, or the negative number of the signal that ended it."""
    reply = connection.recv(64)
    if not reply:
        return -9  # a zygote that exits kills its children
    connection.send(b"read")
    connection.recv(1)  # the end, when the child is reaped
    return int(marshal.loads(reply))


def main(path: str, arguments: Sequence[str]) -> None:
    import _signal  # type: ignore[import-not-found]  # what `signal` wraps

    forwarded = [_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGUSR1, _signal.SIGUSR2]
    _signal.pthread_sigmask(_signal.SIG_BLOCK, forwarded)
    connection = connect(path)
    pid = request(connection, arguments, os.getcwd(), os.environ, (0, 1, 2), is_tied=True)

    def forward() -> None:
        while True:
            os.kill(pid, _signal.sigwait(forwarded))

    _thread.start_new_thread(forward, ())
    status = status_of(connection)
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL) if -status not in (9, 19) else None
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [-status])
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
