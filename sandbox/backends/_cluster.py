"""Requests for the supervisors of many nodes (see _supervisor.py), handed out so that all are busy and none is lost.

    askers -> events -> dispatcher -> supervisor of a node -> worker

One thread, the dispatcher, owns all that is known about nodes and requests; everything that happens is an event for
it. A second one, the clerk, does what may block while the cluster does not answer. How to reach a cluster is the
backend's affair.

A node has about twice as many requests as workers: enough to keep it busy, little to lose. When nothing waits any more,
nodes that have become idle get what others have not begun. What a node that is lost had not answered, others do. Nodes
that join are used.
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

log = logging.getLogger(__name__)

_ATTEMPTS = 3  # at a request whose node is lost, and at a node whose supervisor is
_START_SECONDS = 60  # until the supervisor of a node must be ready
_LOOK_SECONDS = 2  # between two looks at the list of nodes
_REST_SECONDS = 60  # of a node whose supervisors are lost one after another
_NO_NODE_SECONDS = 90  # without any node until requests are given up
_SILENCE_SECONDS = 45  # of the cluster until requests are given up; Ray ends this process after 60
_GOODBYE_SECONDS = 10
_FAILURES = 8  # SandboxErrors in a row until a node counts as lost: what fails at once would draw all work to itself
_MESSAGE_BYTES = 4 << 20  # of requests in one call; one may be larger
_QUEUED_BYTES = 64 << 20  # of requests at a node whose workers all have one
_EVENTS = 1000  # handled at once
_CALLS = 2  # to a supervisor at once: one that waits for answers, one that brings requests


class ClusterLost(SandboxError):
    """Nothing can be answered any more, or not soon."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is there. name is for people."""

    name: str
    processors: int


class Supervisor(Protocol):
    """A supervisor on a node, from afar. A future with any exception but BackendUnavailable means that it is lost."""

    ready: "Future[tuple[int, dict[str, str]]]"

    def exchange(self, message: bytes, give_back: int) -> "Future[bytes]": ...

    def close(self) -> "Future[None]": ...

    def kill(self) -> None:
        """May block."""


class Cluster(Protocol):
    """Where nodes come and go. All methods may block, and raise any exception."""

    name: str

    def nodes(self) -> Mapping[str, Place]:
        """Those alive: id -> place."""

    def begin(self, id: str, place: Place) -> Supervisor:
        """Have a supervisor started there."""

    def leave(self) -> None: ...


