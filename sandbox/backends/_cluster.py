"""Hands out requests to the supervisors of many nodes (see _supervisor.py), so that all are busy and nothing is lost.

    callers -> events -> dispatcher -> supervisor of a node -> worker

One thread, the dispatcher, owns everything that is known about nodes and requests; it learns from events what happens.
A second thread, the clerk, makes the calls that block if the cluster does not answer. The backend decides how to reach
its cluster.

A node is given about twice as many requests as it has workers: enough to keep it busy, and few to lose. When no more
requests are waiting, idle nodes get those that other nodes have not begun. The requests that a lost node had not
answered go to other nodes. Nodes that join the cluster later are used, too.
"""

import atexit
import contextlib
import itertools
import logging
import math
import os
import pickle
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent import futures
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from sandbox.backends._supervisor import pack, unpack
from sandbox.errors import BackendUnavailable, ExecutionLost, SandboxError
from sandbox.request import Answer, Request

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # attempts at a request whose node is lost, and at a node whose supervisor is lost
_START_SECONDS = 60  # time within which the supervisor of a node must be ready
_POLL_SECONDS = 2  # time between two looks at the list of nodes
_COOLDOWN_SECONDS = 60  # how long a node rests whose supervisors are lost one after another
_NO_NODE_SECONDS = 90  # time without any node after which requests are given up
_LIVENESS_SECONDS = 45  # silence of the cluster after which requests are given up; Ray ends this process after 60
_SHUTDOWN_SECONDS = 10
_FAILURES = 8  # SandboxErrors in a row until a node counts as lost: what fails at once would draw all work to itself
_MESSAGE_BYTES = 4 << 20  # size of the requests in one call; a single one may be larger
_QUEUED_BYTES = 64 << 20  # size of the requests waiting at a node whose workers are all busy
_EVENTS = 1000  # number of events handled at once
_CALLS = 2  # open calls to a supervisor: one that waits for answers, one that brings requests


class ClusterLost(SandboxError):
    """No request can be answered any more, or not soon."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node that can be used.

    name       for people
    cpu_count  number of processors that it offers
    """

    name: str
    cpu_count: int


class SupervisorHandle(Protocol):
    """The caller's side of a supervisor. If a future raises anything but BackendUnavailable, the supervisor is lost.

    ready_future  completes with the number of its workers and the layers that isolate their runs; see
                  _supervisor.NodeSupervisor.start
    """

    ready_future: "Future[tuple[int, dict[str, str]]]"

    def exchange(self, message: bytes, n_recalled: int) -> "Future[bytes]":
        """Deliver requests and bring back answers; see _supervisor.NodeSupervisor.exchange."""

    def close(self) -> "Future[None]":
        """End the supervisor's workers."""

    def kill(self) -> None:
        """End the supervisor at once. May block."""


class Cluster(Protocol):
    """A cluster, whose nodes come and go. All methods may block, and may raise any exception.

    name   for people
    """

    name: str

    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return the nodes that are alive: id -> place."""

    def start_supervisor(self, id: str, node: NodeInfo) -> SupervisorHandle:
        """Start a supervisor on a node and return the caller's side of it."""

    def disconnect(self) -> None:
        """Give up the connection to the cluster."""


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """A request that somebody waits for.

    lost_on   ids of the nodes that were lost while they had it, or that could not carry it out
    """

    request: Request[object]
    future: "Future[Any]" = field(default_factory=Future)
    lost_on: list[str] = field(default_factory=list)

    def answer(self, answer: Any) -> None:
        with contextlib.suppress(InvalidStateError):  # nobody waits any more
            if isinstance(answer, Exception):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)


