"""The local backend: a pool of worker processes, started on demand.

When the caller's process exits, its workers remove all their resources and exit.
"""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sandbox import machine
from sandbox.backends._dispatch import SHUTDOWN_SECONDS, Job, LaneLost
from sandbox.backends._workers import ResponseReader, SocketLane, WorkerBackend
from sandbox.errors import CannotIsolate
from sandbox.jail import image, isolation_diagnosis
from sandbox.jail.packages import JailPackages
from sandbox.jail.worker_config import LANDLOCK, NAMESPACES, NEWEST_ABI, WorkerConfig
from sandbox.kernel import delegation, stale_resources
from sandbox.packages import Package, find, to_jail_packages

_IMAGE_SECONDS = 120


def find_packages(requirements: Sequence[str], folder: str) -> tuple[Package, ...]:
    """Return the packages for programs. Raises BackendUnavailable if one is missing."""
    return tuple(each.package for each in find(requirements, folder))


class Backend(WorkerBackend):
    """Runs programs in worker processes of this machine.

    workers      number of worker processes; by default one per processor available to this process
    packages, packages_from, modules  see Sandbox
    levels       the levels of isolation to try, for tests; empty for those of `isolation`
    abi          the highest Landlock version to use, for tests

    Raises BackendUnavailable if this machine cannot isolate as requested, or lacks a package.
    """

    def __init__(
        self,
        *,
        workers: int | None,
        isolation: str,
        seed: int | None,
        packages: Sequence[str] = (),
        packages_from: str = "",
        modules: Mapping[str, str] | None = None,
        levels: Sequence[str] = (),
        abi: int = NEWEST_ABI,
    ) -> None:
        self._owner = os.getpid()
        installed = find(packages, packages_from)
        self.packages = tuple(each.package for each in installed)
        jail_packages = to_jail_packages(installed, _find_numpy(), modules)
        _sweep()
        self._shared = stale_resources.make_run_directory()
        self._remove_shared = weakref.finalize(self, _remove, self._shared, os.getpid())
        self._image = _Image(jail_packages)
        reader = ResponseReader()
        self._end_reader = weakref.finalize(self, reader.close)
        failure = delegation.explain_scope_failure()
        start = partial(_ProcessLane, reader, seed, jail_packages, self._shared, self._image, abi, failure)
        number = workers or machine.count_cpus()
        memory_mb = machine.get_available_memory_mb()
        super().__init__(start, workers=number, isolation=isolation, memory_mb=memory_mb, levels=levels)
        # At exit, finalizers run in reverse order: this one removes the directory before the workers exit.
        weakref.finalize(self, _remove, self._shared, os.getpid())

    def close(self) -> None:
        # Removed before the workers exit. If the caller is killed, the workers remove it.
        _remove(self._shared, self._owner)
        super().close()
        self._end_reader()
        self._remove_shared()
        self._image.close()


class _Image:
    """The image of all workers (sandbox/jail/image.py), created on first use: in namespaces, or a copy in a folder."""

    def __init__(self, packages: JailPackages) -> None:
        self._packages = packages
        self._lock = threading.Lock()
        self._namespaces: list[int] = []
        self._copy = ""
        self._close = weakref.finalize(self, _close_all, self._namespaces)  # the image exists while they are open

    def open_namespaces(self) -> tuple[int, ...]:
        """Return descriptors of the image's namespaces. Raises CannotIsolate."""
        with self._lock:
            if not self._namespaces:
                self._namespaces += self._make(NAMESPACES)
            return tuple(self._namespaces)

    def make_copy(self) -> str:
        """Return the folder of the copy. Raises CannotIsolate."""
        with self._lock:
            if not self._copy:
                folder = stale_resources.make_run_directory()
                self._remove = weakref.finalize(self, _remove, folder, os.getpid())
                if os.statvfs(folder).f_flag & os.ST_NOEXEC:
                    remedy = "type: export TMPDIR=FOLDER, with a folder that is not mounted noexec"
                    raise CannotIsolate(f"{tempfile.gettempdir()} is mounted noexec; {remedy}")
                self._make(LANDLOCK, folder)
                self._copy = folder
            return self._copy

    def _make(self, level: str, folder: str = "") -> list[int]:
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with channel:
            with theirs:
                arguments = f"{theirs.fileno()}, {folder!r}"
                maker = _start_process("jail.image", arguments, [theirs.fileno()], subprocess.DEVNULL)
            try:
                channel.settimeout(_IMAGE_SECONDS)
                channel.send(json.dumps(asdict(self._packages)).encode())
                response, descriptors, _, _ = socket.recv_fds(channel, 1 << 16, 2)
            except OSError as error:
                response, descriptors = str(error).encode(), []
            finally:
                maker.kill()
                maker.wait()
        if response != image.IMAGE_READY:
            raise CannotIsolate(isolation_diagnosis.explain_missing_level(level, response.decode() or "killed"))
        return descriptors

    def close(self) -> None:
        self._close()
        if self._copy:
            self._remove()


