"""Bait for probes of the host: a file, a process and two sockets that reveal a secret.

    python -m curate.probe.bait SECRET

The process exits at EOF on its standard input.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from sandbox.probes.host.machine import BAIT_FILE, BAIT_PORT, BAIT_SOCKET


@contextmanager
def expose_bait(secret: str) -> Iterator[None]:
    """Expose the bait in the current namespaces during this context."""
    process = subprocess.Popen(
        [sys.executable, "-m", "curate.probe.bait", secret],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "CURATE_PROBE_BAIT": secret},
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate()


def _serve_secret(listener: socket.socket, secret: bytes) -> None:
    while True:
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(secret)


def main(secret: str) -> None:
    """Expose the bait until EOF on standard input."""
    internet, local = socket.create_server(("127.0.0.1", BAIT_PORT)), socket.socket(socket.AF_UNIX)
    local.bind(BAIT_SOCKET)
    local.listen()
    for listener in (internet, local):
        Thread(target=_serve_secret, args=(listener, secret.encode()), daemon=True).start()
    file = Path(BAIT_FILE)
    # An earlier probe may have been killed before it removed the file.
    file.unlink(missing_ok=True)
    # The mode "x" follows no symbolic link that another user may have created.
    with file.open("x") as writer:
        writer.write(secret)
    file.chmod(0o644)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    file.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1])
