"""The states of a node, as a pure function: (node, event, now) -> (node, effects).

    invited -> probation -> healthy <-> unhealthy -> dead
                                    -> suspended    too many soft rejections
                                    -> banned       one hard rejection, or on probation a second soft one in succession

A node that is dead, has left or is suspended can join again with its invite, on probation; a banned one cannot.
"""

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

HEARTBEAT_SECONDS = 10.0
MISSED_UNHEALTHY, MISSED_DEAD = 3, 9  # heartbeats
_WINDOW = 100  # latest verdicts that count for a suspension
_MAX_SOFT_SHARE = 0.05  # of them; at least one soft rejection is allowed


class NodeState(Enum):
    INVITED = "invited"
    PROBATION = "probation"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEAD = "dead"
    LEFT = "left"
    SUSPENDED = "suspended"
    BANNED = "banned"


class NodeEvent(Enum):
    JOIN = "join"
    HEARTBEAT = "beat"
    CLOCK = "clock"  # time has passed
    LEAVE = "leave"
    ACCEPTED = "accepted"  # a lease was accepted
    SOFT = "soft"  # a lease was rejected for a fault that honest nodes may have
    HARD = "hard"  # a lease was rejected for a fault that only cheats have
    EXPIRED = "expired"  # a lease expired


VERDICT_EVENTS = {
    "accepted": NodeEvent.ACCEPTED,
    "soft": NodeEvent.SOFT,
    "hard": NodeEvent.HARD,
    "expired": NodeEvent.EXPIRED,
}


class NodeEffect(Enum):
    """The coordinator's actions after an event."""

    FREE_LEASES = "free leases"  # lease its groups to others, with the same prompts and seeds
    PAY = "pay"
    SLASH = "slash"


@dataclass(frozen=True, slots=True)
class NodeLifecycle:
    """The state of a node.

    last_heartbeat          time of its last heartbeat or join, in seconds
    recent_soft_rejections  its latest verdicts, the newest last; True: soft rejection or expired lease
    is_suspect              whether its last verified file was softly rejected
    """

    state: NodeState = NodeState.INVITED
    last_heartbeat: float = 0.0
    recent_soft_rejections: tuple[bool, ...] = ()
    is_suspect: bool = False

    @property
    def is_alive(self) -> bool:
        return self.state in _ALIVE

    @property
    def may_lease(self) -> bool:
        return self.state is NodeState.HEALTHY


Effects = tuple[NodeEffect, ...]
_ALIVE = {NodeState.PROBATION, NodeState.HEALTHY, NodeState.UNHEALTHY}


def apply_event(node: NodeLifecycle, event: NodeEvent, now: float) -> tuple[NodeLifecycle, Effects]:
    """Return the node after an event, and the effects. Inapplicable events change nothing."""
    match event:
        case NodeEvent.JOIN:
            return _apply_join(node, now)
        case NodeEvent.HEARTBEAT:
            return _apply_heartbeat(node, now)
        case NodeEvent.CLOCK:
            return _apply_clock(node, now)
        case NodeEvent.LEAVE if node.state in _ALIVE:
            return replace(node, state=NodeState.LEFT), (NodeEffect.FREE_LEASES,)
        case NodeEvent.ACCEPTED if node.state is not NodeState.BANNED:
            healed = NodeState.HEALTHY if node.state is NodeState.PROBATION else node.state
            return replace(node, state=healed, recent_soft_rejections=_add(node, is_soft=False), is_suspect=False), (
                NodeEffect.PAY,
            )
        case NodeEvent.HARD if node.state is not NodeState.BANNED:
            return replace(node, state=NodeState.BANNED), (NodeEffect.FREE_LEASES, NodeEffect.SLASH)
        case NodeEvent.SOFT if node.is_suspect and node.state is NodeState.PROBATION:
            # The node joined again after a suspension, and its next file is softly rejected, too.
            return replace(node, state=NodeState.BANNED), (NodeEffect.FREE_LEASES, NodeEffect.SLASH)
        case NodeEvent.SOFT:
            return _apply_soft_rejection(replace(node, is_suspect=True))
        case NodeEvent.EXPIRED:
            return _apply_soft_rejection(node)
    return node, ()


def _apply_join(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    if node.state in _ALIVE or node.state is NodeState.BANNED:
        return node, ()
    # Rejoining does not reset its verdicts.
    return replace(node, state=NodeState.PROBATION, last_heartbeat=now), ()


def _apply_heartbeat(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    if node.state not in _ALIVE:
        return node, ()
    healed = NodeState.HEALTHY if node.state is NodeState.UNHEALTHY else node.state
    return replace(node, state=healed, last_heartbeat=max(now, node.last_heartbeat)), ()


def _apply_clock(node: NodeLifecycle, now: float) -> tuple[NodeLifecycle, Effects]:
    missed = (now - node.last_heartbeat) / HEARTBEAT_SECONDS
    if node.state not in _ALIVE or missed < MISSED_UNHEALTHY:
        return node, ()
    if missed >= MISSED_DEAD or node.state is NodeState.PROBATION:
        return replace(node, state=NodeState.DEAD), (NodeEffect.FREE_LEASES,)
    if node.state is NodeState.HEALTHY:
        return replace(node, state=NodeState.UNHEALTHY), (NodeEffect.FREE_LEASES,)
    return node, ()


def _apply_soft_rejection(node: NodeLifecycle) -> tuple[NodeLifecycle, Effects]:
    verdicts = _add(node, is_soft=True)
    changed = replace(node, recent_soft_rejections=verdicts)
    if node.state is NodeState.PROBATION:
        return replace(changed, state=NodeState.SUSPENDED), (NodeEffect.FREE_LEASES,)
    too_many = sum(verdicts) > max(1.0, _MAX_SOFT_SHARE * len(verdicts))
    if too_many and node.state in _ALIVE:
        return replace(changed, state=NodeState.SUSPENDED), (NodeEffect.FREE_LEASES,)
    return changed, ()


def _add(node: NodeLifecycle, *, is_soft: bool) -> tuple[bool, ...]:
    return tuple(deque((*node.recent_soft_rejections, is_soft), maxlen=_WINDOW))