class _ProcessLane(SocketLane):
    """The connection to a new worker process.

    reader    reads its responses
    image     the file system of programs
    abi       WorkerConfig.max_landlock_abi
    seed, packages, shared, scope_failure, level, fallback_reason  see WorkerConfig

    Raises LaneLost if the worker exits during its start, and BackendUnavailable if it cannot isolate programs.
    """

    def __init__(
        self,
        reader: ResponseReader,
        seed: int | None,
        packages: JailPackages,
        shared: str,
        image: _Image,
        abi: int,
        scope_failure: str,
        level: str,
        fallback_reason: str,
    ) -> None:
        scope: list[str] = []
        if not scope_failure:
            try:
                scope = delegation.make_scope_command()
            except OSError as error:  # for example, systemd has ended the user's session
                scope_failure = str(error)
        namespaces = image.open_namespaces() if level == NAMESPACES else ()
        copy = image.make_copy() if level != NAMESPACES else ""
        self._stderr_fd = os.memfd_create("worker")
        ours, theirs = socket.socketpair()
        super().__init__(ours, reader)
        try:
            with theirs:
                arguments = f"{theirs.fileno()}, {os.getpid()}"
                self._process = _start_process(
                    "judging.worker", arguments, [theirs.fileno(), *namespaces], self._stderr_fd, scope
                )
        except BaseException:
            ours.close()
            os.close(self._stderr_fd)
            raise
        try:
            configuration = WorkerConfig(
                level,
                seed,
                packages,
                image_fds=namespaces,
                image_copy=copy,
                max_landlock_abi=abi,
                fallback_reason=fallback_reason,
                scope_failure=scope_failure,
                shared=shared,
            )
            self.send_request(configuration)
            layers = self.receive_layers()
            if isinstance(layers, Exception):
                raise layers
            self.layers = layers
        except (EOFError, ConnectionError) as error:
            raise LaneLost(self.join(str(error))) from error
        except BaseException as error:
            self.join(str(error))
            raise

    def send(self, jobs: Sequence[Job]) -> None:
        if self._process.poll() is not None:  # its child, the judge, may still hold the socket open
            raise LaneLost("it exited while it was idle")
        super().send(jobs)

    def join(self, reason: str) -> str:
        super().join(reason)
        try:
            self._process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        else:
            reason = "killed" if self._process.returncode == -signal.SIGKILL else reason
        if self._process.returncode != 0:
            _sweep()
        stderr = os.pread(self._stderr_fd, 1 << 16, 0).decode("utf-8", "replace").strip()[-500:]
        os.close(self._stderr_fd)
        return stderr or reason


def _start_process(
    module: str, arguments: str, descriptors: list[int], stderr: int, scope: Sequence[str] = ()
) -> "subprocess.Popen[bytes]":
    """Start a process that calls main(arguments) of a module of the package sandbox.

    arguments     the arguments as Python code
    descriptors   descriptors that it inherits
    stderr        descriptor of its stderr
    scope         prefix of its command, for its own systemd scope; empty for none
    """
    project = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {project!r}); from sandbox.{module} import main; "
    code += f"sys.exit(main({arguments}))"
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": tempfile.gettempdir()}
    if scope:
        environment |= delegation.make_scope_environment()
    return subprocess.Popen(
        # The base interpreter without site: a version manager's shim, or .pth files in a venv, would add a delay longer
        # than a hundred runs.
        [*scope, _find_interpreter(), "-S", "-s", "-P", "-B", "-X", "utf8", "-c", code],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=environment,
        cwd="/",
        start_new_session=True,  # so that it gets no signals of the caller's process group, such as Ctrl-C
    )


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _sweep() -> None:
    """Remove stale cgroups and directories of workers that were killed with their caller."""
    delegation.sweep_cgroups()
    stale_resources.sweep_directories()


def _find_interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _find_numpy() -> dict[str, str]:
    """Return the directories of this environment's numpy: name -> path; empty if it is not installed."""
    spec = importlib.util.find_spec("numpy")
    if spec is None or spec.origin is None:
        return {}
    package = Path(spec.origin).parent
    parts = {"numpy": package, "numpy.libs": package.parent / "numpy.libs"}
    return {name: str(path) for name, path in parts.items() if path.is_dir()}
