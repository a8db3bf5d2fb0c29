"""The entries of a ledger, and the accounts of nodes as a pure function of the entries.

Public keys identify nodes; amounts are integer units. Reasons are the reasons of lease verdicts
(train/asynchronous/messages.py), or "operator".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec import field as wire_field

from train.asynchronous.messages import Reason
from train.swarm.invites import Role
from train.swarm.node_lifecycle import VERDICT_EVENTS, NodeEvent, NodeLifecycle, NodeState, apply_event

Key = TypeVar("Key", bound=str)


class JoinEntry(Struct, frozen=True, tag="join"):
    """The admission of a node, on probation, or of a verifier. invite_digest: digest of the invite's id."""

    node: bytes
    invite_digest: bytes = wire_field(name="invite")
    role: Role = "node"


class StakeEntry(Struct, frozen=True, tag="stake"):
    """The stake of an invite for a node, which cheating forfeits."""

    node: bytes
    units: int


class LeaseEntry(Struct, frozen=True, tag="lease"):
    """A lease of a group to a node, under one version of the weights. lease: number of the lease for the node."""

    node: bytes
    lease: int
    group: int
    attempt: int
    version: int


class SubmitEntry(Struct, frozen=True, tag="submit"):
    """A submission of the completions of a lease. blake3: digest of their file."""

    node: bytes
    lease: int
    blake3: bytes


class VerdictEntry(Struct, frozen=True, tag="verdict"):
    """The verdict on an ended lease. "unknown" does not count against the node."""

    node: bytes
    lease: int
    verdict: Literal["accepted", "soft", "hard", "unknown", "expired"]
    reason: Reason = ""


class PayEntry(Struct, frozen=True, tag="pay"):
    """A payment to a node for an accepted lease."""

    node: bytes
    lease: int
    units: int


class SlashEntry(Struct, frozen=True, tag="slash"):
    """A forfeiture of units of a node's stake."""

    node: bytes
    units: int
    reason: str


class LeaveEntry(Struct, frozen=True, tag="leave"):
    """The end of a membership: the node left, or was suspended, banned or found dead."""

    node: bytes
    cause: Literal["left", "suspended", "banned", "dead"] = wire_field(name="how")


class PublishEntry(Struct, frozen=True, tag="publish"):
    """The publication of a version of the weights. manifest_digest: digest of its manifest."""

    version: int
    manifest_digest: bytes = wire_field(name="manifest")


Entry = (
    JoinEntry | StakeEntry | LeaseEntry | SubmitEntry | VerdictEntry | PayEntry | SlashEntry | LeaveEntry | PublishEntry
)


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a node or a verifier.

    role            None before it joined
    lifecycle       of a node, after its latest entry; without times, since the ledger has no heartbeats
    last_fault      reason of its last rejected or expired lease; "" if the operator banned it later
    earned          units paid to it
    stake           units that it loses by cheating
    n_leases        leases granted to it
    n_suspensions   number of suspensions
    verdict_counts  its ended leases by verdict
    reason_counts   its ended leases by reason, without accepted ones
    """

    role: Role | None = None
    lifecycle: NodeLifecycle = NodeLifecycle()
    last_fault: str = ""
    earned: int = 0
    stake: int = 0
    n_leases: int = 0
    n_suspensions: int = 0
    verdict_counts: Mapping[str, int] = field(default_factory=dict)
    reason_counts: Mapping[Reason, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state of a node, such as "healthy"; "verifier" for a verifier."""
        return "verifier" if self.role == "verifier" else self.lifecycle.state.value

    @property
    def reputation(self) -> float:
        """The accepted share of its leases with a verdict other than "unknown"; 1 without any."""
        n = sum(number for verdict, number in self.verdict_counts.items() if verdict != "unknown")
        return self.verdict_counts.get("accepted", 0) / n if n else 1.0


@dataclass(slots=True)
class Accounts:
    """All accounts, and the open leases and used invites.

    nodes        nodes and verifiers, by public key
    owners       key that used each invite, by the digest of its id
    open_leases  owner of each lease without a verdict
    version      newest version of the weights
    """

    nodes: dict[bytes, Account] = field(default_factory=dict)
    owners: dict[bytes, bytes] = field(default_factory=dict)
    open_leases: dict[int, bytes] = field(default_factory=dict)
    version: int | None = None

    def add(self, entry: Entry) -> None:
        match entry:
            case PublishEntry():
                self.version = entry.version
                return
            case JoinEntry():
                self.owners[entry.invite_digest] = entry.node
            case LeaseEntry():
                self.open_leases[entry.lease] = entry.node
            case VerdictEntry():
                self.open_leases.pop(entry.lease, None)
            case _:
                pass
        self.nodes[entry.node] = _apply_entry(self.get_account(entry.node), entry)

    def get_account(self, node: bytes) -> Account:
        return self.nodes.get(node, Account())


def _apply_entry(
    account: Account,
    entry: JoinEntry | StakeEntry | LeaseEntry | SubmitEntry | VerdictEntry | PayEntry | SlashEntry | LeaveEntry,
) -> Account:
    match entry:
        case JoinEntry(role="verifier"):
            return replace(account, role="verifier")
        case JoinEntry():
            life, _ = apply_event(account.lifecycle, NodeEvent.JOIN, 0.0)
            return replace(account, role="node", lifecycle=life)
        case StakeEntry():
            return replace(account, stake=account.stake + entry.units)
        case LeaseEntry():
            return replace(account, n_leases=account.n_leases + 1)
        case VerdictEntry():
            return _apply_verdict(account, entry)
        case PayEntry():
            return replace(account, earned=account.earned + entry.units)
        case SlashEntry():
            return replace(account, stake=account.stake - entry.units)
        case LeaveEntry():
            # A ban for a lease is recorded by its verdict; otherwise the operator banned the node.
            by_operator = entry.cause == "banned" and account.lifecycle.state is not NodeState.BANNED
            return replace(
                account,
                lifecycle=replace(account.lifecycle, state=NodeState(entry.cause)),
                last_fault="" if by_operator else account.last_fault,
                n_suspensions=account.n_suspensions + (entry.cause == "suspended"),
            )
        case SubmitEntry():
            return account


def _apply_verdict(account: Account, entry: VerdictEntry) -> Account:
    life, fault, reasons = account.lifecycle, account.last_fault, account.reason_counts
    if event := VERDICT_EVENTS.get(entry.verdict):
        life, _ = apply_event(life, event, 0.0)
        fault = fault if entry.reason in ("", "banned") else entry.reason
    if entry.reason:
        reasons = _increment(reasons, entry.reason)
    return replace(
        account,
        lifecycle=life,
        last_fault=fault,
        verdict_counts=_increment(account.verdict_counts, entry.verdict),
        reason_counts=reasons,
    )


def _increment(counts: Mapping[Key, int], key: Key) -> Mapping[Key, int]:
    return {**counts, key: counts.get(key, 0) + 1}
