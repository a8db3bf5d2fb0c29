"""What the ledger still knows when a coordinator is started again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from train.swarm.ledger.entries import (
    Entry,
    JoinEntry,
    LeaseEntry,
    LeaveEntry,
    Role,
    SlashEntry,
    VerdictEntry,
)
from train.swarm.node_lifecycle import NodeEvent, NodeLifecycle, NodeState, next_state

_EVENTS = {
    "accepted": NodeEvent.ACCEPTED,
    "soft": NodeEvent.SOFT,
    "hard": NodeEvent.HARD,
    "expired": NodeEvent.EXPIRED,
}
_LEFT = {
    "left": NodeState.LEFT,
    "suspended": NodeState.SUSPENDED,
    "banned": NodeState.BANNED,
    "dead": NodeState.DEAD,
}


@dataclass(slots=True)
class RecoveredState:
    """What entries say about the time before.

    owners       by the digest of an invite: who used it
    roles        of everybody who ever joined
    nodes        as they were; those that lived have to show that they still do
    open_leases  leases without a verdict, and whose they are
    faults       by node: the reason of its last lease that was rejected or ran out; "" if the operator banned it later
    """

    owners: dict[bytes, bytes] = field(default_factory=dict)
    roles: dict[bytes, Role] = field(default_factory=dict)
    nodes: dict[bytes, NodeLifecycle] = field(default_factory=dict)
    open_leases: dict[int, bytes] = field(default_factory=dict)
    faults: dict[bytes, str] = field(default_factory=dict)


def recover(entries: Iterable[Entry], now: float) -> RecoveredState:
    """Return what the entries say; `now` is the time of the first chance to show a sign of life."""
    found = RecoveredState()
    for entry in entries:
        match entry:
            case JoinEntry():
                found.owners[entry.invite_digest] = entry.node
                found.roles[entry.node] = entry.role
                if entry.role == "node":
                    node = found.nodes.get(entry.node, NodeLifecycle())
                    found.nodes[entry.node], _ = next_state(node, NodeEvent.JOIN, now)
            case LeaseEntry():
                found.open_leases[entry.lease] = entry.node
            case VerdictEntry():
                found.open_leases.pop(entry.lease, None)
                if entry.node in found.nodes and entry.verdict in _EVENTS:
                    node = found.nodes[entry.node]
                    found.nodes[entry.node], _ = next_state(node, _EVENTS[entry.verdict], now)
                    if entry.reason not in ("", "banned"):
                        found.faults[entry.node] = entry.reason
            case SlashEntry(reason="operator"):
                found.faults[entry.node] = ""
            case LeaveEntry() if entry.node in found.nodes:
                found.nodes[entry.node] = replace(found.nodes[entry.node], state=_LEFT[entry.cause])
            case _:
                pass
    return found
