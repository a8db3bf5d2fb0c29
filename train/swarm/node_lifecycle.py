"""The life of a node, as a pure function: (node, event, now) -> (node, effects).

    invited -> probation -> healthy <-> unhealthy -> dead
                                    -> suspended    too many soft rejections
                                    -> banned       one hard rejection, or on probation a second soft one in a row

A node that is dead, has left or is suspended can come back with its invite, on probation. A banned one cannot.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

HEARTBEAT_SECONDS = 10.0
MISSED_UNHEALTHY, MISSED_DEAD = 3, 9  # beats
_WINDOW = 100  # latest verdicts that count for a suspension
_MAX_SOFT_SHARE = 0.05  # or one: a first soft rejection would be a large share


class NodeState(Enum):
    """Where a node is in its life."""

    INVITED = "invited"
    PROBATION = "probation"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEAD = "dead"
    LEFT = "left"
    SUSPENDED = "suspended"
    BANNED = "banned"


class NodeEvent(Enum):
    """What happens to a node."""

    JOIN = "join"
    HEARTBEAT = "beat"
    CLOCK = "clock"  # time has passed
    LEAVE = "leave"
    ACCEPTED = "accepted"  # a lease of it was
    SOFT = "soft"  # a lease was rejected for something that happens to honest nodes, too
    HARD = "hard"  # a lease was rejected for something that only cheats do
    EXPIRED = "expired"  # a lease ran out


VERDICT_EVENTS = {
    "accepted": NodeEvent.ACCEPTED,
    "soft": NodeEvent.SOFT,
    "hard": NodeEvent.HARD,
    "expired": NodeEvent.EXPIRED,
}


class NodeEffect(Enum):
    """What the coordinator has to do."""

    FREE_LEASES = "free leases"  # give its leases to others, with the same positions and seeds
    PAY = "pay"
    SLASH = "slash"


@dataclass(frozen=True, slots=True)
class NodeLifecycle:
    """A node as the coordinator sees it.

    last_heartbeat          time of its last sign of life, in seconds
    recent_soft_rejections  its latest verdicts, the newest last; True: soft rejection or expired lease
    is_suspect              whether its last file that was judged was rejected softly
    """

    state: NodeState = NodeState.INVITED
    last_heartbeat: float = 0.0
    recent_soft_rejections: tuple[bool, ...] = ()
    is_suspect: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether it has joined, and has neither gone nor been excluded since."""
        return self.state in _ALIVE

    @property
    def may_lease(self) -> bool:
        """Whether it gets ordinary leases."""
        return self.state is NodeState.HEALTHY


Effects = tuple[NodeEffect, ...]
_ALIVE = {NodeState.PROBATION, NodeState.HEALTHY, NodeState.UNHEALTHY}


def next_state(node: NodeLifecycle, event: NodeEvent, now: float) -> tuple[NodeLifecycle, Effects]:
    """Return the node after an event, and what follows from it. What makes no sense in a state changes nothing."""
    match event:
        case NodeEvent.JOIN:
            return _joined(node, now)
        case NodeEvent.HEARTBEAT:
            return _beaten(node, now)
        case NodeEvent.CLOCK:
            return _waited(node, now)
        case NodeEvent.LEAVE if node.state in _ALIVE:
            return replace(node, state=NodeState.LEFT), (NodeEffect.FREE_LEASES,)
        case NodeEvent.ACCEPTED if node.state is not NodeState.BANNED:
            healed = NodeState.HEALTHY if node.state is NodeState.PROBATION else node.state
            return replace(node, state=healed, recent_soft_rejections=_with(node, is_soft=False), is_suspect=False), (
                NodeEffect.PAY,
            )
        case NodeEvent.HARD if node.state is not NodeState.BANNED:
            return replace(node, state=NodeState.BANNED), (NodeEffect.FREE_LEASES, NodeEffect.SLASH)
        case NodeEvent.SOFT if node.is_suspect and node.state is NodeState.PROBATION:
            # It was suspended, has come back, and does not compute what it should this time either.
            return replace(node, state=NodeState.BANNED), (NodeEffect.FREE_LEASES, NodeEffect.SLASH)
        case NodeEvent.SOFT:
            return _softly_rejected(replace(node, is_suspect=True))
        case NodeEvent.EXPIRED:
            return _softly_rejected(node)
    return node, ()


def _joined(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    if node.state in _ALIVE or node.state is NodeState.BANNED:
        return node, ()
    # Its verdicts stay: leaving and coming back must not wash off what it did.
    return replace(node, state=NodeState.PROBATION, last_heartbeat=now), ()


def _beaten(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    if node.state not in _ALIVE:
        return node, ()
    healed = NodeState.HEALTHY if node.state is NodeState.UNHEALTHY else node.state
    return replace(node, state=healed, last_heartbeat=max(now, node.last_heartbeat)), ()


def _waited(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    missed = (now - node.last_heartbeat) / HEARTBEAT_SECONDS
    if node.state not in _ALIVE or missed < MISSED_UNHEALTHY:
        return node, ()
    if missed >= MISSED_DEAD or node.state is NodeState.PROBATION:
        return replace(node, state=NodeState.DEAD), (NodeEffect.FREE_LEASES,)
    if node.state is NodeState.HEALTHY:
        return replace(node, state=NodeState.UNHEALTHY), (NodeEffect.FREE_LEASES,)
    return node, ()


def _softly_rejected(node: NodeLifecycle) -> tuple[NodeLifecycle, Effects]:
    verdicts = _with(node, is_soft=True)
    changed = replace(node, recent_soft_rejections=verdicts)
    if node.state is NodeState.PROBATION:
        return replace(changed, state=NodeState.SUSPENDED), (NodeEffect.FREE_LEASES,)
    too_many = sum(verdicts) > max(1.0, _MAX_SOFT_SHARE * len(verdicts))
    if too_many and node.state in _ALIVE:
        return replace(changed, state=NodeState.SUSPENDED), (NodeEffect.FREE_LEASES,)
    return changed, ()


def _with(node: NodeLifecycle, *, is_soft: bool) -> tuple[bool, ...]:
    return tuple(deque((*node.recent_soft_rejections, is_soft), maxlen=_WINDOW))
