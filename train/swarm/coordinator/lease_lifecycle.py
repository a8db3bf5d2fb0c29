"""The states of a lease; each step returns the lease after it.

    open -> submitted <-> verifying -> accepted | rejected | unknown
         -> expired                    (no file in time, or the node is dead)
         -> unknown                    (the node left or never received it, the trainer no longer waits for it, or the
                                       coordinator restarted)

Inapplicable steps change nothing. If a lease is not accepted, the trainer dispatches its group again under a new lease.
"""

from dataclasses import dataclass, replace
from enum import Enum

from train.asynchronous.messages import LeaseVerdict

VERIFY_SECONDS = 600.0  # time limit of a verifier for a file
_MAX_CLAIMS = 3  # of a file; verifiers that time out may have crashed on it
_EXPIRED = LeaseVerdict("soft", "expired")
_FREED = LeaseVerdict("unknown", "freed")
_CRASHED = LeaseVerdict("unknown", "crashed")
_DIFFERENT = LeaseVerdict("hard", "different")
_BANNED = LeaseVerdict("hard", "banned")
_LATE = LeaseVerdict("unknown", "late")


class LeaseState(Enum):
    OPEN = "open"
    SUBMITTED = "submitted"
    VERIFYING = "verifying"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class TrackedLease:
    """The state of a lease.

    expires_at  time of expiry, in seconds
    blake3      digest of the file; empty until submitted
    n_bytes     length of the file
    verifier    verifier that claimed the file at `claimed_at`
    n_claims    number of claims so far
    verdict     None until the lease ends
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
        return self.verdict is not None

    def submit(self, blake3: bytes, n_bytes: int, now: float) -> "TrackedLease":
        """Record that all completions arrived, with the digest and length of their file."""
        if self.state is not LeaseState.OPEN:
            return self if blake3 == self.blake3 else self.end(_DIFFERENT)
        if now >= self.expires_at:
            return self.end(_EXPIRED)
        return replace(self, state=LeaseState.SUBMITTED, blake3=blake3, n_bytes=n_bytes)

    def claim(self, verifier: bytes, now: float) -> "TrackedLease":
        """Assign the file to a verifier."""
        if self.state is not LeaseState.SUBMITTED:
            return self
        return replace(self, state=LeaseState.VERIFYING, verifier=verifier, claimed_at=now, n_claims=self.n_claims + 1)

    def release_claim(self, verifier: bytes) -> "TrackedLease":
        """Requeue the file if this verifier has claimed it."""
        return self._drop_claim() if self._is_claimed_by(verifier) else self

    def judge(self, verifier: bytes, verdict: LeaseVerdict) -> "TrackedLease":
        """End the lease with this verdict if this verifier has claimed the file."""
        return self.end(verdict) if self._is_claimed_by(verifier) else self

    def expire_overdue(self, now: float) -> "TrackedLease":
        """Expire the lease, or the claim of its verifier, if overdue."""
        if self.state is LeaseState.OPEN and now >= self.expires_at:
            return self.end(_EXPIRED)
        if self.state is LeaseState.VERIFYING and now - self.claimed_at >= VERIFY_SECONDS:
            return self._drop_claim()
        return self

    def abandon(self) -> "TrackedLease":
        """Expire an open lease whose node is dead, has left, or omits the lease from heartbeats."""
        return self.end(_EXPIRED) if self.state is LeaseState.OPEN else self

    def free(self) -> "TrackedLease":
        """Free an open lease whose node left, is suspended, or never received it."""
        return self.end(_FREED) if self.state is LeaseState.OPEN else self

    def revoke(self) -> "TrackedLease":
        """End the lease of a banned node, even if its file was submitted."""
        return self.end(_BANNED)

    def cancel(self) -> "TrackedLease":
        """End a lease that the trainer no longer waits for."""
        return self.end(_LATE)

    def end(self, verdict: LeaseVerdict) -> "TrackedLease":
        """End the lease in any state; verdicts are final."""
        if self.has_ended:
            return self
        states = {"accepted": LeaseState.ACCEPTED, "unknown": LeaseState.UNKNOWN}
        state = LeaseState.EXPIRED if verdict.reason == "expired" else states.get(verdict.outcome, LeaseState.REJECTED)
        return replace(self, state=state, verdict=verdict)

    def _is_claimed_by(self, verifier: bytes) -> bool:
        return self.state is LeaseState.VERIFYING and self.verifier == verifier

    def _drop_claim(self) -> "TrackedLease":
        """Requeue the file, or end the lease after _MAX_CLAIMS claims."""
        if self.n_claims >= _MAX_CLAIMS:
            return self.end(_CRASHED)
        return replace(self, state=LeaseState.SUBMITTED, verifier=b"")
