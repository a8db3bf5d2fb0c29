"""What the ledger still knows when a coordinator is started again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from train.swarm.ledger.entries import Entry, Join, Judged, Leased, Left, Role
from train.swarm.nodes import Event, Node, State, after

_EVENTS = {
    "accepted": Event.ACCEPTED,
    "soft": Event.SOFT,
    "hard": Event.HARD,
    "expired": Event.EXPIRED,
}
_LEFT = {
    "left": State.LEFT,
    "suspended": State.SUSPENDED,
    "banned": State.BANNED,
    "dead": State.DEAD,
}


@dataclass(slots=True)
class Restored:
    """What entries say about the time before.

    owners   by the digest of an invite: who used it
    roles    of everybody who ever joined
    nodes    as they were; those that lived have to show that they still do
    open     leases without a verdict, and whose they are
    """

    owners: dict[bytes, bytes] = field(default_factory=dict)
    roles: dict[bytes, Role] = field(default_factory=dict)
    nodes: dict[bytes, Node] = field(default_factory=dict)
    open: dict[bytes, bytes] = field(default_factory=dict)


def restored(entries: Iterable[Entry], now: float) -> Restored:
    """Return what the entries say; `now` is the time of the first chance to show a sign of life."""
    found = Restored()
    for entry in entries:
        match entry:
            case Join():
                found.owners[entry.invite] = entry.node
                found.roles[entry.node] = entry.role
                if entry.role == "node":
                    node = found.nodes.get(entry.node, Node())
                    found.nodes[entry.node], _ = after(node, Event.JOIN, now)
            case Leased():
                found.open[entry.lease] = entry.node
            case Judged():
                found.open.pop(entry.lease, None)
                if entry.node in found.nodes and entry.verdict in _EVENTS:
                    node = found.nodes[entry.node]
                    found.nodes[entry.node], _ = after(node, _EVENTS[entry.verdict], now)
            case Left() if entry.node in found.nodes:
                found.nodes[entry.node] = replace(found.nodes[entry.node], state=_LEFT[entry.how])
            case _:
                pass
    return found
