"""The docker backend: a pool of warm containers of a local or remote engine, with one worker each.

A container runs many programs. Its worker (sandbox/judging/worker.py) confines the programs, and _container.py confines
the worker. The backend attaches to the container's standard streams, and mounts nothing of the engine's machine. When
the caller exits, even by SIGKILL, the container reads EOF and exits, and the engine removes it. The next Backend sweeps
containers that the engine failed to remove.
"""

import contextlib
import shlex
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from sandbox import image as images
from sandbox.backends._container import MAX_PROCESSES, make_host_config
from sandbox.backends._dispatch import LaneLost
from sandbox.backends._workers import ThreadLane, WorkerBackend
from sandbox.errors import BackendUnavailable
from sandbox.extras import format_install_command
from sandbox.jail.packages import JailPackages
from sandbox.jail.worker_config import WorkerConfig
from sandbox.judging.channel import Channel
from sandbox.judging.worker import HEARTBEAT
from sandbox.kernel import stale_resources
from sandbox.packages import InstalledPackage, Package, check_available, parse_installed, to_jail_packages
from sandbox.request import Request, Response

try:
    import docker
    import requests
except ImportError as error:
    raise BackendUnavailable(f"the docker backend: {error}; type: {format_install_command('docker')}") from error

OWNER_LABEL, MACHINE_LABEL = "curate-sandbox.owner", "curate-sandbox.machine"
_START_SECONDS = 60
_ORPHAN_SECONDS = 3600  # age at which a container that is not running counts as stale
# Memory of a container in excess of the program's: for the worker, zygotes, a referee or compiler, and the memory that
# the program's limit does not count.
_OVERHEAD_MB = 2560
_MAX_COPIES = 6  # maximum number of copies of a request's data in memory
_HEADER = struct.Struct(">BxxxL")  # header of a chunk of output: stream, number of bytes
_STDERR = 2
_MAX_STDERR_BYTES = 2000


def find_packages(requirements: Sequence[str], folder: str, image: str = images.TAG) -> tuple[Package, ...]:
    """Return the packages of an image. Raises BackendUnavailable if it lacks a requested one."""
    with contextlib.closing(_Engine(image, _START_SECONDS)) as engine:
        return tuple(each.package for each in engine.find_packages(requirements))


class Backend(WorkerBackend):
    """Runs programs in containers of the engine at DOCKER_HOST, by default this machine's.

    workers          number of containers; by default one per processor of the engine's machine
    image            name of their image; `make sandbox-image` builds it
    packages         packages that the image must have, see Sandbox; if not empty, programs can import all packages of
                     the image
    modules          see Sandbox
    silence_seconds  time without output after which the engine or a container counts as hung

    Raises BackendUnavailable if there is no engine or no image, or if containers cannot isolate as requested.
    """

    def __init__(
        self,
        *,
        workers: int | None,
        isolation: str,
        seed: int | None,
        image: str = images.TAG,
        silence_seconds: float = 60,
        packages: Sequence[str] = (),
        packages_from: str = "",
        modules: Mapping[str, str] | None = None,
    ) -> None:
        if packages_from:
            raise ValueError(
                "the docker backend uses packages of the image; type: make sandbox-image PACKAGES=..., and leave out"
                " packages_from"
            )
        try:
            self._engine = _Engine(image, silence_seconds)
            self._engine.sweep()
        except LaneLost as error:
            raise BackendUnavailable(str(error)) from error
        installed = self._engine.find_packages(packages)
        self.packages = tuple(each.package for each in installed)
        start = partial(_ContainerLane, self._engine, seed, to_jail_packages(installed, images.NUMPY, modules))
        number = workers or self._engine.processors
        super().__init__(start, workers=number, isolation=isolation, memory_mb=self._engine.memory_mb)

    def close(self) -> None:
        super().close()
        self._engine.close()


