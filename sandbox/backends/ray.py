"""A Ray cluster: on each node one actor with that node's own workers (_supervisor.py); _cluster.py hands out the work.

The actors claim no processors from Ray, since its tasks, such as a trainer's, may hold all of them as long as they
live. A node that offers Ray no processors, as the head of a large cluster often does, is not used. Actors, their
workers and the programs that these run end with the process that started them, however it ends.
"""

import logging
import math
import os
import queue
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import sandbox
from sandbox.backends._cluster import ClusterLost, ClusterScheduler, NodeInfo
from sandbox.backends._supervisor import NodeSupervisor, code_fingerprint
from sandbox.concurrency.cancellation import CancelToken
from sandbox.errors import BackendUnavailable, Cancelled, SandboxError
from sandbox.extras import install_command
from sandbox.packages import Package, find
from sandbox.request import Answer, Request

_SILENCER = "RAY_DEDUP_LOGS_SKIP_REGEX"  # is read when Ray is imported
# Ray prints each death, with pages of its log, to the stdout of every connected process. We report it in one line.
_CHATTER = "Raylet is terminated|has been marked dead|A worker died or was killed"
try:
    if "ray" not in sys.modules and _SILENCER not in os.environ:
        os.environ[_SILENCER] = _CHATTER
        import ray

        del os.environ[_SILENCER]
    import ray
    from ray.exceptions import RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise BackendUnavailable(f"the ray backend: {error}; type: {install_command('ray')}") from error

_CONNECT_SECONDS = 30
_CALLS = 5  # calls that one supervisor may have open: exchanges, its start and its end
# Otherwise Ray would kill the workers before the actor ends, and they could not remove their cgroups.
_ENVIRONMENT = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "0"}}


def find_packages(words: Sequence[str], folder: str, address: str = "auto") -> tuple[Package, ...]:
    """Return the packages that this process finds, which the nodes must have as well. Raises BackendUnavailable."""
    return tuple(each.package for each in find(words, folder))


class Backend:
    """Runs programs on the nodes of a Ray cluster.

    workers        number of workers on each node; by default one for each processor that the node offers to Ray
    packages       see Sandbox. The same ones must be installed here and on every node; a node that has others is left
                   out
    packages_from  folder that they are installed in, here and on every node
    address        address of the head node, "host:port"; "auto": what RAY_ADDRESS says, or the cluster that this
                   machine is in. A process that is connected to Ray already, such as a trainer, keeps its connection
                   and uses that

    Raises BackendUnavailable if there is no cluster, or if none of its nodes can isolate as asked.
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
        self._owner = os.getpid()
        self.packages = tuple(each.package for each in find(packages, packages_from))
        start = code_fingerprint(), workers, isolation, seed, tuple(packages), packages_from, self.packages
        self._dispatcher = ClusterScheduler(_Ray(address, start))
        weakref.finalize(self, self._dispatcher.stop).atexit = False
        try:
            self._dispatcher.wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        """The number of programs that run at once, on all nodes that the cluster has now."""
        return self._dispatcher.workers

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run, on all nodes; see Backend.layers."""
        return self._dispatcher.layers()

    def execute(self, request: Request[Answer], cancellation: CancelToken | None = None) -> Answer:
        """See Backend.ask. If a node has begun the request when the caller cancels, the node still finishes it."""
        future = self._submit(request)
        try:
            if cancellation is None:
                return future.result()
            with cancellation.on_cancel(future.cancel):
                return future.result()
        except CancelledError:
            raise Cancelled("the request was cancelled") from None
        finally:
            future.cancel()

    def execute_many(self, requests: Iterable[Request[Answer]]) -> Iterator[tuple[int, Answer | Exception]]:
        """See Backend.execute_many. Raises ClusterLost, since no further request could be answered then."""
        finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        open: dict[int, Future[Answer]] = {}

        def next_answer() -> tuple[int, Answer | Exception]:
            index = finished.get()
            future = open.pop(index)
            error = future.exception()
            if error is None:
                return index, future.result()
            if isinstance(error, ClusterLost) or not isinstance(error, Exception):
                raise error
            return index, error

        try:
            for index, request in enumerate(requests):
                open[index] = self._submit(request)
                open[index].add_done_callback(lambda _, index=index: finished.put(index))  # type: ignore[misc]
                while len(open) >= self._dispatcher.max_in_flight or not finished.empty():
                    yield next_answer()
            while open:
                yield next_answer()
        finally:
            for future in open.values():
                future.cancel()

    def close(self) -> None:
        """End the workers of all nodes; see Backend.close."""
        self._dispatcher.close()

    def _submit(self, request: Request[Answer]) -> "Future[Answer]":
        if os.getpid() != self._owner:
            raise SandboxError("this Sandbox belongs to the process that made it; make one in each process")
        return self._dispatcher.submit(request)


