"""The kinds of entries in a ledger. Nodes are named by their public keys; amounts are whole numbers of units."""

from typing import Literal

from msgspec import Struct, field

Role = Literal["node", "verifier"]
Reason = str  # one of train/swarm/verdict.py, or what the operator said


class JoinEntry(Struct, frozen=True, tag="join"):
    """A node was admitted on probation, or a verifier was admitted; `invite_digest` is the digest of its invite's
    id."""

    node: bytes
    invite_digest: bytes = field(name="invite")
    role: Role = "node"


class StakeEntry(Struct, frozen=True, tag="stake"):
    """Units of an invite stand for a node from its first use on. The node loses them if it cheats."""

    node: bytes
    units: int


class LeaseEntry(Struct, frozen=True, tag="lease"):
    """A node has to sample a group, all of it under one version of the weights. It knows the lease by its number."""

    node: bytes
    lease: int
    group: int
    attempt: int
    version: int


class SubmitEntry(Struct, frozen=True, tag="submit"):
    """A node handed over the answers to a lease; as a file, they have this digest."""

    node: bytes
    lease: int
    blake3: bytes


class VerdictEntry(Struct, frozen=True, tag="verdict"):
    """What became of a lease. "unknown" says nothing about the node: the fault was on this side."""

    node: bytes
    lease: int
    verdict: Literal["accepted", "soft", "hard", "unknown", "expired"]
    reason: Reason = ""


class PayEntry(Struct, frozen=True, tag="pay"):
    """A node earned units for a lease that was accepted."""

    node: bytes
    lease: int
    units: int


class SlashEntry(Struct, frozen=True, tag="slash"):
    """A node lost units of its stake."""

    node: bytes
    units: int
    reason: Reason


class LeaveEntry(Struct, frozen=True, tag="leave"):
    """A node left, was suspended, banned or died."""

    node: bytes
    cause: Literal["left", "suspended", "banned", "dead"] = field(name="how")


class PublishEntry(Struct, frozen=True, tag="publish"):
    """A version of the weights was published; `manifest_digest` is the digest of its manifest."""

    version: int
    manifest_digest: bytes = field(name="manifest")


Entry = (
    JoinEntry | StakeEntry | LeaseEntry | SubmitEntry | VerdictEntry | PayEntry | SlashEntry | LeaveEntry | PublishEntry
)
