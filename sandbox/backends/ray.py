"""The ray backend: on each node of a cluster, one actor supervises the node's workers (_supervisor.py, _cluster.py).

The actors reserve no processors in Ray, since long-lived tasks, such as a trainer's, may hold all of them. The backend
does not use nodes without processors for Ray, as the head of a large cluster often is. When the process that started
them exits, even by SIGKILL, actors, workers and programs exit, too.
"""

import contextlib
import logging
import math
import os
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import sandbox
from sandbox.backends._cluster import ClusterNodes, NodeLane
from sandbox.backends._dispatch import SHUTDOWN_SECONDS, QueuedBackend, RequestDispatcher
from sandbox.backends._supervisor import NodeSupervisor, compute_code_fingerprint
from sandbox.errors import BackendUnavailable
from sandbox.extras import format_install_command
from sandbox.packages import Package, find

_LOG_FILTER_VARIABLE = "RAY_DEDUP_LOGS_SKIP_REGEX"  # environment variable that Ray reads when it is imported
# For each lost process, Ray prints long log messages on the stdout of every connected process; curate logs one line.
_FILTERED_MESSAGES = "Raylet is terminated|has been marked dead|A worker died or was killed"
try:
    if "ray" not in sys.modules and _LOG_FILTER_VARIABLE not in os.environ:
        os.environ[_LOG_FILTER_VARIABLE] = _FILTERED_MESSAGES
        import ray

        del os.environ[_LOG_FILTER_VARIABLE]
    import ray
    from ray.exceptions import RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise BackendUnavailable(f"the ray backend: {error}; type: {format_install_command('ray')}") from error

_CONNECT_SECONDS = 30
_START_SECONDS = 60  # time within which the supervisor of a node must be ready
_MAX_CALLS = 5  # maximum number of concurrent calls of one supervisor: exchanges, its start, and its end
# By default, Ray kills the workers when their actor exits, before they have removed their cgroups.
_ENVIRONMENT = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "0"}}


def find_packages(requirements: Sequence[str], folder: str, address: str = "auto") -> tuple[Package, ...]:
    """Return the packages of this process, which the nodes must match. Raises BackendUnavailable."""
    return tuple(each.package for each in find(requirements, folder))


class Backend(QueuedBackend):
    """Runs programs on the nodes of a Ray cluster.

    workers        number of workers per node; by default one per processor that the node offers to Ray
    packages       see Sandbox. Nodes with other versions than this machine are not used
    packages_from  folder of the packages, with the same path on this machine and on every node
    address        address of the head node, "host:port"; "auto" for RAY_ADDRESS or, if it is not set, the cluster of
                   this machine. Ignored if this process is already connected to Ray, as in a trainer

    Raises BackendUnavailable if there is no cluster, or if none of its nodes can isolate as requested.
    """

    def __init__(
        self,
        *,
        workers: int | None,
        isolation: str,
        seed: int | None,
        packages: Sequence[str] = (),
        packages_from: str = "",
        address: str = "auto",
    ) -> None:
        super().__init__(RequestDispatcher())
        self.packages = tuple(each.package for each in find(packages, packages_from))
        options: dict[str, Any] = {"workers": workers, "isolation": isolation, "seed": seed}
        options |= {"packages": tuple(packages), "packages_from": packages_from}
        self._nodes = _RayNodes(address, (compute_code_fingerprint(), self.packages, options), self.dispatcher)
        weakref.finalize(self, self._nodes.stop).atexit = False
        try:
            self._nodes.wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def layers(self) -> dict[str, str]:
        return self._nodes.describe_layers()

    def close(self) -> None:
        self._nodes.close()


