"""Processes that keep the machine busy while a test measures how the sandbox fares."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep so many processes busy; they run where this process may."""
    pids = []
    try:
        for _ in range(number):
            pid = os.fork()
            if pid == 0:
                os.setsid()  # the kernel may give all processes of a session one share of the processors
                signal.alarm(120)  # if the test is killed
                while True:
                    pass
            pids.append(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
