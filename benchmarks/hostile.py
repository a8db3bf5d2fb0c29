"""Run one hostile client of `curate serve`:  python -m benchmarks.hostile BEHAVIOR PORT

The client prints "ready", waits for a line, and then misbehaves until it is killed. See benchmarks/service.py.
"""

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable

ADDRESS = "127.0.3.1"
CONNECTIONS = 8
_TIMEOUT_SECONDS = 0.1  # after which a client that leaves its program running disconnects


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _run(code: str, stdin: str = "") -> bytes:
    content = {"code": code, "language": "python", "stdin": stdin, "run_timeout": 60}
    return post("/run_code", json.dumps(content).encode())


def _repeat(request: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        while True:
            connection.sendall(request)
            if not connection.recv(1 << 20):
                return

    return act


def _read_nothing(request: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        connection.sendall(request)
        while connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\x01":  # it is connected
            time.sleep(0.5)

    return act


def _disconnect(request: bytes) -> Callable[[socket.socket], None]:
    def act(connection: socket.socket) -> None:
        connection.sendall(request)
        time.sleep(_TIMEOUT_SECONDS)

    return act


BEHAVIORS: dict[str, Callable[[], Callable[[socket.socket], None]]] = {
    "600 KB of [0,0,...]": lambda: _repeat(post("/judge", b"[" + b"0," * 300_000 + b"0]")),
    "bodies of 31 MB": lambda: _repeat(_run("pass", "x" * (31 << 20))),
    "answers of 16 MB that are not read": lambda: _read_nothing(_run("print('x' * (15 << 20))")),
    "programs left running": lambda: _disconnect(_run("while True: pass")),
}


def main(name: str, port: int) -> None:
    act = BEHAVIORS[name]()

    def misbehave() -> None:
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), source_address=(ADDRESS, 0)) as connection,
            ):
                act(connection)
            time.sleep(0.01)

    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(CONNECTIONS):
        threading.Thread(target=misbehave).start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
