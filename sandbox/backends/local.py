"""This machine: a pool of worker processes, started when first needed.

Workers notice when we are gone, however we went, and take everything they own with them.
"""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path

from sandbox.backends._pool import Pool, WorkerLost
from sandbox.jail import cgroups, leftovers
from sandbox.jail.runner import Configuration
from sandbox.jail.wire import Channel

_GOODBYE_SECONDS = 10


class Backend(Pool):
    """Raises BackendUnavailable where this machine cannot isolate as asked."""

    def __init__(self, *, workers: int | None, isolation: str, seed: int | None) -> None:
        _sweep()
        shared = leftovers.make_directory()
        self._remove_shared = weakref.finalize(self, _remove, shared, os.getpid())
        start = partial(_Worker, seed, _numpy(), shared)
        super().__init__(start, workers=workers or len(os.sched_getaffinity(0)), isolation=isolation)

    def close(self) -> None:
        super().close()
        self._remove_shared()


class _Worker(Channel):
    """A worker process. Raises WorkerLost if it ends while it starts, BackendUnavailable if it says it cannot."""

    def __init__(self, seed: int | None, numpy: dict[str, str], shared: str, full_isolation: bool) -> None:
        self._socket, theirs = socket.socketpair()
        super().__init__(self._socket.fileno(), self._socket.fileno())
        self._words = os.memfd_create("worker")  # what the worker says on stderr should it fail
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
            self.send(Configuration(full_isolation, seed, numpy, shared))
            layers = self.receive()
            if isinstance(layers, Exception):
                raise layers
        except (EOFError, ConnectionError) as error:
            words = self.last_words()
            self.end()
            raise WorkerLost(words or "killed") from error
        except BaseException:
            self.end()
            raise
        self.layers: dict[str, str] = layers

    def last_words(self) -> str:
        return os.pread(self._words, 1 << 16, 0).decode("utf-8", "replace").strip()[-500:]

    def hang_up(self) -> None:
        # Not a plain close: it would tell the worker nothing if another process has inherited the socket.
        self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it may have hung up itself
            self.hang_up()
        self._socket.close()
        try:
            self._process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode != 0:
            _sweep()
        os.close(self._words)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _sweep() -> None:
    """Remove what workers have left that were killed together with the process they worked for."""
    cgroups.sweep()
    leftovers.sweep_directories()


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