def _build_command(image: str, packages: Sequence[str] = ()) -> str:
    """Return the command that builds an image with these packages."""
    name = f" IMAGE={image}" if image != images.TAG else ""
    return "make sandbox-image" + name + (f" PACKAGES={shlex.quote(' '.join(packages))}" if packages else "")


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert errors of the Docker client: to LaneLost if the engine rejects a request, else to BackendUnavailable."""
    try:
        yield
    except docker.errors.APIError as error:
        raise LaneLost(f"the Docker engine rejected a request: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise BackendUnavailable(
            f"no Docker engine responds: {error}. Start one (as root: dockerd; on Debian and Ubuntu it is in the"
            " package docker.io) or set DOCKER_HOST to the address of one. Only root and the group docker may use its"
            " socket"
        ) from error


class _Engine:
    """A client of the engine. Methods raise as `_translate_errors` does."""

    def __init__(self, image: str, silence_seconds: float) -> None:
        self.silence_seconds = silence_seconds
        self._owner = stale_resources.make_owner_tag()
        self._machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        with _translate_errors():
            connection = docker.utils.kwargs_from_env()
            self._api = docker.APIClient(version="auto", timeout=silence_seconds, **connection)
            info = self._api.info()
        self._image = self._find_image(image)
        self.processors: int = info["NCPU"]
        self.memory_mb: int = info["MemTotal"] >> 20
        self._apparmor = any(option.startswith("name=apparmor") for option in info.get("SecurityOptions") or [])

    def _find_image(self, image: str) -> str:
        """Return the image's id, which a new build under the same name does not change. Raises BackendUnavailable."""
        with _translate_errors():
            try:
                inspected = self._api.inspect_image(image)
            except docker.errors.ImageNotFound as error:
                raise BackendUnavailable(
                    f"the Docker engine has no image {image}; type: {_build_command(image)}"
                ) from error
        labels = inspected["Config"].get("Labels") or {}
        self._installed: str = labels.get(images.PACKAGES_LABEL) or "[]"
        if labels.get(images.LABEL) != images.compute_fingerprint():
            requested = [each.package.name for each in parse_installed(self._installed, "", ())]
            raise BackendUnavailable(
                f"image {image} has another version of the sandbox; type: {_build_command(image, requested)}"
            )
        self._image_name = image
        identity: str = inspected["Id"]
        return identity

    def find_packages(self, requirements: Sequence[str]) -> tuple[InstalledPackage, ...]:
        """Return all packages of the image, or () without requirements.

        Raises BackendUnavailable if the image lacks a requested package.
        """
        if not requirements:
            return ()
        installed = parse_installed(self._installed, images.INSTALLED, requirements)
        versions = {each.package.name: each.package.version for each in installed}
        remedy = f"Type: {_build_command(self._image_name, requirements)}"
        check_available(requirements, versions, f"the image {self._image_name}", remedy)
        return installed

    def create(self, memory_mb: int) -> str:
        """Create a container and return its id."""
        with _translate_errors():
            container = self._api.create_container(
                self._image,
                stdin_open=True,
                stop_signal="SIGKILL",  # PID 1 ignores SIGTERM, which would delay the engine's shutdown
                host_config=make_host_config(memory_mb, apparmor=self._apparmor),
                labels={OWNER_LABEL: self._owner, MACHINE_LABEL: self._machine},
                environment={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                user=images.USER,
            )
        identity: str = container["Id"]
        return identity

    def attach(self, container: str) -> Any:
        """Connect to a container's standard streams."""
        with _translate_errors():
            return self._api.attach_socket(container, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})

    def start(self, container: str) -> None:
        with _translate_errors():
            self._api.start(container)

    def resize(self, container: str, memory_mb: int) -> None:
        with _translate_errors():
            self._api.update_container(container, mem_limit=memory_mb << 20, memswap_limit=memory_mb << 20)

    def remove(self, container: str) -> None:
        """Kill and remove a container. A stopped engine removes it on its next start."""
        with contextlib.suppress(LaneLost, BackendUnavailable), _translate_errors():
            try:
                self._api.remove_container(container, force=True, v=True)
            except docker.errors.NotFound:
                return
            except docker.errors.APIError:  # removal is already in progress
                self._api.wait(container, timeout=self.silence_seconds, condition="removed")

    def sweep(self) -> None:
        """Remove the containers of owners that have exited, and old containers that are not running."""
        with _translate_errors():
            containers = self._api.containers(all=True, filters={"label": OWNER_LABEL})
        for container in containers:
            labels = container["Labels"]
            is_stale = labels.get(MACHINE_LABEL) == self._machine and stale_resources.is_stale(labels[OWNER_LABEL])
            is_idle = container["State"] in ("created", "exited", "dead")
            if is_stale or (is_idle and container["Created"] < time() - _ORPHAN_SECONDS):
                self.remove(container["Id"])

    def close(self) -> None:
        self._api.close()


