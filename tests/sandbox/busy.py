"""Processes that keep the machine busy while a test measures how the sandbox fares."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_PROGRAM = "ulimit -t 120; while :; do :; done"  # the limit ends it if the test is killed


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep so many processes busy; they run where this process may.

    Each has a session of its own, because the kernel may give all processes of a session one share of the processors.
    """
    pids = []
    try:
        for _ in range(number):
            pids.append(os.posix_spawn("/bin/sh", ["sh", "-c", _PROGRAM], {}, setsid=True))
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
