"""The life of a lease: each step returns the lease after it.

    open -> submitted <-> verifying -> accepted | rejected | unknown
         -> expired                    (the node said nothing in time, or died)
         -> unknown                    (the node has left or never heard of it, the trainer does not want it any more,
                                        or the coordinator was restarted)

A step that makes no sense in a state changes nothing. A lease belongs to one node for all of its life. What becomes of
its group is decided by the trainer, which asks for it again under a new lease.
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
_BANNED = LeaseVerdict("hard", "banned")
_LATE = LeaseVerdict("unknown", "late")


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
class TrackedLease:
    """A lease as the coordinator sees it.

    expires_at  it runs out at this time, in seconds
    blake3      digest of the file, once there is one; n_bytes: its length
    verifier    who has the file, since claimed_at
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

    def submit(self, blake3: bytes, n_bytes: int, now: float) -> "TrackedLease":
        """Note that the node has handed over all answers: their digest as a file, and its length."""
        if self.state is not LeaseState.OPEN:
            return self if blake3 == self.blake3 else self.end(_DIFFERENT)
        if now >= self.expires_at:
            return self.end(_EXPIRED)
        return replace(self, state=LeaseState.SUBMITTED, blake3=blake3, n_bytes=n_bytes)

    def claim(self, verifier: bytes, now: float) -> "TrackedLease":
        """Give the file to a verifier."""
        if self.state is not LeaseState.SUBMITTED:
            return self
        return replace(self, state=LeaseState.VERIFYING, verifier=verifier, claimed_at=now, n_claims=self.n_claims + 1)

    def release_claim(self, verifier: bytes) -> "TrackedLease":
        """Take the file from a verifier that was started again, or asks for another one."""
        return self._unclaimed() if self._is_with(verifier) else self

    def judge(self, verifier: bytes, verdict: LeaseVerdict) -> "TrackedLease":
        """Note what the verifier says that has the file."""
        return self.end(verdict) if self._is_with(verifier) else self

    def wait(self, now: float) -> "TrackedLease":
        """Let time pass."""
        if self.state is LeaseState.OPEN and now >= self.expires_at:
            return self.end(_EXPIRED)
        if self.state is LeaseState.VERIFYING and now - self.claimed_at >= VERIFY_SECONDS:
            return self._unclaimed()
        return self

    def abandon(self) -> "TrackedLease":
        """End a lease whose node has died, or does not name it any more. What it handed over before counts."""
        return self.end(_EXPIRED) if self.state is LeaseState.OPEN else self

    def free(self) -> "TrackedLease":
        """End a lease whose node has left, is suspended, or never heard of it. What it handed over before counts."""
        return self.end(_FREED) if self.state is LeaseState.OPEN else self

    def revoke(self) -> "TrackedLease":
        """End a lease whose node was banned: nothing of it is used any more."""
        return self.end(_BANNED)

    def cancel(self) -> "TrackedLease":
        """End a lease that the trainer does not wait for any more."""
        return self.end(_LATE)

    def end(self, verdict: LeaseVerdict) -> "TrackedLease":
        """End a lease that has not ended, whatever its state is."""
        if self.has_ended:
            return self
        states = {"accepted": LeaseState.ACCEPTED, "unknown": LeaseState.UNKNOWN}
        state = LeaseState.EXPIRED if verdict.reason == "expired" else states.get(verdict.outcome, LeaseState.REJECTED)
        return replace(self, state=state, verdict=verdict)

    def _is_with(self, verifier: bytes) -> bool:
        return self.state is LeaseState.VERIFYING and self.verifier == verifier

    def _unclaimed(self) -> "TrackedLease":
        """Give up on a file after it has crashed _MAX_TRIES verifiers."""
        if self.n_claims >= _MAX_TRIES:
            return self.end(_CRASHED)
        return replace(self, state=LeaseState.SUBMITTED, verifier=b"")