class _ContainerLane(Channel, ThreadLane):
    """The connection to a new container with a worker.

    packages                packages for programs
    level, fallback_reason  see WorkerConfig

    Raises LaneLost if the container exits during its start, and BackendUnavailable if it cannot isolate programs or no
    engine responds.
    """

    def __init__(
        self, engine: _Engine, seed: int | None, packages: JailPackages, level: str, fallback_reason: str
    ) -> None:
        Channel.__init__(self, -1, -1)
        ThreadLane.__init__(self)
        self._engine = engine
        self._stderr = b""
        self._remaining_bytes = 0  # unread bytes of the current chunk of stdout
        self._memory_mb = _OVERHEAD_MB
        self._stream: Any = None
        self._container = engine.create(self._memory_mb)
        try:
            self._stream = engine.attach(self._container)
            self._socket: socket.socket = getattr(self._stream, "_sock", self._stream)
            self._socket.settimeout(_START_SECONDS)
            engine.start(self._container)
            self.send_request(WorkerConfig(level, seed, packages, fallback_reason=fallback_reason, has_own_cgroup=True))
            layers = self.receive_layers()
            if isinstance(layers, Exception):
                raise layers
            self._socket.settimeout(engine.silence_seconds)
        except (EOFError, OSError) as error:
            raise LaneLost(self.join(str(error))) from error
        except BaseException as error:
            self.join(str(error))
            raise
        self.layers: dict[str, str] = {
            "container": "unprivileged user, no capabilities, no network, read-only root, limits on all resources",
            **layers,
        }

    def execute(self, request: Request[Response]) -> Response | Exception:
        needed_mb = _compute_memory_mb(request)
        if needed_mb > self._memory_mb:
            self._engine.resize(self._container, needed_mb)
            self._memory_mb = needed_mb
        self.send_request(request)
        return self.receive_response(request)

    def write(self, data: memoryview) -> int:
        return self._socket.send(data)

    def read(self, max_bytes: int) -> bytes:
        while not self._remaining_bytes:
            stream, length = _HEADER.unpack(self._read_exactly(_HEADER.size))
            if stream == _STDERR:
                self._stderr = (self._stderr + self._read_exactly(length).replace(HEARTBEAT, b""))[-_MAX_STDERR_BYTES:]
            else:
                self._remaining_bytes = length
        data = self._receive_some(min(max_bytes, self._remaining_bytes))
        self._remaining_bytes -= len(data)
        return data

    def _read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += self._receive_some(count - len(data))
        return data

    def _receive_some(self, count: int) -> bytes:
        try:
            data = self._socket.recv(count)
        except TimeoutError:
            raise TimeoutError(f"no output from the container for {self._socket.gettimeout():g} s") from None
        if not data:
            raise EOFError("the container has exited")
        return data

    def abort(self) -> None:
        with contextlib.suppress(OSError):  # the container may have exited already
            self._socket.shutdown(socket.SHUT_RDWR)

    def join(self, reason: str) -> str:
        super().join(reason)
        if self._stream is not None:
            self.abort()
            self._socket.close()
            self._stream.close()
        self._engine.remove(self._container)
        return self._stderr.decode("utf-8", "replace").strip()[-500:] or reason


def _compute_memory_mb(request: Request[object]) -> int:
    """Return the container memory for a request, in MB. Raises ValueError for too many processes."""
    limits = request.run_limits
    if limits.processes > MAX_PROCESSES // 2:
        raise ValueError(
            f"Limits.processes must be at most {MAX_PROCESSES // 2} in a container, not {limits.processes}"
        )
    return limits.memory_mb + _OVERHEAD_MB + (_MAX_COPIES * request.n_data_bytes >> 20)
