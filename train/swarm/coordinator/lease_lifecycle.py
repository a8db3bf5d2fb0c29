"""The life of a lease, as a pure function: (lease, event, now) -> lease.

    open -> submitted <-> verifying -> accepted | rejected | unknown
         -> expired                    (the node said nothing in time, or died)
         -> unknown                    (the node has left or never heard of it, the trainer does not want it any more,
                                        or the coordinator was restarted)

A lease belongs to one node for all of its life. What becomes of its group is decided by the trainer, which asks for it
again under a new lease.
"""

from dataclasses import dataclass, replace
from enum import Enum

from train.asynchronous.messages import LeaseVerdict

VERIFY_SECONDS = 600.0  # a verifier that has had a file for so long is given up
_MAX_TRIES = 3  # verifiers that a file may outlast
_EXPIRED = LeaseVerdict("soft", "expired")
_FREED = LeaseVerdict("unknown", "freed")
_CRASHED = LeaseVerdict("unknown", "crashed")
_DIFFERENT = LeaseVerdict("hard", "different")


class LeaseState(Enum):
    """Where a lease is in its life."""

    OPEN = "open"
    SUBMITTED = "submitted"
    VERIFYING = "verifying"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class FileSubmitted:
    """The node has handed over all answers: their digest as a file, and its length."""

    blake3: bytes
    n_bytes: int


@dataclass(frozen=True, slots=True)
class AnswersRefused:
    """The node has sent answers that need no verifier."""

    verdict: LeaseVerdict


@dataclass(frozen=True, slots=True)
class FileClaimed:
    """A verifier takes the file."""

    verifier: bytes


@dataclass(frozen=True, slots=True)
class ClaimReleased:
    """The verifier was started again, or asks for another file: it knows nothing of this one."""

    verifier: bytes


@dataclass(frozen=True, slots=True)
class VerdictReceived:
    """The verifier says what the file is worth."""

    verifier: bytes
    verdict: LeaseVerdict


@dataclass(frozen=True, slots=True)
class ClockTick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class LeaseAbandoned:
    """The node has died, or does not name the lease any more. What it handed over before counts."""


@dataclass(frozen=True, slots=True)
class LeaseFreed:
    """The node has left, is suspended, or never heard of the lease. What it handed over before counts."""


@dataclass(frozen=True, slots=True)
class LeaseRevoked:
    """The node was banned: nothing of it is used any more."""


@dataclass(frozen=True, slots=True)
class LeaseCancelled:
    """The trainer does not wait for it any more."""


Event = (
    FileSubmitted
    | AnswersRefused
    | FileClaimed
    | ClaimReleased
    | VerdictReceived
    | ClockTick
    | LeaseAbandoned
    | LeaseFreed
    | LeaseRevoked
    | LeaseCancelled
)


@dataclass(frozen=True, slots=True)
class TrackedLease:
    """A lease as the coordinator sees it.

    expires_at  it runs out at this time, in seconds
    blake3      digest of the file, once there is one; n_bytes: its length
    verifier    who has the file, since taken_at
    n_claims    verifiers that took it
    verdict     once it is over
    """

    expires_at: float
    state: LeaseState = LeaseState.OPEN
    blake3: bytes = b""
    n_bytes: int = 0
    verifier: bytes = b""
    claimed_at: float = 0.0
    n_claims: int = 0
    verdict: LeaseVerdict | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has a verdict, which never changes."""
        return self.verdict is not None


def next_state(lease: TrackedLease, event: Event, now: float) -> TrackedLease:
    """Return the lease after an event. What makes no sense in a state changes nothing."""
    if lease.has_ended:
        return lease
    match event:
        case FileSubmitted():
            return _submitted(lease, event, now)
        case AnswersRefused():
            return _over(lease, event.verdict)
        case FileClaimed() if lease.state is LeaseState.SUBMITTED:
            return replace(
                lease, state=LeaseState.VERIFYING, verifier=event.verifier, claimed_at=now, n_claims=lease.n_claims + 1
            )
        case VerdictReceived() if lease.state is LeaseState.VERIFYING and lease.verifier == event.verifier:
            return _over(lease, event.verdict)
        case ClaimReleased() if lease.state is LeaseState.VERIFYING and lease.verifier == event.verifier:
            return _given_up(lease)
        case ClockTick():
            return _waited(lease, now)
        case LeaseAbandoned() if lease.state is LeaseState.OPEN:
            return _over(lease, _EXPIRED)
        case LeaseFreed() if lease.state is LeaseState.OPEN:
            return _over(lease, _FREED)
        case LeaseRevoked():
            return _over(lease, LeaseVerdict("hard", "banned"))
        case LeaseCancelled():
            return _over(lease, LeaseVerdict("unknown", "late"))
    return lease


def _submitted(lease: TrackedLease, event: FileSubmitted, now: float) -> TrackedLease:
    if lease.state is not LeaseState.OPEN:
        return lease if event.blake3 == lease.blake3 else _over(lease, _DIFFERENT)
    if now >= lease.expires_at:
        return _over(lease, _EXPIRED)
    return replace(lease, state=LeaseState.SUBMITTED, blake3=event.blake3, n_bytes=event.n_bytes)


def _waited(lease: TrackedLease, now: float) -> TrackedLease:
    if lease.state is LeaseState.OPEN and now >= lease.expires_at:
        return _over(lease, _EXPIRED)
    if lease.state is LeaseState.VERIFYING and now - lease.claimed_at >= VERIFY_SECONDS:
        return _given_up(lease)
    return lease


def _given_up(lease: TrackedLease) -> TrackedLease:
    """Give up on a file after it has crashed _MAX_TRIES verifiers."""
    if lease.n_claims >= _MAX_TRIES:
        return _over(lease, _CRASHED)
    return replace(lease, state=LeaseState.SUBMITTED, verifier=b"")


def _over(lease: TrackedLease, verdict: LeaseVerdict) -> TrackedLease:
    states = {"accepted": LeaseState.ACCEPTED, "unknown": LeaseState.UNKNOWN}
    state = LeaseState.EXPIRED if verdict.reason == "expired" else states.get(verdict.outcome, LeaseState.REJECTED)
    return replace(lease, state=state, verdict=verdict)