class _Ray:
    """A Ray cluster as _cluster.py needs it. Raises BackendUnavailable if there is none."""

    _lock = threading.Lock()
    _sharing: list["_Ray"] = []  # those that share a connection of ours; the last one ends it

    def __init__(self, address: str, start: tuple[Any, ...]) -> None:
        self._start = start  # the arguments of SupervisorHandle.start, except the last
        self.name = f"the Ray cluster at {address}"
        with self._lock:
            if self._sharing and self._sharing[0].name != self.name:
                raise BackendUnavailable(
                    f"this process is connected to {self._sharing[0].name}; close that Sandbox first"
                )
            if self._sharing or not ray.is_initialized():
                if not self._sharing:
                    connect(address)
                self._sharing.append(self)
            else:
                self.name = "the Ray cluster of this process"

    def nodes(self) -> dict[str, NodeInfo]:
        _check_connected()
        return {
            node["NodeID"]: NodeInfo(node["NodeManagerAddress"], math.ceil(node["Resources"]["CPU"]))
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"] and node["Resources"].get("CPU")
        }

    def start_supervisor(self, id: str, place: NodeInfo) -> "_Actor":
        _check_connected()
        options: dict[str, Any] = {
            "num_cpus": 0,
            "max_concurrency": _CALLS,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(id, soft=False),
            "runtime_env": _ENVIRONMENT,
        }
        actor: Any = ray.remote(NodeSupervisor).options(**options).remote()
        return _Actor(actor, actor.start.remote(*self._start, place.cpu_count))

    def disconnect(self) -> None:
        with self._lock:
            if self in self._sharing:
                self._sharing.remove(self)
                if not self._sharing:
                    ray.shutdown()


class _Actor:
    """The actor of a supervisor on its node; see _cluster.SupervisorHandle."""

    def __init__(self, actor: Any, started: Any) -> None:
        self._actor = actor
        self.ready_future: Future[tuple[int, dict[str, str]]] = _future(started)

    def exchange(self, message: bytes, give_back: int) -> "Future[bytes]":
        _check_connected()
        return _future(self._actor.exchange.remote(message, give_back))

    def close(self) -> "Future[None]":
        _check_connected()
        return _future(self._actor.close.remote())

    def kill(self) -> None:
        _check_connected()
        ray.kill(self._actor)


def _check_connected() -> None:
    """Raise ConnectionError without a connection: Ray would connect by itself, or start a cluster of its own."""
    if not ray.is_initialized():
        raise ConnectionError("somebody shut down the connection to Ray")


def _future(reference: Any) -> "Future[Any]":
    """Return a Python future of what a call returns or raises."""
    outcome: Future[Any] = Future()

    def done(future: "Future[Any]") -> None:
        error = future.exception()
        if error is None:
            outcome.set_result(future.result())
        else:
            outcome.set_exception(_plain(error))

    reference.future().add_done_callback(done)
    return outcome


def _plain(error: BaseException) -> Exception:
    """Return what a call raised on its node or, if Ray itself failed, an error in our own words."""
    if isinstance(error, RayTaskError):
        return cast(Exception, error.cause)
    # Of the many lines of Ray's own errors, those that begin with a tab are for a log.
    words = " ".join(line for line in str(error).splitlines() if line and not line.startswith("\t"))
    if "failed to import" in words:
        return BackendUnavailable("it cannot import this sandbox; install the same curate-code everywhere")
    return ConnectionError(words[:200])


def connect(address: str, *packages: ModuleType) -> None:
    """Connect to a cluster, whose nodes get these packages and ours.

    Raises BackendUnavailable soon; Ray itself would go on looking for many minutes.
    """
    host, _, port = (os.environ.get("RAY_ADDRESS") or address if address == "auto" else address).rpartition(":")
    outcome: Future[None] = Future()

    def initialize() -> None:
        # nodes need not have them, and all have the same
        folders = [str(Path(package.__file__ or "").parent) for package in (sandbox, *packages)]
        failure: BaseException | None = None
        try:
            # Without a working_dir, Ray would put this process's working folder first on the path of its workers, and a
            # sandbox.py of the user would hide ours there.
            with tempfile.TemporaryDirectory() as empty:
                environment = {"py_modules": folders, "working_dir": empty}
                ray.init(address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except BaseException as error:
            failure = error
        if not outcome.set_running_or_notify_cancel():
            ray.shutdown()  # it took too long: nobody waits any more
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
        reason = cause[-1] if cause else f"no answer in {_CONNECT_SECONDS} s"
        raise BackendUnavailable(
            f"cannot connect to a Ray cluster at {address}: {reason}."
            ' Start one with "ray start --head", or give the address of its head node, such as head:6379'
        ) from error
    finally:
        outcome.cancel()
