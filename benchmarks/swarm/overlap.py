"""The idle time of a swarm's trainer: INTELLECT-2's outer ring on a simulated clock.

    python -m benchmarks.swarm.overlap     # five minutes on one core

The durations are those of INTELLECT-2 (32B). A broadcast of 65.6 GB at 590 Mb/s takes 14 minutes, and a step of the
trainer 22. Upload and verification of a file take one minute each. The whole batch is verified 22 minutes after a
broadcast. These 22 minutes are the mean time of a group, or the longest one, at which its lease expires. Deltas have 4%
of the bytes (train/swarm/broadcast/delta.py): 36 seconds. A joining node needs a whole version.

Nodes sample four groups concurrently and have a quarter more capacity than the trainer uses. Node speeds are log-normal
(sigma 0.3), and so are group times on one node (sigma 0.2). 5% of the nodes vanish per hour; the coordinator dispatches
their groups again three heartbeats later. train/asynchronous/staleness.py dispatches groups and selects batches; nodes
follow train/swarm/node_lifecycle.py.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from heapq import heappop, heappush
from itertools import product
from math import ceil, exp
from statistics import fmean
from typing import Any

from benchmarks.record import save_results
from train.asynchronous.staleness import compute_dispatch_capacity, select_batch
from train.swarm.node_lifecycle import (
    HEARTBEAT_SECONDS,
    MISSED_UNHEALTHY,
    NodeEvent,
    NodeLifecycle,
    NodeState,
    apply_event,
)

MINUTE, HOUR = 60.0, 3600.0
_NO_LAST_STEP = 10**9


@dataclass(frozen=True, slots=True)
class Ring:
    """The durations of a swarm's outer loop, from new weights to trainable completions, in seconds.

    broadcast  from the end of a step until a node has the new weights
    whole      the same for a node that has no earlier version
    generate   sampling of a group, on a node of mean speed
    step       one step of the trainer
    """

    broadcast: float
    whole: float
    generate: float
    upload: float
    verify: float
    step: float

    @property
    def latency(self) -> float:
        """The time from the end of a step until the completions of its weights arrive."""
        return self.broadcast + self.generate + self.upload + self.verify

    @property
    def min_staleness(self) -> int:
        """The smallest bound on staleness under which the trainer never waits."""
        return ceil(self.latency / self.step)

    def compute_idle_share(self, staleness: int) -> float:
        """Return the idle share of the trainer if all nodes are equal.

        Weights v sample the batch of version v + staleness. Between the ends of step v - 1 and of step v + staleness
        are staleness + 1 steps. They take at least the latency and one step of training.
        """
        return max(0.0, 1 - (staleness + 1) * self.step / (self.latency + self.step))


@dataclass(frozen=True, slots=True)
class Swarm:
    """The nodes of a simulated swarm.

    concurrent_groups  groups that a node samples concurrently
    spare              spare capacity of the nodes; 0.25: they can sample a quarter more than the trainer uses
    speed_sigma        sigma of the log-normal node speed, with mean 1
    length_sigma       sigma of the log-normal time of groups on one node
    churn              share of the nodes that vanish per hour, each replaced by another
    lease_seconds      seconds after which the lease of a group expires
    """

    nodes: int
    concurrent_groups: int = 4
    spare: float = 0.0
    speed_sigma: float = 0.0
    length_sigma: float = 0.0
    churn: float = 0.0
    lease_seconds: float = 1e9

    @property
    def groups(self) -> int:
        """Number of groups in a batch."""
        return max(1, round(self.nodes * self.concurrent_groups / (1 + self.spare)))


@dataclass(frozen=True, slots=True)
class RingResult:
    """Measurements after the warm-up.

    trainer_idle  share of the time
    lost          leases expired or lost with their node, per group trained on
    """

    trainer_idle: float
    lost: float


@dataclass(slots=True, eq=False)
class _Lease:
    number: int
    start_version: int
    is_spot_check: bool  # the first lease of a node, not trained on
    ended: bool = False


@dataclass(slots=True, eq=False)
class _Node:
    speed: float
    life: NodeLifecycle = field(default_factory=NodeLifecycle)
    is_present: bool = True
    fetched: int = -1  # newest downloaded version
    loaded: int = -1
    running: list[_Lease] = field(default_factory=list)


class Simulation:
    """A discrete-event simulation of a trainer, its broadcasts, and nodes that join and disappear.

    steps: simulated after the warm-up
    """

    def __init__(self, ring: Ring, swarm: Swarm, staleness: int, *, steps: int = 30, seed: int = 0) -> None:
        self._ring, self._swarm, self._staleness = ring, swarm, staleness
        self._first, self._last = staleness + 4, staleness + 4 + steps
        self._rng = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._n_events = 0
        self._now = 0.0
        self._nodes: list[_Node] = []
        self._start_versions: dict[int, int] = {}  # start versions of groups dispatched and neither used nor lost
        self._ready: dict[int, int] = {}  # start versions of verified groups
        self._awaited: Counter[int] = Counter()  # groups dispatched and not ready, by start version
        self._n_dispatched = self._n_batches = self._version = 0
        self._is_training = False
        self._began_at: list[float] = []  # start of each training step
        self._n_lost = 0

    def run(self) -> RingResult:
        for _ in range(self._swarm.nodes):
            self._join(healthy=True)
        while len(self._began_at) < self._last:
            self._now, _, action = heappop(self._events)
            action()
        seconds = self._began_at[-1] - self._began_at[self._first - 1]
        steps = self._last - self._first
        idle = max(0.0, 1 - steps * self._ring.step / seconds)
        return RingResult(idle, self._n_lost / (steps * self._swarm.groups))

    def _schedule(self, seconds: float, action: Callable[[], None]) -> None:
        self._n_events += 1
        heappush(self._events, (self._now + seconds, self._n_events, action))

    # --- nodes ---

    def _join(self, *, healthy: bool = False) -> None:
        sigma = self._swarm.speed_sigma
        node = _Node(exp(self._rng.gauss(-sigma * sigma / 2, sigma)))
        node.life, _ = apply_event(node.life, NodeEvent.JOIN, self._now)
        if healthy:
            node.life, _ = apply_event(node.life, NodeEvent.ACCEPTED, self._now)
        self._nodes.append(node)
        self._schedule(0.0 if healthy else self._ring.whole, partial(self._finish_download, node, None))
        if self._swarm.churn:
            self._schedule(self._rng.expovariate(self._swarm.churn / HOUR), partial(self._vanish, node))

    def _finish_download(self, node: _Node, version: int | None) -> None:
        if node.is_present:
            node.fetched = max(node.fetched, self._version if version is None else version)
            self._dispatch(node)

    def _vanish(self, node: _Node) -> None:
        if node.is_present:
            node.life, _ = apply_event(node.life, NodeEvent.HEARTBEAT, self._now)
            node.is_present = False
            self._schedule(HEARTBEAT_SECONDS * MISSED_UNHEALTHY, partial(self._declare_dead, node))

    def _declare_dead(self, node: _Node) -> None:
        node.life, _ = apply_event(node.life, NodeEvent.CLOCK, self._now)
        self._remove(node)

    def _remove(self, node: _Node) -> None:
        """Remove a node, end its leases, and add another node."""
        node.is_present = False
        self._nodes.remove(node)
        self._end_leases(*node.running)
        self._join()

    # --- leases ---

    def _dispatch(self, node: _Node) -> None:
        """Lease groups to a node; if idle, it first loads its newest weights."""
        if node.fetched > node.loaded and not node.running:
            node.loaded = node.fetched
        if not node.is_present or node.fetched > node.loaded:
            return
        if node.life.state is NodeState.PROBATION:
            if not node.running:
                self._start_lease(node, _Lease(-1, node.loaded, is_spot_check=True))
            return
        while len(node.running) < self._swarm.concurrent_groups and self._compute_capacity(node):
            self._start_versions[self._n_dispatched] = node.loaded
            self._awaited[node.loaded] += 1
            self._start_lease(node, _Lease(self._n_dispatched, node.loaded, is_spot_check=False))
            self._n_dispatched += 1

    def _compute_capacity(self, node: _Node) -> int:
        groups, outstanding = self._swarm.groups, len(self._start_versions)
        return compute_dispatch_capacity(
            node.loaded, self._n_batches, outstanding, prompts=groups, staleness=self._staleness, steps=_NO_LAST_STEP
        )

    def _start_lease(self, node: _Node, lease: _Lease) -> None:
        node.running.append(lease)
        sigma = self._swarm.length_sigma
        seconds = self._ring.generate / node.speed * exp(self._rng.gauss(-sigma * sigma / 2, sigma))
        if seconds <= self._swarm.lease_seconds:
            self._schedule(seconds, partial(self._finish_sampling, node, lease))
        else:
            self._schedule(self._swarm.lease_seconds, partial(self._expire, node, lease))

    def _finish_sampling(self, node: _Node, lease: _Lease) -> None:
        if lease.ended or not node.is_present:
            return
        node.running.remove(lease)
        self._schedule(self._ring.upload + self._ring.verify, partial(self._accept, node, lease))
        self._dispatch(node)

    def _accept(self, node: _Node, lease: _Lease) -> None:
        node.life, _ = apply_event(node.life, NodeEvent.ACCEPTED, self._now)
        if not lease.is_spot_check:
            self._ready[lease.number] = lease.start_version
            self._awaited[lease.start_version] -= 1
            self._train()
        self._dispatch(node)

    def _expire(self, node: _Node, lease: _Lease) -> None:
        if lease.ended or not node.is_present:
            return
        node.running.remove(lease)
        node.life, _ = apply_event(node.life, NodeEvent.EXPIRED, self._now)
        self._end_leases(lease)
        if node.life.state is NodeState.SUSPENDED:
            self._remove(node)
        else:
            self._dispatch(node)

    def _end_leases(self, *leases: _Lease) -> None:
        """End leases, and offer their groups to waiting nodes."""
        for lease in leases:
            lease.ended = True
            if not lease.is_spot_check:
                self._n_lost += 1
                del self._start_versions[lease.number]
                self._awaited[lease.start_version] -= 1
        slots = self._swarm.concurrent_groups
        waiting = [node for node in self._nodes if len(node.running) < slots and self._compute_capacity(node)]
        self._rng.shuffle(waiting)
        for node in waiting:
            self._dispatch(node)

    # --- the trainer ---

    def _train(self) -> None:
        if self._is_training or len(self._ready) < self._swarm.groups:
            return
        # Groups of this version must be in this batch. The test saves most calls of `select_batch`.
        oldest = self._version - self._staleness
        if any(number for start_version, number in self._awaited.items() if start_version <= oldest):
            return
        ready = ((start_version, number) for number, start_version in self._ready.items())
        chosen = select_batch(
            self._version, ready, self._start_versions.values(), prompts=self._swarm.groups, staleness=self._staleness
        )
        if chosen is None:
            return
        for number in chosen:
            del self._ready[number], self._start_versions[number]
        self._n_batches += 1
        self._is_training = True
        self._began_at.append(self._now)
        if len(self._began_at) == self._first:  # the warm-up ends: start counting
            self._n_lost = 0
        self._schedule(self._ring.step, self._finish_step)

    def _finish_step(self) -> None:
        self._is_training = False
        self._version += 1
        for node in self._nodes:
            if node.fetched >= 0:
                self._schedule(self._ring.broadcast, partial(self._finish_download, node, self._version))
        self._train()


BROADCAST, DELTA = 14 * MINUTE, 36.0
RING = Ring(BROADCAST, BROADCAST, 22 * MINUTE, MINUTE, MINUTE, 22 * MINUTE)
ALIKE = Swarm(100, spare=0.25)
REAL = replace(ALIKE, speed_sigma=0.3, length_sigma=0.2, churn=0.05)
BOUNDS = (1, 2, 3, 4)
SEEDS = (0, 1, 2)
_LEASE_TIMES = 2  # mean times of a group until its lease expires


def make_cases() -> dict[str, tuple[Ring, Swarm]]:
    found = {"equal nodes": (RING, ALIKE)}
    mean = replace(REAL, lease_seconds=_LEASE_TIMES * RING.generate)
    quick = replace(RING, generate=RING.generate / _LEASE_TIMES)
    quick_swarm = replace(REAL, lease_seconds=_LEASE_TIMES * quick.generate)
    for nodes in (10, 100, 1000):
        found[f"{nodes:,} nodes, mean group time 22 min"] = RING, replace(mean, nodes=nodes)
        found[f"{nodes:,} nodes, longest group time 22 min"] = quick, replace(quick_swarm, nodes=nodes)
    found["100 nodes, longest group time 22 min, none vanish"] = quick, replace(quick_swarm, churn=0.0)
    found["100 nodes of equal speed, longest group time 22 min"] = quick, replace(quick_swarm, speed_sigma=0.0)
    return found


def main() -> None:
    cases: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for (name, (ring, swarm)), label in product(make_cases().items(), ("whole", "deltas")):
        ring = replace(ring, broadcast=BROADCAST if label == "whole" else DELTA)
        by_bound = cases.setdefault(name, {}).setdefault(label, {})
        for bound in BOUNDS:
            idle = fmean(Simulation(ring, swarm, bound, seed=seed).run().trainer_idle for seed in SEEDS)
            formula_idle = round(ring.compute_idle_share(bound), 4)
            by_bound[str(bound)] = {"trainer_idle": round(idle, 4), "formula_idle": formula_idle}
        print(f"{name}, {label}: {by_bound}", flush=True)
    swarm_values: dict[str, Any] = {"speed_sigma": REAL.speed_sigma, "churn": REAL.churn}
    about = {"seeds": len(SEEDS), "ring": asdict(RING), "delta_seconds": DELTA, "swarm": swarm_values}
    save_results("overlap", {**about, "cases": cases})


if __name__ == "__main__":
    main()