@dataclass(eq=False, slots=True)
class _Request:
    """What somebody waits for. lost_on: the nodes (ids) that were lost with it, or could not judge it."""

    content: tuple[Any, ...]
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
    """A node and what it has to do. workers: 0 until its supervisor is ready."""

    id: str
    place: Place
    supervisor: Supervisor | None = None
    workers: int = 0
    layers: dict[str, str] = field(default_factory=dict)
    starting_seconds: float = 0
    open: dict[int, tuple[_Request, int]] = field(default_factory=dict)  # number -> request and its bytes
    bytes: int = 0
    calls: int = 0
    recalled: int = 0  # requests that it was asked to give back
    failures: int = 0
    gone: bool = False

    def room(self) -> int:
        """How many requests it should be given: none as long as it has enough, then several at once."""
        if not self.workers or self.calls >= _CALLS:
            return 0
        if len(self.open) >= self.workers and self.bytes >= _QUEUED_BYTES:
            return 0
        room = 2 * self.workers - len(self.open)
        return room if room >= max(1, self.workers // 2) else 0

    def load(self) -> float:
        return len(self.open) / self.workers


class Dispatcher:
    """Has requests answered by the nodes of a cluster, which it leaves when it is closed."""

    def __init__(self, cluster: Cluster) -> None:
        self.workers = 0  # on all nodes
        self._owner = os.getpid()
        self._cluster = cluster
        self._events: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._errands: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()  # None: the last
        self._waiting: deque[_Request] = deque()
        self._numbers = itertools.count()
        self._alive: Mapping[str, Place] | None = None  # None: we do not know yet
        self._nodes: dict[str, _Node] = {}
        self._losses: Counter[str] = Counter()  # of a node's supervisors since it last answered
        self._refused: dict[str, tuple[str, float]] = {}  # nodes that are not used: id -> reason, and until when
        self._looked = time.monotonic()
        self._silent_seconds = self._nobody_seconds = 0.0
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._over: SandboxError | None = None  # why nothing is done any more
        self._clerk = threading.Thread(target=self._run_errands, daemon=True, name="sandbox-clerk")
        self._thread = threading.Thread(target=self._run, daemon=True, name="sandbox-dispatcher")
        atexit.register(self.close)  # from now on, so that it comes before what the cluster's library does at exit
        self._clerk.start()
        self._thread.start()

    # For any thread.

    def wait_until_ready(self) -> None:
        """Until each node has started, or cannot. Raises BackendUnavailable if none has."""
        self._settled.wait()
        if self._over:
            raise BackendUnavailable(str(self._over))
        if not self.workers:
            reasons = self._reasons() or "none offers processors"
            raise BackendUnavailable(f"{self._cluster.name} has no node that can be used: {reasons}")

    @property
    def ahead(self) -> int:
        """Requests that the nodes and the queue before them should hold."""
        return max(1, 3 * self.workers)

    def layers(self) -> dict[str, str]:
        """What isolates runs on all nodes, and which nodes there are."""
        nodes = [node for node in list(self._nodes.values()) if node.workers]
        names = {name: None for node in nodes for name in node.layers}
        layers = {name: _common([(node.place.name, node.layers.get(name, "none")) for node in nodes]) for name in names}
        size = f"nodes: {len(nodes)}, workers: {sum(node.workers for node in nodes)}"
        reasons = self._reasons()
        return layers | {"cluster": f"{size}; left out: {reasons}" if reasons else size}

    def _reasons(self) -> str:
        return "; ".join(sorted({f"node {reason}" for reason, _ in list(self._refused.values())}))

    def submit(self, content: tuple[Any, ...]) -> "Future[Any]":
        """Never raises; cancel the future if nobody waits for it any more."""
        request = _Request(content)
        with self._lock:
            over = self._over
            if not over:
                self._events.put((self._asked, (request,)))
        if over:
            request.answer(type(over)(*over.args))  # each thread raises its own
        return request.future

    def stop(self, why: SandboxError | None = None) -> None:
        with self._lock:
            self._over = self._over or why or SandboxError("this Sandbox is closed")
            self._events.put((bool, ()))  # nothing, to wake it up

    def close(self) -> None:
        if os.getpid() != self._owner:
            return  # a fork of the owner that ends: the cluster is not its
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(3 * _GOODBYE_SECONDS)

    # The dispatcher's thread.

    def _run(self) -> None:
        try:
            while not self._over:
                self._take_in()
                self._look_at_the_clock()
                self._hand_out()
                self._level()
                self._listen()
        except Exception as error:
            log.exception("the dispatcher of a cluster failed")
            self.stop(ClusterLost(f"the dispatcher failed: {error!r}"))
        self._gather()
        self._waiting.extend(request for node in self._nodes.values() for request, _ in node.open.values())
        assert self._over is not None
        self._fail_waiting(self._over)
        self._settled.set()
        self._say_goodbye()
        atexit.unregister(self.close)

    def _take_in(self) -> None:
        """Handle the events that are there, waiting a second for the first one."""
        with contextlib.suppress(queue.Empty):
            for number in itertools.count():
                handle, arguments = self._events.get(timeout=0 if number else 1)
                handle(*arguments)
                if number >= _EVENTS:
                    break

    def _gather(self) -> None:
        """Of the last events, the requests."""
        with contextlib.suppress(queue.Empty):
            while True:
                handle, arguments = self._events.get_nowait()
                if handle == self._asked:
                    handle(*arguments)

    def _asked(self, request: _Request) -> None:
        self._waiting.append(request)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        seconds = min(now - self._looked, 2)  # no more: this process may have been stopped and continued
        self._looked = now
        for node in [node for node in self._nodes.values() if not node.workers]:
            node.starting_seconds += seconds
            if node.starting_seconds > _START_SECONDS:
                self._lose(node, f"its supervisor was not ready after {_START_SECONDS} s")
        self._silent_seconds += seconds
        if self._silent_seconds > _SILENCE_SECONDS:
            self.stop(
                ClusterLost(f"{self._cluster.name} has not answered for {_SILENCE_SECONDS} s: is its head node gone?")
            )
        self._nobody_seconds = 0 if self.workers else self._nobody_seconds + seconds
        if self._nobody_seconds > _NO_NODE_SECONDS:
            reasons = self._reasons()
            why = f"no node is left of {self._cluster.name}"
            self._fail_waiting(ClusterLost(f"{why}: {reasons}" if reasons else why))
        if not self._settled.is_set() and self._alive is not None:
            ready = self._ready()
            if all(id in ready or id in self._refused for id in self._alive):
                self._settled.set()

    def _seen(self, alive: Mapping[str, Place]) -> None:
        """What the cluster says of its nodes."""
        self._silent_seconds = 0
        self._alive = alive
        self._refused = {id: refusal for id, refusal in self._refused.items() if id in alive}
        for node in [node for id, node in self._nodes.items() if id not in alive]:
            self._lose(node, "it left the cluster")
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
            self._lose(node, str(error), again=not isinstance(error, BackendUnavailable))

    def _answered(self, node: _Node, recalled: int, future: "Future[bytes]") -> None:
        if node.gone:
            return  # others have its requests
        node.calls -= 1
        node.recalled -= recalled
        error = future.exception()
        if error is not None:
            self._lose(node, str(error))
            return
        for number, answer in unpack(future.result()):
            request, size = node.open.pop(number)
            node.bytes -= size
            if answer is None:
                self._waiting.appendleft(request)
            elif isinstance(answer, SandboxError):
                node.failures += not isinstance(answer, BackendUnavailable)  # a compiler it does not have, say
                self._again(request, node, answer)
            else:
                node.failures = 0
                self._losses.pop(node.id, None)
                request.answer(answer)
        if node.failures >= _FAILURES:
            self._lose(node, f"it failed {node.failures} times in a row")

    def _lose(self, node: _Node, why: str, *, again: bool = True) -> None:
        """Use a node no longer. If it is in the cluster still, a supervisor is started there again, but not again and
        again in vain."""
        node.gone = True
        del self._nodes[node.id]
        self._count()
        self._losses[node.id] += 1
        if not again or self._losses[node.id] >= _ATTEMPTS:
            until = time.monotonic() + _REST_SECONDS if again else math.inf
            self._refused[node.id] = f"{node.place.name}: {why}", until
        if node.workers:
            log.warning("lost node %s: %s; others do its %d requests", node.place.name, why, len(node.open))
        elif node.id in self._refused:
            log.warning("node %s cannot be used: %s", node.place.name, why)
        words = f"{_ATTEMPTS} nodes were lost with the same request, at last {node.place.name}: {why}"
        for request, _ in reversed(node.open.values()):
            self._again(request, node, ExecutionLost(words))
        if node.supervisor is not None:
            self._errands.put(node.supervisor.kill)

    def _again(self, request: _Request, node: _Node, error: SandboxError) -> None:
        request.lost_on.append(node.id)
        if len(request.lost_on) < _ATTEMPTS:
            self._waiting.appendleft(request)
        else:
            request.answer(error)

    def _count(self) -> None:
        self.workers = sum(node.workers for node in self._nodes.values())

    def _hand_out(self) -> None:
        """To the nodes that have room, the idlest first, an equal share each of what waits."""
        if not self._waiting:
            return
        ready = sorted((node for node in self._nodes.values() if node.room()), key=_Node.load)
        for left, node in zip(range(len(ready), 0, -1), ready, strict=True):
            batch = self._next_for(node, min(node.room(), math.ceil(len(self._waiting) / left)))
            if batch:
                self._hand(node, batch)

    def _next_for(self, node: _Node, count: int) -> list[_Request]:
        """Requests from the front of the queue; one that was lost on this node only if there is no other for it."""
        taken: list[_Request] = []
        passed: list[_Request] = []
        while self._waiting and len(taken) < count:
            request = self._waiting.popleft()
            if request.future.cancelled():
                continue
            if node.id in request.lost_on and self._ready().difference(request.lost_on):
                passed.append(request)
            else:
                taken.append(request)
        self._waiting.extendleft(reversed(passed))
        return taken

    def _ready(self) -> set[str]:
        return {node.id for node in self._nodes.values() if node.workers}

    def _hand(self, node: _Node, batch: list[_Request]) -> None:
        numbered = {next(self._numbers): request for request in batch}
        try:
            message, sizes = pack(((number, request.content) for number, request in numbered.items()), _MESSAGE_BYTES)
        except Exception:
            self._sort_out(batch)
            return
        for (number, request), size in zip(numbered.items(), sizes, strict=False):
            node.open[number] = request, size
        node.bytes += sum(sizes)
        self._waiting.extendleft(reversed(batch[len(sizes) :]))
        self._call(node, message)

    def _sort_out(self, batch: list[_Request]) -> None:
        """One of these cannot be sent: that is its own fault."""
        for request in reversed(batch):
            try:
                pickle.dumps(request.content)
            except Exception as error:
                request.answer(error)
            else:
                self._waiting.appendleft(request)

    def _level(self) -> None:
        """Have requests that are not begun given back for idle workers, where nothing else waits for these."""
        nodes = [node for node in self._nodes.values() if node.workers]
        idle = sum(max(0, node.workers - len(node.open)) - node.recalled for node in nodes)
        if self._waiting or idle <= 0:
            return
        for node in sorted(nodes, key=_Node.load, reverse=True):
            surplus = min(idle, len(node.open) - node.workers - node.recalled)
            if surplus > 0 and node.calls < _CALLS:
                self._call(node, b"", give_back=surplus)
                idle -= surplus

    def _listen(self) -> None:
        """Where answers are due, a call must wait for them."""
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
            self._lose(node, str(error))
        else:
            self._when_done(future, self._answered, node, give_back)

    def _when_done(self, future: "Future[Any]", handle: Callable[..., object], *about: Any) -> None:
        future.add_done_callback(lambda future: self._events.put((handle, (*about, future))))

    def _fail_waiting(self, why: SandboxError) -> None:
        while self._waiting:
            self._waiting.popleft().answer(type(why)(*why.args))

    def _say_goodbye(self) -> None:
        """Have the nodes' workers ended. What does not answer ends with our connection, or with this process."""
        supervisors = [node.supervisor for node in self._nodes.values() if node.supervisor is not None]
        with contextlib.suppress(Exception):
            futures.wait([supervisor.close() for supervisor in supervisors], timeout=_GOODBYE_SECONDS)
        for supervisor in supervisors:
            self._errands.put(supervisor.kill)
        self._errands.put(self._cluster.leave)
        self._errands.put(None)
        self._clerk.join(_GOODBYE_SECONDS)

    # The clerk's thread.

    def _run_errands(self) -> None:
        while True:
            if not self._over:
                with contextlib.suppress(Exception):  # the dispatcher notices the silence
                    self._events.put((self._seen, (self._cluster.nodes(),)))
            end = time.monotonic() + _LOOK_SECONDS
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
            node.supervisor = self._cluster.begin(node.id, node.place)
        except Exception as error:
            ready: Future[Any] = Future()
            ready.set_exception(error)
        else:
            ready = node.supervisor.ready
        self._when_done(ready, self._started, node)


def _common(values: list[tuple[str, str]]) -> str:
    """What several nodes, each with its name, say of a layer; it is missing if one misses it."""
    names: dict[str, list[str]] = {}
    for name, value in values:
        names.setdefault(value, []).append(name)
    if len(names) == 1:
        return values[0][1]
    missing_first = sorted(names, key=lambda value: not value.startswith("none"))
    return "; ".join(f"{value} (on {len(names[value])} nodes, such as {names[value][0]})" for value in missing_first)