class _RayNodes(ClusterNodes):
    """The nodes of a Ray cluster. Raises BackendUnavailable if there is none."""

    _connecting = threading.Lock()
    _connection_users: list["_RayNodes"] = []  # users of the connection that the first one opened; the last closes it

    def __init__(self, address: str, start_arguments: tuple[Any, ...], dispatcher: RequestDispatcher) -> None:
        self._start_arguments = start_arguments  # all arguments of NodeSupervisor.start except `processors`
        self._processors: dict[str, int] = {}
        name = f"the Ray cluster at {address}"
        with self._connecting:
            if self._connection_users and self._connection_users[0].name != name:
                raise BackendUnavailable(
                    f"this process is connected to {self._connection_users[0].name}; close that Sandbox first"
                )
            if self._connection_users or not ray.is_initialized():
                if not self._connection_users:
                    connect(address)
                self._connection_users.append(self)
            else:
                name = "the Ray cluster of this process"
            super().__init__(name, dispatcher)

    def list_nodes(self) -> dict[str, str]:
        _check_connected()
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]  # type: ignore[no-untyped-call]
        self._processors = {node["NodeID"]: math.ceil(node["Resources"]["CPU"]) for node in nodes}
        return {node["NodeID"]: node["NodeManagerAddress"] for node in nodes}

    def start_node(self, id: str, name: str) -> "_ActorLane":
        _check_connected()
        options: dict[str, Any] = {
            "num_cpus": 0,
            "max_concurrency": _MAX_CALLS,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(id, soft=False),
            "runtime_env": _ENVIRONMENT,
        }
        actor = ray.remote(NodeSupervisor).options(**options).remote()
        try:
            about = _call(actor.start, *self._start_arguments, self._processors[id], seconds=_START_SECONDS)
        except TimeoutError:
            _kill(actor)
            raise TimeoutError(f"its supervisor was not ready after {_START_SECONDS} s") from None
        return _ActorLane(actor, id, name, *about)

    def disconnect(self) -> None:
        with self._connecting:
            if self in self._connection_users:
                self._connection_users.remove(self)
                if not self._connection_users:
                    ray.shutdown()


class _ActorLane(NodeLane):
    """The lane of a node whose supervisor is a Ray actor."""

    def __init__(self, actor: Any, *about: Any) -> None:
        super().__init__(*about)
        self._actor = actor

    def exchange(self, message: bytes, cancelled_numbers: Sequence[int]) -> bytes:
        responses: bytes = _call(self._actor.exchange, message, cancelled_numbers)
        return responses

    def end(self) -> None:
        with contextlib.suppress(Exception):  # the actor may have exited already
            _call(self._actor.close, seconds=SHUTDOWN_SECONDS)
        _kill(self._actor)


def _check_connected() -> None:
    """Raise ConnectionError if this process is not connected to Ray.

    Otherwise a call of Ray would implicitly connect, or start a new cluster.
    """
    if not ray.is_initialized():
        raise ConnectionError("the connection to Ray was shut down")


def _call(method: Any, *arguments: Any, seconds: float | None = None) -> Any:
    """Call a method of an actor; return its result or raise its exception. Raises TimeoutError."""
    _check_connected()
    future = method.remote(*arguments).future()  # not ray.get, which fails if another thread closes the connection
    try:
        return future.result(seconds)
    except TimeoutError:
        raise
    except Exception as error:
        raise _unwrap_error(error) from None


def _kill(actor: Any) -> None:
    with contextlib.suppress(Exception):  # the actor may have exited already
        _check_connected()
        ray.kill(actor)


def _unwrap_error(error: BaseException) -> Exception:
    """Return the exception that a remote call raised or, if Ray itself failed, its message without log output."""
    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    # In Ray's errors, lines that begin with a tab are log output.
    message = " ".join(line for line in str(error).splitlines() if line and not line.startswith("\t"))
    if "failed to import" in message:
        return BackendUnavailable("it cannot import this sandbox; install the same curate-code everywhere")
    return ConnectionError(message[:200])


def connect(address: str, *packages: ModuleType) -> None:
    """Connect to a cluster, and upload `sandbox` and these packages, so that all nodes have the same version.

    Raises BackendUnavailable if the connection fails, or takes more than 30 seconds; Ray would retry for many minutes.
    """
    host, _, port = (os.environ.get("RAY_ADDRESS") or address if address == "auto" else address).rpartition(":")
    outcome: Future[None] = Future()

    def initialize() -> None:
        folders = [str(Path(package.__file__ or "").parent) for package in (sandbox, *packages)]
        failure: BaseException | None = None
        try:
            # An empty working_dir, since Ray would otherwise put the current folder first on its workers' sys.path. A
            # user's sandbox.py there would shadow this package.
            with tempfile.TemporaryDirectory() as empty:
                environment = {"py_modules": folders, "working_dir": empty}
                ray.init(address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except BaseException as error:
            failure = error
        if not outcome.set_running_or_notify_cancel():
            ray.shutdown()  # connect() has timed out
        elif failure:
            outcome.set_exception(failure)
        else:
            outcome.set_result(None)

    try:
        if port.isdigit() and "/" not in host:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS / 3).close()
        threading.Thread(target=initialize, daemon=True, name="sandbox-ray-init").start()
        outcome.result(_CONNECT_SECONDS)
    except Exception as error:
        cause = [line for line in str(error.__cause__ or error).splitlines() if line.strip()]
        reason = cause[-1] if cause else f"no response in {_CONNECT_SECONDS} s"
        raise BackendUnavailable(
            f"cannot connect to a Ray cluster at {address}: {reason}."
            ' Start one with "ray start --head", or pass the address of its head node, such as head:6379'
        ) from error
    finally:
        outcome.cancel()
