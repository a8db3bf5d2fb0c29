"""Lanes for the nodes of a cluster, each with its own supervisor (_supervisor.py). Nodes may join and leave.

A node gets 25% more requests than it has workers. This keeps its workers busy during round trips, and limits the
retries if the node is lost. Subclasses implement the access to one kind of cluster.
"""

import atexit
import itertools
import logging
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from functools import partial

from sandbox.backends._dispatch import MAX_ATTEMPTS, SHUTDOWN_SECONDS, BackendLost, Job, Lane, RequestDispatcher
from sandbox.backends._supervisor import pack, unpack
from sandbox.concurrency.timeouts import call_in_thread
from sandbox.errors import BackendUnavailable, SandboxError

log = logging.getLogger(__name__)

_POLL_SECONDS = 2  # interval between polls of the list of nodes
_COOLDOWN_SECONDS = 60  # pause before a node's supervisor restarts after consecutive losses
_NO_NODE_SECONDS = 90  # time without any node after which requests fail
_LIVENESS_SECONDS = 45  # time without a response of the cluster after which requests fail; Ray exits after 60
_MAX_MESSAGE_BYTES = 4 << 20  # maximum size of the requests in one call; a single request may be larger
_MAX_CALLS = 2  # concurrent calls to a supervisor: one waits for responses, one delivers requests

_THREAD_NAME = "sandbox-cluster-call"


