"""This machine: a pool of worker processes (sandbox/jail), started when first needed, one submission each at a time.

Workers notice when we are gone, however we went, and take everything they own with them.
"""

import contextlib
import importlib.util
import os
import queue
import socket
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

from sandbox.errors import BackendUnavailable, ExecutionLost, SandboxError
from sandbox.jail import cgroups, leftovers, wire
from sandbox.jail.worker import Configuration

_ATTEMPTS = 3  # at a request whose worker dies
_GOODBYE_SECONDS = 10


class Backend:
    """Raises BackendUnavailable where this machine cannot isolate as asked."""

    def __init__(self, *, workers: int | None, isolation: str, seed: int | None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._owner = os.getpid()
        _sweep()
        packages = _numpy()
        slots = [_Slot(seed, packages) for _ in range(self.workers)]
        self._free: queue.LifoQueue[_Slot] = queue.LifoQueue()
        for slot in slots:
            self._free.put(slot)
        self._end = weakref.finalize(self, _close, slots, self._free, self._owner)
        try:
            self.layers: dict[str, str] = slots[-1].start(full_isolation=isolation == "full")
            isolated = not self.layers["processes"].startswith("none")
            for slot in slots:  # what the first worker has, all later ones must have
                slot.full_isolation = isolated
        except BaseException:
            self.close()
            raise

    def ask(self, *request: Any) -> Any:
        """Have one request answered by a free worker, waiting for one if need be. For any number of threads.

        Raises SandboxError if the sandbox failed, and what the request's own fault is (ValueError, TypeError).
        """
        if os.getpid() != self._owner:
            raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
        if not self._end.alive:
            raise SandboxError("this Sandbox is closed")
        slot = self._free.get()
        try:
            answer = slot.ask(request)
        finally:
            self._free.put(slot)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self._end()


class _WorkerLost(Exception):
    """A worker ended while it started."""


class _Slot:
    """A place for one worker process, which may have to be replaced."""

    def __init__(self, seed: int | None, numpy: dict[str, str]) -> None:
        self.full_isolation = True
        self._stopped = False
        self._asked = (seed, numpy)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._words = -1  # what the worker says on stderr should it fail

    def start(self, *, full_isolation: bool) -> dict[str, str]:
        """Start the worker; returns what isolates its runs, layer by layer. Raises BackendUnavailable."""
        for _ in range(_ATTEMPTS):
            self._check_open()
            try:
                return self._start(full_isolation)
            except _WorkerLost as error:
                words = str(error)
        raise BackendUnavailable(f"{_ATTEMPTS} sandbox workers ended while they started: {words}")

    def _start(self, full_isolation: bool) -> dict[str, str]:
        self._channel, theirs = socket.socketpair()
        self._words = os.memfd_create("worker")
        project = str(Path(__file__).parents[2])
        start = (
            f"import sys; sys.path.insert(0, {project!r}); from sandbox.jail.worker import main;"
            f" main({theirs.fileno()}, {os.getpid()})"
        )
        self._process = subprocess.Popen(
            # The interpreter itself: a version manager's shim or a venv's .pth files cost more than a hundred runs.
            [_interpreter(), "-S", "-s", "-P", "-B", "-X", "utf8", "-c", start],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,  # a Ctrl-C or a killed process group is not for it: it goes when we go
        )
        theirs.close()
        try:
            wire.send(self._channel, Configuration(full_isolation, *self._asked))
            layers = wire.receive(self._channel)
        except (EOFError, ConnectionError) as error:
            words = self._last_words()
            self.end()
            raise _WorkerLost(words or "killed") from error
        except BaseException:
            self.end()
            raise
        if isinstance(layers, Exception):
            self.end()
            raise layers
        started: dict[str, str] = layers
        return started

    def ask(self, request: tuple[Any, ...]) -> Any:
        words = ""
        for _ in range(_ATTEMPTS):
            if self._channel is None:
                self.start(full_isolation=self.full_isolation)
            assert self._channel is not None
            try:
                self._check_open()
                wire.send(self._channel, request)
                return wire.receive(self._channel)
            except (EOFError, ConnectionError):
                words = self._last_words()
                self.end()
            except BaseException:  # interrupted: an answer may still come, and would answer the next question
                self.end()
                raise
        raise ExecutionLost(f"{_ATTEMPTS} sandbox workers died of the same request: {words or 'killed'}")

    def _last_words(self) -> str:
        return os.pread(self._words, 1 << 16, 0).decode("utf-8", "replace").strip()[-500:]

    def stop(self) -> None:
        """Make the worker give up what it does and end. May be called while another thread waits for its answer."""
        self._stopped = True
        self._hang_up()

    def _check_open(self) -> None:
        if self._stopped:
            raise SandboxError("this Sandbox is closed")

    def _hang_up(self) -> None:
        if self._channel is not None:
            # Not a plain close: it would tell the worker nothing if another process has inherited the socket.
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the worker and remove what it might have left."""
        self._hang_up()
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            try:
                self._process.wait(_GOODBYE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.returncode != 0:
                _sweep()
        if self._words >= 0:
            os.close(self._words)
        self._process = self._channel = None
        self._words = -1


def _sweep() -> None:
    """Remove what workers have left that were killed together with the process they worked for."""
    cgroups.sweep()
    leftovers.sweep_directories()


def _close(slots: "list[_Slot]", free: "queue.LifoQueue[_Slot]", owner: int) -> None:
    """End all workers. Those that are at work give up, and the threads that wait for them get a SandboxError."""
    if os.getpid() != owner:
        return  # a fork of the owner that ends: the workers are not its
    for slot in slots:
        slot.stop()
    idle: list[_Slot] = []
    while len(idle) < len(slots):
        try:
            idle.append(free.get(timeout=_GOODBYE_SECONDS))
        except queue.Empty:
            break
        idle[-1].end()
    for slot in idle:
        free.put(slot)  # for threads that still wait for one: they are told


def _interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _numpy() -> dict[str, str]:
    """The directories of this environment's numpy, which programs may import; none if it is not installed."""
    found = importlib.util.find_spec("numpy")
    if found is None or found.origin is None:
        return {}
    package = Path(found.origin).parent
    parts = {"numpy": package, "numpy.libs": package.parent / "numpy.libs"}
    return {name: str(path) for name, path in parts.items() if path.is_dir()}
