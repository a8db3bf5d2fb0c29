"""Wait for what another thread or process does."""

import socket
import time
from collections.abc import Callable


def becomes(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Wait until a condition holds, and return whether it did in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def listens(port: int) -> bool:
    """Return whether a process of this machine listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