@dataclass(eq=False, slots=True)
class _Node:
    """A node and what it has to do.

    workers    0 until its supervisor is ready
    open       the requests that it has: number -> the submission, and the bytes that this takes in a message
    bytes      sum of these bytes
    calls      open calls of its supervisor
    recalled   number of requests that it was asked to give back
    failures   SandboxErrors in a row that it answered
    gone       whether it is lost
    """

    id: str
    place: NodeInfo
    supervisor: SupervisorHandle | None = None
    workers: int = 0
    layers: dict[str, str] = field(default_factory=dict)
    starting_seconds: float = 0
    open: dict[int, tuple[_PendingRequest, int]] = field(default_factory=dict)
    bytes: int = 0
    calls: int = 0
    recalled: int = 0
    failures: int = 0
    gone: bool = False

    def room(self) -> int:
        """Return how many requests it should be given: none as long as it has enough, then several at once."""
        if not self.workers or self.calls >= _CALLS:
            return 0
        if len(self.open) >= self.workers and self.bytes >= _QUEUED_BYTES:
            return 0
        room = 2 * self.workers - len(self.open)
        return room if room >= max(1, self.workers // 2) else 0

    def load(self) -> float:
        """Return the number of its requests per worker."""
        return len(self.open) / self.workers


class ClusterScheduler:
    """Has the nodes of a cluster answer requests. Closing it also gives up the connection to the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.workers = 0  # on all nodes
        self._owner = os.getpid()
        self._cluster = cluster
        self._events: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._errands: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()  # None: the last
        self._waiting: deque[_PendingRequest] = deque()
        self._numbers = itertools.count()
        self._alive: Mapping[str, NodeInfo] | None = None  # None: we do not know yet
        self._nodes: dict[str, _Node] = {}
        self._losses: Counter[str] = Counter()  # of a node's supervisors since it last answered
        self._refused: dict[str, tuple[str, float]] = {}  # nodes that are not used: id -> reason, and until when
        self._looked = time.monotonic()
        self._silent_seconds = self._nobody_seconds = 0.0
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._over: SandboxError | None = None  # why nothing is done any more
        self._clerk = threading.Thread(target=self._run_background_calls, daemon=True, name="sandbox-clerk")
        self._thread = threading.Thread(target=self._run, daemon=True, name="sandbox-dispatcher")
        atexit.register(self.close)  # from now on, so that it comes before what the cluster's library does at exit
        self._clerk.start()
        self._thread.start()

    # For any thread.

    def wait_until_ready(self) -> None:
        """Wait until each node has started, or has failed to. Raises BackendUnavailable if none has started."""
        self._settled.wait()
        if self._over:
            raise BackendUnavailable(str(self._over))
        if not self.workers:
            reasons = self._reasons() or "none offers processors"
            raise BackendUnavailable(f"{self._cluster.name} has no node that can be used: {reasons}")

    @property
    def max_in_flight(self) -> int:
        """The number of requests that the nodes and the queue before them should hold."""
        return max(1, 3 * self.workers)

    def layers(self) -> dict[str, str]:
        """Return what isolates runs on all nodes, and how many nodes there are."""
        nodes = [node for node in list(self._nodes.values()) if node.workers]
        names = {name: None for node in nodes for name in node.layers}
        layers = {name: _common([(node.place.name, node.layers.get(name, "none")) for node in nodes]) for name in names}
        size = f"nodes: {len(nodes)}, workers: {sum(node.workers for node in nodes)}"
        reasons = self._reasons()
        return layers | {"cluster": f"{size}; left out: {reasons}" if reasons else size}

    def _reasons(self) -> str:
        return "; ".join(sorted({f"node {reason}" for reason, _ in list(self._refused.values())}))

    def submit(self, request: Request[Answer]) -> "Future[Answer]":
        """Queue a request; return a future of its answer, to be cancelled once nobody waits for it. Never raises."""
        submission = _PendingRequest(request)
        with self._lock:
            over = self._over
            if not over:
                self._events.put((self._submitted, (submission,)))
        if over:
            submission.answer(type(over)(*over.args))  # each thread raises its own
        return submission.future

    def stop(self, error: SandboxError | None = None) -> None:
        """Begin to end everything, and return at once. Open requests raise `error`."""
        with self._lock:
            self._over = self._over or error or SandboxError("this Sandbox is closed")
            self._events.put((bool, ()))  # nothing, to wake it up

    def close(self) -> None:
        """End everything, and wait until it has ended."""
        if os.getpid() != self._owner:
            return  # a fork of the owner that ends: the cluster does not belong to it
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(3 * _SHUTDOWN_SECONDS)

    # The dispatcher's thread.

    def _run(self) -> None:
        try:
            while not self._over:
                self._process_events()
                self._check_timeouts()
                self._dispatch()
                self._rebalance()
                self._open_polls()
        except Exception as error:
            log.exception("the dispatcher of a cluster failed")
            self.stop(ClusterLost(f"the dispatcher failed: {error!r}"))
        self._drain_events()
        self._waiting.extend(submission for node in self._nodes.values() for submission, _ in node.open.values())
        assert self._over is not None
        self._fail_waiting(self._over)
        self._settled.set()
        self._shut_down_nodes()
        atexit.unregister(self.close)

    def _process_events(self) -> None:
        """Handle the events that are there, waiting at most a second for the first one."""
        with contextlib.suppress(queue.Empty):
            for number in itertools.count():
                handle, arguments = self._events.get(timeout=0 if number else 1)
                handle(*arguments)
                if number >= _EVENTS:
                    break

    def _drain_events(self) -> None:
        """Take the requests out of the remaining events, which nobody will handle."""
        with contextlib.suppress(queue.Empty):
            while True:
                handle, arguments = self._events.get_nowait()
                if handle == self._submitted:
                    handle(*arguments)

    def _submitted(self, submission: _PendingRequest) -> None:
        self._waiting.append(submission)

    def _check_timeouts(self) -> None:
        now = time.monotonic()
        seconds = min(now - self._looked, 2)  # no more: this process may have been stopped and continued
        self._looked = now
        for node in [node for node in self._nodes.values() if not node.workers]:
            node.starting_seconds += seconds
            if node.starting_seconds > _START_SECONDS:
                self._drop_node(node, f"its supervisor was not ready after {_START_SECONDS} s")
        self._silent_seconds += seconds
        if self._silent_seconds > _LIVENESS_SECONDS:
            self.stop(
                ClusterLost(f"{self._cluster.name} has not answered for {_LIVENESS_SECONDS} s: is its head node gone?")
            )
        self._nobody_seconds = 0 if self.workers else self._nobody_seconds + seconds
        if self._nobody_seconds > _NO_NODE_SECONDS:
            reasons = self._reasons()
            why = f"{self._cluster.name} has no nodes left"
            self._fail_waiting(ClusterLost(f"{why}: {reasons}" if reasons else why))
        if not self._settled.is_set() and self._alive is not None:
            ready = self._ready()
            if all(id in ready or id in self._refused for id in self._alive):
                self._settled.set()

    def _seen(self, alive: Mapping[str, NodeInfo]) -> None:
        """Compare the nodes that we use with those that the cluster says are alive."""
        self._silent_seconds = 0
        self._alive = alive
        self._refused = {id: refusal for id, refusal in self._refused.items() if id in alive}
        for node in [node for id, node in self._nodes.items() if id not in alive]:
            self._drop_node(node, "it left the cluster")
        for id, place in alive.items():
            if id not in self._nodes and self._refused.get(id, ("", 0))[1] < time.monotonic():
                self._nodes[id] = node = _Node(id, place)
                self._errands.put(partial(self._begin, node))

    def _started(self, node: _Node, future: "Future[tuple[int, dict[str, str]]]") -> None:
        if node.gone:
            return
        error = future.exception()
        if error is None:
            node.workers, node.layers = future.result()
            self._count()
        else:
            self._drop_node(node, str(error), again=not isinstance(error, BackendUnavailable))

    def _answered(self, node: _Node, recalled: int, future: "Future[bytes]") -> None:
        if node.gone:
            return  # others have its requests
        node.calls -= 1
        node.recalled -= recalled
        error = future.exception()
        if error is not None:
            self._drop_node(node, str(error))
            return
        for number, answer in unpack(future.result()):
            submission, size = node.open.pop(number)
            node.bytes -= size
            if answer is None:
                self._waiting.appendleft(submission)
            elif isinstance(answer, SandboxError):
                node.failures += not isinstance(answer, BackendUnavailable)  # a compiler it does not have, say
                self._retry(submission, node, answer)
            else:
                node.failures = 0
                self._losses.pop(node.id, None)
                submission.answer(answer)
        if node.failures >= _FAILURES:
            self._drop_node(node, f"it failed {node.failures} times in a row")

    def _drop_node(self, node: _Node, why: str, *, again: bool = True) -> None:
        """Stop using a node. If it is still in the cluster, a supervisor is started there again, but only after a rest
        if several were lost in a row. With again=False the node is never used again.
        """
        node.gone = True
        del self._nodes[node.id]
        self._count()
        self._losses[node.id] += 1
        if not again or self._losses[node.id] >= _ATTEMPTS:
            until = time.monotonic() + _COOLDOWN_SECONDS if again else math.inf
            self._refused[node.id] = f"{node.place.name}: {why}", until
        if node.workers:
            log.warning("lost node %s (%s); requeued its %d requests", node.place.name, why, len(node.open))
        elif node.id in self._refused:
            log.warning("node %s cannot be used: %s", node.place.name, why)
        words = f"{_ATTEMPTS} nodes were lost with the same request, at last {node.place.name}: {why}"
        for submission, _ in reversed(node.open.values()):
            self._retry(submission, node, ExecutionLost(words))
        if node.supervisor is not None:
            self._errands.put(node.supervisor.kill)

    def _retry(self, submission: _PendingRequest, node: _Node, error: SandboxError) -> None:
        """Give the request to another node, or answer it with the error if it has been tried often enough."""
        submission.lost_on.append(node.id)
        if len(submission.lost_on) < _ATTEMPTS:
            self._waiting.appendleft(submission)
        else:
            submission.answer(error)

    def _count(self) -> None:
        self.workers = sum(node.workers for node in self._nodes.values())

    def _dispatch(self) -> None:
        """Give each node that has room an equal share of the waiting requests, beginning with the least busy node."""
        if not self._waiting:
            return
        ready = sorted((node for node in self._nodes.values() if node.room()), key=_Node.load)
        for left, node in zip(range(len(ready), 0, -1), ready, strict=True):
            batch = self._next_for(node, min(node.room(), math.ceil(len(self._waiting) / left)))
            if batch:
                self._hand(node, batch)

    def _next_for(self, node: _Node, count: int) -> list[_PendingRequest]:
        """Take requests for a node from the front of the queue.

        A request that was lost on this node is taken only if there is no other node for it.
        """
        taken: list[_PendingRequest] = []
        passed: list[_PendingRequest] = []
        while self._waiting and len(taken) < count:
            submission = self._waiting.popleft()
            if submission.future.cancelled():
                continue
            if node.id in submission.lost_on and self._ready().difference(submission.lost_on):
                passed.append(submission)
            else:
                taken.append(submission)
        self._waiting.extendleft(reversed(passed))
        return taken

    def _ready(self) -> set[str]:
        return {node.id for node in self._nodes.values() if node.workers}

    def _hand(self, node: _Node, batch: list[_PendingRequest]) -> None:
        numbered = {next(self._numbers): submission for submission in batch}
        try:
            message, sizes = pack(((number, item.request) for number, item in numbered.items()), _MESSAGE_BYTES)
        except Exception:
            self._fail_unpicklable(batch)
            return
        for (number, submission), size in zip(numbered.items(), sizes, strict=False):
            node.open[number] = submission, size
        node.bytes += sum(sizes)
        self._waiting.extendleft(reversed(batch[len(sizes) :]))
        self._call(node, message)

    def _fail_unpicklable(self, batch: list[_PendingRequest]) -> None:
        """Answer each request that cannot be pickled with the error that pickling raises; the others keep waiting."""
        for submission in reversed(batch):
            try:
                pickle.dumps(submission.request)
            except Exception as error:
                submission.answer(error)
            else:
                self._waiting.appendleft(submission)

    def _rebalance(self) -> None:
        """Ask nodes to give back requests that they have not begun, for idle workers of other nodes."""
        nodes = [node for node in self._nodes.values() if node.workers]
        idle = sum(max(0, node.workers - len(node.open)) - node.recalled for node in nodes)
        if self._waiting or idle <= 0:
            return
        for node in sorted(nodes, key=_Node.load, reverse=True):
            surplus = min(idle, len(node.open) - node.workers - node.recalled)
            if surplus > 0 and node.calls < _CALLS:
                self._call(node, b"", give_back=surplus)
                idle -= surplus

    def _open_polls(self) -> None:
        """Open a call at each node that has requests and no call: only calls bring answers back."""
        for node in list(self._nodes.values()):
            if node.open and not node.calls:
                self._call(node, b"")

    def _call(self, node: _Node, message: bytes, *, give_back: int = 0) -> None:
        assert node.supervisor is not None
        node.calls += 1
        node.recalled += give_back
        try:
            future = node.supervisor.exchange(message, give_back)
        except Exception as error:
            self._drop_node(node, str(error))
        else:
            self._when_done(future, self._answered, node, give_back)

    def _when_done(self, future: "Future[Any]", handle: Callable[..., object], *about: Any) -> None:
        future.add_done_callback(lambda future: self._events.put((handle, (*about, future))))

    def _fail_waiting(self, why: SandboxError) -> None:
        while self._waiting:
            self._waiting.popleft().answer(type(why)(*why.args))

    def _shut_down_nodes(self) -> None:
        """End the workers of all nodes. Those that do not answer end with our connection, or with this process."""
        supervisors = [node.supervisor for node in self._nodes.values() if node.supervisor is not None]
        with contextlib.suppress(Exception):
            futures.wait([supervisor.close() for supervisor in supervisors], timeout=_SHUTDOWN_SECONDS)
        for supervisor in supervisors:
            self._errands.put(supervisor.kill)
        self._errands.put(self._cluster.disconnect)
        self._errands.put(None)
        self._clerk.join(_SHUTDOWN_SECONDS)

    # The clerk's thread.

    def _run_background_calls(self) -> None:
        while True:
            if not self._over:
                with contextlib.suppress(Exception):  # the dispatcher notices the silence
                    self._events.put((self._seen, (self._cluster.nodes(),)))
            end = time.monotonic() + _POLL_SECONDS
            while (left := end - time.monotonic()) > 0:
                try:
                    errand = self._errands.get(timeout=left)
                except queue.Empty:
                    break
                if errand is None:
                    return
                with contextlib.suppress(Exception):  # to kill what is dead
                    errand()

    def _begin(self, node: _Node) -> None:
        try:
            node.supervisor = self._cluster.start_supervisor(node.id, node.place)
        except Exception as error:
            ready: Future[Any] = Future()
            ready.set_exception(error)
        else:
            ready = node.supervisor.ready_future
        self._when_done(ready, self._started, node)


def _common(values: list[tuple[str, str]]) -> str:
    """Return one text for what several nodes report, given as (name, report); missing layers come first."""
    names: dict[str, list[str]] = {}
    for name, value in values:
        names.setdefault(value, []).append(name)
    if len(names) == 1:
        return values[0][1]
    missing_first = sorted(names, key=lambda value: not value.startswith("none"))
    return "; ".join(f"{value} (on {len(names[value])} nodes, such as {names[value][0]})" for value in missing_first)
