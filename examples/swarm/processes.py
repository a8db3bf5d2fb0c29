"""The processes of a swarm on this machine, each with its own log."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import Popen

from sandbox.closeable import Closeable

ROOT = Path(__file__).parents[2]
CURATE = (sys.executable, "-W", "ignore", str(ROOT / "cli.py"))
_THREADS = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
_SHUTDOWN_SECONDS = 10.0


class ProcessGroup(Closeable):
    """Named child processes.

    logs    folder of their logs
    report  called with the name of a process and a line of its output
    """

    def __init__(self, logs: Path, report: Callable[[str, str], None] = lambda name, line: None) -> None:
        self._logs, self._report = logs, report
        self._commands: dict[str, tuple[str, ...]] = {}
        self._read: dict[str, int] = {}
        self.by_name: dict[str, Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, *command: str, environment: Mapping[str, str] = {}) -> None:
        self._commands[name] = command
        with self._log(name).open("ab") as log:
            self.by_name[name] = Popen(
                command, env={**os.environ, **_THREADS, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_curate(self, name: str, *arguments: str) -> None:
        """Start a command of curate."""
        self.start(name, *CURATE, *arguments)

    def kill(self, name: str) -> None:
        self.by_name[name].kill()
        self.by_name[name].wait()

    def restart(self, name: str) -> None:
        """Start an exited process again, with the same command."""
        self.start(name, *self._commands[name])

    def terminate(self, name: str) -> None:
        self.by_name[name].send_signal(signal.SIGTERM)

    def is_alive(self, name: str) -> bool:
        return self.by_name[name].poll() is None

    def has_failed(self, name: str) -> bool:
        return bool(self.by_name[name].poll())

    def read_output(self, name: str) -> str:
        """Return the output of a process so far."""
        return self._log(name).read_text(encoding="utf-8", errors="replace")

    def report_output(self) -> None:
        """Report all output since the last call."""
        for name in self.by_name:
            words = self.read_output(name)
            *lines, rest = words[self._read.get(name, 0) :].split("\n")
            self._read[name] = len(words) - len(rest)
            for line in lines:
                self._report(name, line)

    def wait_for(self, name: str, words: str) -> None:
        """Wait until this text appears in the output of a process. Raises RuntimeError if the process exits first."""
        while words not in self.read_output(name):
            self.report_output()
            if not self.is_alive(name) and words not in self.read_output(name):
                raise RuntimeError(f"{name} exited without printing {words!r}:\n{self.read_output(name)[-2000:]}")
            time.sleep(0.1)

    def close(self) -> None:
        """Send SIGTERM to all processes, and SIGKILL after a grace period."""
        for process in self.by_name.values():
            if process.poll() is None:
                process.terminate()
        until = time.monotonic() + _SHUTDOWN_SECONDS
        for process in self.by_name.values():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"


def run(*words: str) -> str:
    """Run a command of curate, and return its output. Raises RuntimeError if it fails."""
    done = subprocess.run(
        [*CURATE, *words], env={**os.environ, **_THREADS}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"curate {' '.join(words)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def find_free_ports(n: int) -> Sequence[int]:
    """Return free ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
