"""Child processes that end with their parent, and a budget for restarts.

    python -m train.child MODULE ARGUMENT...    calls MODULE.main(ARGUMENT...)

A child has its own session, so Ctrl-C reaches only the trainer. Its standard input is a pipe from the parent, which the
kernel closes when the parent exits, even by SIGKILL. The child then kills its own process group, including vLLM's
processes, so a resumed run finds its GPUs free.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from math import inf
from pathlib import Path

_HOUR = 3600.0
_POLL_SECONDS = 0.05


class Child:
    """A process that calls `main` of a module.

    log          file for the output of the process
    environment  variables in addition to those of this process

    Raises OSError if the process cannot be started.
    """

    def __init__(
        self, module: str, *arguments: str, log: Path, append: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.log = log
        with log.open("ab" if append else "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "train.child", module, *arguments],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit status, or the negative number of the signal; None while the process runs.

        Only `end` reaps the process, so the kernel cannot reuse the process id before `end` kills the group.
        """
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def wait(self, seconds: float = inf) -> None:
        """Wait until the process exits, for at most `seconds`."""
        until = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)

    def end(self) -> None:
        """Kill the process and its process group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def describe_exit(self) -> str:
        """Return the signal that killed the process, or the last line of its log."""
        status = self.poll()
        if status is not None and status < 0:
            return f"killed by signal {-status}"
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return next((line.removeprefix("Error: ") for line in reversed(lines) if line.strip()), "its log is empty")


class RestartBudget:
    """A limit of `per_hour` restarts in each sliding window of one hour."""

    def __init__(self, per_hour: int) -> None:
        self.per_hour = per_hour
        self._restarts: deque[float] = deque()

    def spend(self, now: float) -> bool:
        """Count a restart at the time `now` in seconds, unless the budget is spent; return whether it was counted."""
        while self._restarts and now - self._restarts[0] > _HOUR:
            self._restarts.popleft()
        if len(self._restarts) >= self.per_hour:
            return False
        self._restarts.append(now)
        return True


def _run_module(module: str, *arguments: str) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    from curate.errors import CurateError  # imported after the start of the thread, because imports are slow
    from sandbox import SandboxError
    from train.errors import TrainError

    try:
        import_module(module).main(*arguments)
    except (CurateError, SandboxError, TrainError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(1)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: Python aborts at shutdown if a thread holds its lock
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)  # without cleanup: the main thread may be in a long engine step


if __name__ == "__main__":
    _run_module(*sys.argv[1:])
