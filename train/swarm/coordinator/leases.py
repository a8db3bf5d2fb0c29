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

from train.swarm.verdict import Verdict

VERIFY_SECONDS = 600.0  # a verifier that has had a file for so long is given up
_MOST_TRIES = 3  # verifiers that a file may outlast
_EXPIRED = Verdict("soft", "expired")
_FREED = Verdict("unknown", "freed")
_CRASHED = Verdict("unknown", "crashed")
_DIFFERENT = Verdict("hard", "different")


class State(Enum):
    """Where a lease is in its life."""

    OPEN = "open"
    SUBMITTED = "submitted"
    VERIFYING = "verifying"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The node hands over a file."""

    blake3: bytes
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A verifier takes the file."""

    verifier: bytes


@dataclass(frozen=True, slots=True)
class Returned:
    """The verifier was started again, or asks for another file: it knows nothing of this one."""

    verifier: bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """The verifier says what the file is worth."""

    verifier: bytes
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Clock:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The node has died, or does not name the lease any more. What it handed over before counts."""


@dataclass(frozen=True, slots=True)
class Freed:
    """The node has left, is suspended, or never heard of the lease. What it handed over before counts."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """The node was banned: nothing of it is used any more."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The trainer does not wait for it any more."""


Event = Submitted | Taken | Returned | Judged | Clock | Abandoned | Freed | Revoked | Unwanted


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease as the coordinator sees it.

    ends_at   it runs out at this time, in seconds
    blake3    digest of the file, once there is one; n_bytes: its length
    verifier  who has the file, since taken_at
    n_taken   verifiers that took it
    verdict   once it is over
    """

    ends_at: float
    state: State = State.OPEN
    blake3: bytes = b""
    n_bytes: int = 0
    verifier: bytes = b""
    taken_at: float = 0.0
    n_taken: int = 0
    verdict: Verdict | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has a verdict, which never changes."""
        return self.verdict is not None


def after(lease: LeaseState, event: Event, now: float) -> LeaseState:
    """Return the lease after an event. What makes no sense in a state changes nothing."""
    if lease.is_over:
        return lease
    match event:
        case Submitted():
            return _submitted(lease, event, now)
        case Taken() if lease.state is State.SUBMITTED:
            return replace(
                lease, state=State.VERIFYING, verifier=event.verifier, taken_at=now, n_taken=lease.n_taken + 1
            )
        case Judged() if lease.state is State.VERIFYING and lease.verifier == event.verifier:
            return _over(lease, event.verdict)
        case Returned() if lease.state is State.VERIFYING and lease.verifier == event.verifier:
            return _given_up(lease)
        case Clock():
            return _waited(lease, now)
        case Abandoned() if lease.state is State.OPEN:
            return _over(lease, _EXPIRED)
        case Freed() if lease.state is State.OPEN:
            return _over(lease, _FREED)
        case Revoked():
            return _over(lease, Verdict("hard", "banned"))
        case Unwanted():
            return _over(lease, Verdict("unknown", "late"))
    return lease


def _submitted(lease: LeaseState, event: Submitted, now: float) -> LeaseState:
    if lease.state is not State.OPEN:
        return lease if event.blake3 == lease.blake3 else _over(lease, _DIFFERENT)
    if now >= lease.ends_at:
        return _over(lease, _EXPIRED)
    return replace(lease, state=State.SUBMITTED, blake3=event.blake3, n_bytes=event.n_bytes)


def _waited(lease: LeaseState, now: float) -> LeaseState:
    if lease.state is State.OPEN and now >= lease.ends_at:
        return _over(lease, _EXPIRED)
    if lease.state is State.VERIFYING and now - lease.taken_at >= VERIFY_SECONDS:
        return _given_up(lease)
    return lease


def _given_up(lease: LeaseState) -> LeaseState:
    """A file that brings down one verifier after another must not go on for ever."""
    if lease.n_taken >= _MOST_TRIES:
        return _over(lease, _CRASHED)
    return replace(lease, state=State.SUBMITTED, verifier=b"")


def _over(lease: LeaseState, verdict: Verdict) -> LeaseState:
    states = {"accepted": State.ACCEPTED, "unknown": State.UNKNOWN}
    state = State.EXPIRED if verdict.reason == "expired" else states.get(verdict.outcome, State.REJECTED)
    return replace(lease, state=state, verdict=verdict)