class NodeLane(Lane):
    """The workers of one node, and the connection to its supervisor.

    id, node         the node's id, and its display name
    workers, layers  see NodeSupervisor.start
    loss_reason      the reason of the node's loss; empty while it is in use
    """

    max_failures = 8  # not infinite: a broken node frees its slots fast, and so attracts all requests
    loss_message = "{} nodes were lost while running the same request; the last one was {}"

    def __init__(self, id: str, node: str, workers: int, layers: dict[str, str]) -> None:
        super().__init__(workers=workers, slots=workers * 5 // 4, name=id)
        self.node, self.layers = node, layers
        self.loss_reason, self.has_responded = "", False
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._sent_jobs: dict[int, Job] = {}
        self._outbox: list[int] = []
        self._cancelled: list[int] = []
        self._n_calls = 0

    @abstractmethod
    def exchange(self, message: bytes, cancelled_numbers: Sequence[int]) -> bytes:
        """Call NodeSupervisor.exchange on the node. Any exception marks the node as lost."""

    @abstractmethod
    def end(self) -> None:
        """Shut down the workers, and then the supervisor."""

    def open(self) -> None:
        for _ in range(_MAX_CALLS):
            threading.Thread(target=self._call, daemon=True, name="sandbox-node").start()

    def send(self, jobs: Sequence[Job]) -> None:
        with self._changed:
            for job in jobs:
                self._outbox.append(number := next(self._numbers))
                self._sent_jobs[number] = job
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        with self._changed:
            self._cancelled += [number for number, each in self._sent_jobs.items() if each is job]
            self._changed.notify()

    def join(self, reason: str) -> str:
        if not self.dispatcher.stop_error:
            log.warning("lost node %s (%s); requeued its %d requests", self.node, reason, len(self.jobs))
        with self._changed:
            self.loss_reason = reason
            self._changed.notify_all()
        self.dispatcher.run_in_thread(self.end)  # without waiting, so that the requests are retried immediately
        return f"{self.node}: {reason}"

    def get_max_attempts(self, error: Exception) -> int:
        return MAX_ATTEMPTS

    def _call(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._should_call)
                if self.loss_reason:
                    return
                batch, self._outbox = self._outbox, []
                self._n_calls += 1
            try:
                message, unsent = self._pack(batch)
                with self._changed:
                    self._outbox = unsent + self._outbox
                    cancelled_numbers, self._cancelled = self._cancelled, []
                received = unpack(self.exchange(message, cancelled_numbers))
            except Exception as error:
                self.dispatcher.drop_lane(self, str(error))
                return
            with self._changed:
                self._n_calls -= 1
                responses = [(self, self._sent_jobs.pop(number), response) for number, response in received]
            self.has_responded |= any(not isinstance(response, SandboxError | None) for _, _, response in responses)
            self.dispatcher.deliver(responses)

    def _should_call(self) -> bool:
        """Return whether there is a message to send, or responses are outstanding without a call that awaits them."""
        waits = self._sent_jobs and not self._n_calls
        return bool(self.loss_reason or self._outbox or self._cancelled or waits)

    def _pack(self, batch: list[int]) -> tuple[bytes, list[int]]:
        """Return a message with the first requests of a batch, and the numbers of the others.

        A request that cannot be encoded fails with the error.
        """
        try:
            message, sizes = pack(((number, self._sent_jobs[number].request) for number in batch), _MAX_MESSAGE_BYTES)
            return message, batch[len(sizes) :]
        except Exception as error:
            if batch[1:]:
                return self._pack(batch[:1])[0], batch[1:]
            self.dispatcher.deliver([(self, self._sent_jobs.pop(batch[0]), error)])
            return b"", []


class ClusterNodes(ABC):
    """The nodes of a cluster, each with a lane of the dispatcher.

    name   name of the cluster in messages
    """

    def __init__(self, name: str, dispatcher: RequestDispatcher) -> None:
        self.name, self._dispatcher = name, dispatcher
        self._owner = os.getpid()
        self._lanes: dict[str, NodeLane | None] = {}  # by node id; None while its supervisor is starting
        self._losses: Counter[str] = Counter()  # node id -> losses of its supervisor since its last response
        self._excluded: dict[str, tuple[str, float]] = {}  # node id -> reason, and end in monotonic seconds
        self._alive: Collection[str] | None = None  # None before the first poll
        self._lock = threading.Lock()
        self._started, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sandbox-cluster")
        atexit.register(self.close)  # handlers run in reverse order: this one precedes those of the cluster's library
        self._thread.start()

    # Access to the cluster, for subclasses to define. These methods may block, and may raise any exception.

    @abstractmethod
    def list_nodes(self) -> Mapping[str, str]:
        """Return the live nodes: id -> display name."""

    @abstractmethod
    def start_node(self, id: str, name: str) -> NodeLane:
        """Start a supervisor on a node. Raises BackendUnavailable if a retry would not help."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection to the cluster."""

    # The lifecycle of the nodes.

    def wait_until_ready(self) -> None:
        """Wait until each node's supervisor has started or failed. Raises BackendUnavailable if none has started."""
        self._started.wait()
        if self._dispatcher.stop_error:
            raise BackendUnavailable(str(self._dispatcher.stop_error))
        if not self._dispatcher.n_workers:
            reasons = self._describe_excluded() or "it has no node with processors"
            raise BackendUnavailable(f"{self.name} has no usable node: {reasons}")

    def describe_layers(self) -> dict[str, str]:
        """Return the isolation layers of all nodes, and the layer "cluster" with their number."""
        with self._lock:
            lanes = [lane for lane in self._lanes.values() if lane and not lane.loss_reason]
        names = {name: None for lane in lanes for name in lane.layers}
        layers = {
            name: _summarize_layer([(lane.node, lane.layers.get(name, "none")) for lane in lanes]) for name in names
        }
        size = f"nodes: {len(lanes)}, workers: {sum(lane.workers for lane in lanes)}"
        reasons = self._describe_excluded()
        return layers | {"cluster": f"{size}; excluded: {reasons}" if reasons else size}

    def stop(self) -> None:
        """Start the shutdown, without waiting for it."""
        self._dispatcher.stop()
        self._closing.set()

    def close(self) -> None:
        """Shut down, and wait until all workers have exited."""
        if os.getpid() != self._owner:  # a forked process
            return
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(3 * SHUTDOWN_SECONDS)

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            log.exception("cannot monitor the nodes of %s", self.name)
            self._dispatcher.stop(BackendLost(f"cannot monitor the nodes of {self.name}: {error!r}"))
        self._started.set()
        self._dispatcher.close()
        futures.wait([call_in_thread(self.disconnect, _THREAD_NAME)], SHUTDOWN_SECONDS)
        atexit.unregister(self.close)

    def _watch(self) -> None:
        """Poll the list of nodes until the dispatcher has stopped."""
        silent_seconds = no_node_seconds = 0  # counted by polls, to exclude pauses of this process
        poll: Future[Mapping[str, str]] | None = None
        while not self._dispatcher.stop_error:
            poll = poll or call_in_thread(self.list_nodes, _THREAD_NAME)
            futures.wait([poll], _POLL_SECONDS)
            silent_seconds += _POLL_SECONDS
            if poll.done():
                if not poll.exception():
                    silent_seconds = 0
                    self._update_lanes(poll.result())
                poll = None
                self._closing.wait(_POLL_SECONDS)
            no_node_seconds = 0 if self._dispatcher.n_workers else no_node_seconds + _POLL_SECONDS
            if silent_seconds > _LIVENESS_SECONDS:
                reason = f"{self.name} has not responded for {_LIVENESS_SECONDS} s; check that its head node is up"
                self._dispatcher.stop(BackendLost(reason))
            if no_node_seconds > _NO_NODE_SECONDS:
                reason = f"{self.name} has no nodes left"
                self._dispatcher.fail_waiting(BackendLost(": ".join(filter(None, (reason, self._describe_excluded())))))

    def _update_lanes(self, alive: Mapping[str, str]) -> None:
        """Drop the lanes of lost nodes, and start supervisors on new ones."""
        for lane in [lane for lane in self._lanes.values() if lane]:
            if lane.loss_reason:
                if lane.has_responded:
                    self._losses.pop(lane.name, None)
                self._count_loss(lane.name, lane.node, lane.loss_reason)
            elif lane.name not in alive:
                self._dispatcher.drop_lane(lane, "it left the cluster")
        now = time.monotonic()
        with self._lock:
            self._alive = alive.keys()
            self._excluded = {id: exclusion for id, exclusion in self._excluded.items() if id in alive}
            new = [id for id in alive if id not in self._lanes and self._excluded.get(id, ("", 0))[1] < now]
            self._lanes |= dict.fromkeys(new)
        for id in new:
            call_in_thread(partial(self._start, id, alive[id]), _THREAD_NAME)
        self._check_started()

    def _start(self, id: str, name: str) -> None:
        try:
            lane = self.start_node(id, name)
        except Exception as error:
            self._count_loss(id, name, str(error), retry=not isinstance(error, BackendUnavailable))
            if id in self._excluded:
                log.warning("node %s cannot be used: %s", name, error)
        else:
            with self._lock:
                self._lanes[id] = lane
            self._dispatcher.attach(lane)
        self._check_started()

    def _count_loss(self, id: str, name: str, reason: str, *, retry: bool = True) -> None:
        """Drop a node's lane and count the loss of its supervisor.

        retry   whether a later poll restarts the supervisor, after a pause if the node has lost several in a row
        """
        with self._lock:
            self._lanes.pop(id, None)
            self._losses[id] += 1
            if not retry or self._losses[id] >= MAX_ATTEMPTS:
                self._excluded[id] = f"{name}: {reason}", time.monotonic() + _COOLDOWN_SECONDS if retry else math.inf

    def _check_started(self) -> None:
        with self._lock:
            if self._alive is not None and all(self._lanes.get(id) or id in self._excluded for id in self._alive):
                self._started.set()

    def _describe_excluded(self) -> str:
        with self._lock:
            return "; ".join(sorted({f"node {reason}" for reason, _ in self._excluded.values()}))


def _summarize_layer(values: list[tuple[str, str]]) -> str:
    """Summarize one layer's descriptions on all nodes, "none..." first. values: (node name, description)."""
    names: dict[str, list[str]] = {}
    for name, value in values:
        names.setdefault(value, []).append(name)
    if len(names) == 1:
        return values[0][1]
    missing_first = sorted(names, key=lambda value: not value.startswith("none"))
    return "; ".join(f"{value} (on {len(names[value])} nodes, such as {names[value][0]})" for value in missing_first)
