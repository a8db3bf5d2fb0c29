"""Nodes, verifiers and leases, and what the ledger has to say about them.

Nothing here knows a clock, a network or a thread: every method is given the time, in seconds of a clock that never goes
back, and what the trainer has to be told is collected until it is taken.
"""

import logging
import re
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import ceil, isfinite

from msgspec.structs import replace as changed

from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseKey,
    LeaseVerdict,
    Reason,
    ResultStatus,
    SampleResult,
)
from train.swarm import node_lifecycle
from train.swarm.accounts import (
    Account,
    JoinEntry,
    LeaseEntry,
    LeaveEntry,
    PayEntry,
    PublishEntry,
    SlashEntry,
    StakeEntry,
    SubmitEntry,
    VerdictEntry,
)
from train.swarm.coordinator.intake import Forbidden, NotFound, NotJoined, RetryLater
from train.swarm.coordinator.lease_lifecycle import VERIFY_SECONDS, LeaseState, TrackedLease
from train.swarm.invites import Invite
from train.swarm.lease_file import check_results, max_file_bytes, to_trainer
from train.swarm.ledger import Ledger
from train.swarm.messages import VerificationJob, VerificationJobResponse, VerificationResult
from train.swarm.node_lifecycle import VERDICT_EVENTS, NodeEffect, NodeEvent, NodeLifecycle, NodeState
from train.swarm.settings import SwarmSettings, is_verifiable

log = logging.getLogger(__name__)

_ENGINE = re.compile(r"(vllm|transformers)( [\w.+-]{1,40}){0,4}", re.ASCII)
_MAX_HARDWARE = 200  # characters
_MAX_LEASES = 8  # of one node, not counting those that wait for a verdict
_SPEED_MARGIN, _MAX_LEASE_FACTOR = 1.5, 4.0  # of the time by a node's speed, and of the run's usual time for a lease
_UNNAMED_LEASE_SECONDS = 30.0  # a lease that its node does not name in its beats for so long is given to others
_ACTIVE_WINDOW_SECONDS = 60.0  # verifiers ask each second, unless they are busy
_SUSPENDED_SECONDS = 600.0  # doubled with each suspension
_FINISHED = 10_000  # leases whose ids are remembered, so that a file that comes again is known
_LEASE_BITS = 63  # of the number by which a node knows a lease
_NOTES = 256  # verdicts that wait for the next beat of a node
_LEFT = {NodeState.BANNED, NodeState.SUSPENDED, NodeState.LEFT, NodeState.DEAD}


@dataclass(slots=True)
class NodeMember:
    """A node that has joined.

    lifecycle        see node_lifecycle.py
    is_connected     whether it has joined since this coordinator was started
    leases           numbers of those that have no verdict
    max_body_bytes   bytes that the answers to the largest lease may have that it got since this coordinator was started
    unsent_verdicts  verdicts that it was not told yet
    n_lost_replies   leases that it never named, and that were not counted against it: the reply may have been lost
    notified_of_end  it was told that the run is over
    """

    lifecycle: NodeLifecycle
    is_connected: bool = False
    engine: str = ""
    hardware: str = ""
    loaded_version: int = -1
    tokens_per_second: float = 0.0
    leases: set[int] = field(default_factory=set)
    max_body_bytes: int = 0
    unsent_verdicts: deque[tuple[LeaseKey, LeaseVerdict]] = field(default_factory=lambda: deque(maxlen=_NOTES))
    n_lost_replies: int = 0
    notified_of_end: bool = False
    suspended_until: float = 0.0


@dataclass(slots=True)
class VerifierMember:
    """A verifier that has joined."""

    last_seen: float
    notified_of_end: bool = False


@dataclass(slots=True)
class _OpenLease:
    """A lease without a verdict.

    told     as its node and verifiers know it
    asked    as the trainer gave it
    heard    when its node last named it
    is_held  its node has named it, so that the reply with the lease was not lost
    """

    told: Lease
    asked: Lease
    node: bytes
    state: TrackedLease
    heard: float
    is_held: bool = False

    @property
    def key(self) -> LeaseKey:
        return self.asked.group, self.asked.attempt


@dataclass(frozen=True, slots=True)
class _LeaseChange:
    """Something happens to a lease.

    step       returns the lease after it
    answers    those that its verifier has found to be the model's
    is_wanted  whether the trainer waits for the group
    """

    lease: int
    step: Callable[[TrackedLease], TrackedLease]
    answers: tuple[SampleResult, ...] = ()
    is_wanted: bool = True


@dataclass(frozen=True, slots=True)
class _NodeChange:
    """Something happens to a node. `reason` is that of the verdict because of which it does."""

    node: bytes
    event: NodeEvent
    reason: Reason = ""


_Change = _LeaseChange | _NodeChange


class CoordinatorState:
    """What a coordinator knows. One thread at a time uses it.

    ledger   every change is in it before it has an effect
    """

    def __init__(self, settings: SwarmSettings, ledger: Ledger, now: float) -> None:
        self.has_ended = False
        self.version = -1  # the newest that is published
        self.members: dict[bytes, NodeMember] = {}
        self.verifiers: dict[bytes, VerifierMember] = {}
        self.verdicts: Counter[str] = Counter()
        self.accepted: list[tuple[SampleResult, ...]] = []  # for the trainer
        self.given_back: list[LeaseKey] = []  # by the trainer's names
        self.discarded: list[int] = []  # leases whose answers nobody needs any more
        self._settings, self._ledger = settings, ledger
        self._records: dict[int, _OpenLease] = {}
        self._waiting: deque[int] = deque()  # leases whose answers wait for a verifier
        self._finished: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()  # node, and digest of the answers
        self._over_counts: Counter[str] = Counter()
        self._can_evaluate = True  # until the trainer asks for samples that cannot be verified
        self._restore(now)

    # --- nodes ---

    def has_member(self, key: bytes) -> bool:
        """Return whether somebody has ever joined with this key."""
        return self._ledger.account(key).role is not None

    def join(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float, *,
             is_valid: bool) -> None:  # fmt: skip
        """Admit a node or a verifier.

        digest     of the invite
        is_valid   whether the invite can still be used for the first time

        Raises Forbidden and RetryLater.
        """
        owner, role = self._ledger.accounts.owners.get(digest), self._ledger.account(key).role or invite.role
        if owner not in (None, key):
            raise Forbidden("this invite was used by somebody else; ask for one of your own")
        if owner is None and not is_valid:
            raise Forbidden("this invite has run out; ask for a new one")
        if role != invite.role:
            raise Forbidden(f"this key belongs to a {role}; use another key")
        if _ENGINE.fullmatch(engine) is None:
            raise Forbidden('the engine must be named like "vllm 0.32.0 cuda" or "transformers 5.0"')
        if role == "node" and not self._knows_bars_for(engine):
            raise Forbidden(
                f"this run was not calibrated for engines of the kind {engine.split()[0]}; it takes "
                + ", ".join(sorted(self._kinds_with_bars()))
            )
        if role == "verifier":
            self._join_verifier(key, digest, now)
        else:
            self._join_node(key, invite, digest, engine, hardware, now)

    def heartbeat(self, key: bytes, beat: Heartbeat, now: float) -> HeartbeatResponse:
        """Note a sign of life. Raises NotJoined and Forbidden."""
        member = self._alive(key)
        self._apply(_NodeChange(key, NodeEvent.HEARTBEAT), now)
        member.loaded_version = beat.loaded_version
        if isfinite(speed := beat.tokens_per_second) and speed > 0:
            member.tokens_per_second = min(speed, 1e7)
        running = set(beat.running_leases)
        for lease in sorted(member.leases):
            record = self._records.get(lease)
            if record is None:  # the node was suspended for the one before it
                continue
            if _key(lease) in running:
                record.heard, record.is_held = now, True
            elif now - record.heard >= _UNNAMED_LEASE_SECONDS:
                n_lost = 1 + len(member.lifecycle.recent_soft_rejections) // 20
                is_lost = not record.is_held and member.n_lost_replies < n_lost
                member.n_lost_replies += is_lost
                self._apply(_LeaseChange(lease, TrackedLease.free if is_lost else TrackedLease.abandon), now)
        verdicts = tuple(member.unsent_verdicts)
        member.unsent_verdicts.clear()
        member.notified_of_end = self.has_ended
        drop = running if self.has_ended else running - set(map(_key, member.leases))
        return HeartbeatResponse(tuple(sorted(drop)), self.has_ended, verdicts)

    def release(self, key: bytes, leases: Collection[LeaseKey] | None, now: float) -> None:
        """Let a node or a verifier go; or take these leases of a node back.

        A lease that is given back costs what an expired one costs; a node that goes pays for one of its leases.
        """
        if self.verifiers.pop(key, None) is not None:
            self._requeue(key, now)
        elif key in self.members:
            held = self._open_leases(self.members[key])
            given = held[:1] if leases is None else [lease for lease in held if _key(lease) in leases]
            for lease in given:
                self._apply(_LeaseChange(lease, TrackedLease.abandon), now)
            if leases is None:
                self._apply(_NodeChange(key, NodeEvent.LEAVE), now)

    def ban(self, key: bytes, now: float) -> None:
        """The operator bans a node. Raises NotFound."""
        if key not in self.members:
            raise NotFound("there is no such node; curate swarm status lists them")
        self._apply(_NodeChange(key, NodeEvent.HARD), now)

    # --- leases ---

    def free_capacity(self, key: bytes) -> int:
        """Return how many further groups a node may have: more, the more of its leases were accepted.

        Raises NotJoined and Forbidden.
        """
        member = self._alive(key)
        n_open = sum(self._records[each].state.state is LeaseState.OPEN for each in member.leases)
        if member.lifecycle.state is NodeState.PROBATION:
            return 1 - len(member.leases)
        if not member.lifecycle.may_lease:
            return 0
        account = self._ledger.account(key)
        most = min(ceil(_MAX_LEASES * account.reputation), 1 + account.verdict_counts.get("accepted", 0) // 2)
        return min(max(1, most) - n_open, 3 * _MAX_LEASES - len(member.leases))

    def is_too_old(self, version: int) -> bool:
        """Return whether verifiers have given this version up, or will have before an answer arrives."""
        return not 0 <= version <= self.version or self.version - version >= self._settings.retained_versions

    def can_evaluate(self, key: bytes) -> bool:
        """Return whether a node may sample for evaluations: its work was accepted, the last time it had any, too."""
        latest = self.members[key].lifecycle.recent_soft_rejections[-1:]
        return self._can_evaluate and latest == (False,)

    def grant(self, key: bytes, lease: Lease, now: float) -> Lease | None:
        """Lease a group of the trainer to a node. None, and the group is given back, if that cannot be."""
        member = self.members.get(key)
        if not is_verifiable(lease.sampling_params) and self._can_evaluate:
            self._can_evaluate = False
            log.error("samples of an evaluation are refused: %s cannot be verified", lease.sampling_params)
        is_granted = (
            member is not None
            and member.is_connected
            and member.lifecycle.state in (NodeState.PROBATION, NodeState.HEALTHY)
            and not self.has_ended
            and is_verifiable(lease.sampling_params)
        )
        if not is_granted:
            self.given_back.append((lease.group, lease.attempt))
        return self._grant(key, lease, now) if is_granted else None

    def begin_upload(self, key: bytes, deadline: float) -> int | None:
        """Return how long a body with answers of a node may be; None if it has held no lease since the start.

        deadline   when the body has arrived at the latest; so long, the node need not name in its beats what it holds
        """
        member = self.members.get(key)
        if member is None or not member.max_body_bytes:
            return None
        for lease in member.leases:
            if (record := self._records[lease]).is_held:
                record.heard = max(record.heard, deadline)
        return member.max_body_bytes

    def held_lease(self, key: bytes, lease: int, now: float) -> Lease | None:
        """Return a lease to which a node sends answers, as it knows it; None if it is not this node's."""
        record = self._records.get(lease)
        if record is None or record.node != key:
            return None
        record.heard, record.is_held = max(record.heard, now), True
        return record.told

    def late_status(self, key: bytes, lease: int) -> ResultStatus:
        """Return what becomes of an answer to a lease that is not this node's, or not any more.

        After a restart, leases of before are not known, so what makes no sense is stale and nothing worse.
        """
        node, digest = self._finished.get(lease, (b"", b""))
        return "again" if node == key and digest else "stale"

    def first_open_lease(self, key: bytes) -> int | None:
        """Return a lease of a node whose answers are not complete."""
        member = self.members.get(key)
        return next(iter(self._open_leases(member)), None) if member else None

    def submit(
        self, key: bytes, lease: int, n_bytes: int, digest: bytes, now: float, verdict: LeaseVerdict | None = None
    ) -> ResultStatus:
        """Note that the answers to a lease are complete. Their bytes are kept by the caller.

        verdict   on answers that need no verifier
        """
        record = self._records.get(lease)
        if record is None or record.node != key:
            return "again" if self._finished.get(lease) == (key, digest) else "stale"
        was_open, after = record.state.state is LeaseState.OPEN, record.state.submit(digest, n_bytes, now)
        is_new = was_open and after.state is LeaseState.SUBMITTED
        if is_new:
            self._ledger.append(SubmitEntry(key, lease, digest))
        self._apply(_LeaseChange(lease, lambda _: after), now)
        if not is_new:
            return "again" if lease in self._records else "stale"
        if verdict is None:
            self._waiting.append(lease)
            return "taken"
        self.reject(key, lease, verdict, now)
        return "broken"

    def reject(self, key: bytes, lease: int, verdict: LeaseVerdict, now: float) -> None:
        """Reject a lease of a node without a verifier."""
        record = self._records.get(lease)
        if record is not None and record.node == key:
            self._apply(_LeaseChange(lease, lambda state: state.end(verdict)), now)

    def is_open(self, lease: int) -> bool:
        """Return whether a lease has no verdict yet."""
        return lease in self._records

    def cancel(self, keys: Collection[LeaseKey], now: float) -> None:
        """The trainer does not wait for these groups any more."""
        gone = set(keys)
        for lease, record in list(self._records.items()):
            if record.key in gone:
                self._apply(_LeaseChange(lease, TrackedLease.cancel, is_wanted=False), now)

    def open_lease_keys(self) -> tuple[LeaseKey, ...]:
        """Return the trainer's names of the groups that have no verdict yet."""
        return tuple(record.key for record in self._records.values())

    # --- verifiers ---

    def assign_job(self, key: bytes, now: float) -> VerificationJobResponse:
        """Give a verifier the file that has waited longest. Raises NotJoined and Forbidden.

        A verifier has one file at a time. If it asks while it has one, it never heard of it, or has given it up.
        """
        verifier = self._verifier(key)
        self._requeue(key, now)
        verifier.last_seen, verifier.notified_of_end = now, self.has_ended
        while self._waiting:
            lease = self._waiting.popleft()
            record = self._records.get(lease)
            if record is not None and record.state.state is LeaseState.SUBMITTED:
                self._apply(_LeaseChange(lease, lambda state: state.claim(key, now)), now)
                state = record.state
                engine = self.members[record.node].engine
                return VerificationJobResponse(
                    VerificationJob(record.told, engine, state.n_bytes, state.blake3), self.has_ended
                )
        return VerificationJobResponse(run_ended=self.has_ended)

    def claimed_file_digest(self, key: bytes, lease: int, now: float) -> bytes | None:
        """Return the digest of the file of a lease if this verifier works on it. Raises NotJoined and Forbidden."""
        self._verifier(key).last_seen = now
        record = self._records.get(lease)
        if record is None or record.state.verifier != key:
            return None
        return record.state.blake3

    def max_body_bytes(self, lease: int) -> int:
        """Return how long a file or a verdict may be."""
        return max_file_bytes(self._records[lease].asked)

    def n_verifiers(self, now: float) -> int:
        """Return how many verifiers have said something lately."""
        return sum(now - verifier.last_seen < VERIFY_SECONDS for verifier in self.verifiers.values())

    def all_verifiers_notified(self, now: float) -> bool:
        """Return whether all verifiers that have said something lately were told that the run is over."""
        lately = [verifier for verifier in self.verifiers.values() if now - verifier.last_seen < _ACTIVE_WINDOW_SECONDS]
        return all(verifier.notified_of_end for verifier in lately)

    def record_verdict(self, key: bytes, lease: int, verified: VerificationResult, now: float) -> None:
        """Note what a verifier says. Of a lease that it does not have any more, nothing is noted.

        Raises NotJoined and Forbidden.
        """
        if self.claimed_file_digest(key, lease, now) is None:
            return
        record = self._records[lease]
        verdict = verified.verdict
        if verdict.outcome == "accepted":
            is_refused = any(answer.finish_reason == "refused" for answer in verified.answers)
            if is_refused and len(record.asked.prompt) < self._settings.engine.context_tokens:
                verdict = LeaseVerdict("soft", "length")  # else nodes could choose what is trained on, without any work
            elif check_results(verified.answers, record.told, self._settings):
                verdict = LeaseVerdict("unknown", "crashed")
        answers = to_trainer(verified.answers, record.asked)
        self._apply(_LeaseChange(lease, lambda state: state.judge(key, verdict), answers), now)

    # --- time, weights ---

    def tick(self, now: float) -> None:
        """Let time pass: leases run out, nodes that say nothing are noticed."""
        for lease in list(self._records):
            self._apply(_LeaseChange(lease, lambda state: state.wait(now)), now)
        for key in list(self.members):
            self._apply(_NodeChange(key, NodeEvent.CLOCK), now)

    def extend_deadlines(self, seconds: float) -> None:
        """Exclude a pause of this process from all deadlines."""
        for member in self.members.values():
            member.lifecycle = replace(member.lifecycle, last_heartbeat=member.lifecycle.last_heartbeat + seconds)
        for record in self._records.values():
            record.heard += seconds
            record.state = replace(
                record.state, expires_at=record.state.expires_at + seconds, claimed_at=record.state.claimed_at + seconds
            )

    def record_version(self, version: int, manifest: bytes) -> None:
        """Note a version of the weights, and the digest of its sealed manifest."""
        if version != self.version:
            self._ledger.append(PublishEntry(version, manifest))
            self.version = version

    def lease_counts(self) -> dict[str, int]:
        """Return how many leases are, or ended, in which state."""
        return dict(self._over_counts + Counter(record.state.state.value for record in self._records.values()))

    # --- inside ---

    def _restore(self, now: float) -> None:
        """Go on with those who had joined. What was leased is unknown: files and nodes' work may be lost."""
        before = self._ledger.accounts
        for key, account in before.nodes.items():
            if account.role == "node":  # those that lived have to show that they still do
                self.members[key] = member = NodeMember(replace(account.lifecycle, last_heartbeat=now))
                if member.lifecycle.state is NodeState.SUSPENDED:
                    member.suspended_until = now + _suspension_seconds(account)
        for lease, node in list(before.open_leases.items()):
            self._ledger.append(VerdictEntry(node, lease, "unknown", "restarted"))

    def _join_verifier(self, key: bytes, digest: bytes, now: float) -> None:
        if digest not in self._ledger.accounts.owners:
            self._ledger.append(JoinEntry(key, digest, "verifier"))
        self.verifiers[key] = VerifierMember(now)
        self._requeue(key, now)

    def _join_node(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float) -> None:
        member = self.members.get(key) or NodeMember(NodeLifecycle())
        if member.lifecycle.state is NodeState.BANNED:
            raise Forbidden(_exclusion(self._ledger.account(key)))
        if member.lifecycle.state is NodeState.SUSPENDED and now < member.suspended_until:
            seconds = ceil(member.suspended_until - now)
            raise RetryLater(f"{_exclusion(self._ledger.account(key))}. It may join again in {seconds} s", seconds)
        life, _ = node_lifecycle.next_state(member.lifecycle, NodeEvent.JOIN, now)
        is_new, was_gone = digest not in self._ledger.accounts.owners, life.state is not member.lifecycle.state
        if was_gone or is_new:
            self._ledger.append(JoinEntry(key, digest))
        if is_new and invite.stake > 0:
            self._ledger.append(StakeEntry(key, invite.stake))
        self.members[key] = member
        if was_gone:
            member.lifecycle = life
        else:
            member.lifecycle = replace(member.lifecycle, last_heartbeat=max(now, member.lifecycle.last_heartbeat))
        member.is_connected, member.engine, member.hardware = True, engine, _printable(hardware)

    def _alive(self, key: bytes) -> NodeMember:
        member = self.members.get(key)
        if member is not None and member.lifecycle.state is NodeState.BANNED:
            raise Forbidden(_exclusion(self._ledger.account(key)))
        if member is not None and member.lifecycle.state is NodeState.SUSPENDED:
            raise NotJoined(f"{_exclusion(self._ledger.account(key))}; join again")
        if member is None or not member.is_connected or not member.lifecycle.is_alive:
            raise NotJoined("the coordinator does not count this node among those that live; join again")
        return member

    def _verifier(self, key: bytes) -> VerifierMember:
        if key in self.members:
            raise Forbidden("nodes do not verify")
        if key not in self.verifiers:
            raise NotJoined("this verifier has to join")
        return self.verifiers[key]

    def _grant(self, key: bytes, lease: Lease, now: float) -> Lease:
        draw, seconds = replace(lease.sampling_params, verifiable=True, logprobs=True), self._lease_seconds(key, lease)
        while (number := secrets.randbits(_LEASE_BITS)) in self._records or number in self._finished:
            pass
        # How the trainer numbers its groups is not the node's business: it must not know a prompt that comes again.
        told = changed(lease, group=number, attempt=0, sampling_params=draw, expires_in_seconds=seconds)
        self._ledger.append(LeaseEntry(key, number, lease.group, lease.attempt, lease.version))
        self._records[number] = _OpenLease(told, lease, key, TrackedLease(now + seconds), now)
        member = self.members[key]
        member.leases.add(number)
        member.max_body_bytes = max(member.max_body_bytes, max_file_bytes(told))
        return told

    def _lease_seconds(self, key: bytes, lease: Lease) -> float:
        """Return how long a node gets for a lease: longer if it has reported a speed at which it needs longer.

        A speed that is a lie gains a few times the usual time, for few leases.
        """
        usual, speed = self._settings.lease_seconds, self.members[key].tokens_per_second
        if speed <= 0:
            return usual
        leases = [lease, *(self._records[each].asked for each in self._open_leases(self.members[key]))]
        n_tokens = sum(len(one.seeds) * one.sampling_params.max_tokens for one in leases)
        return min(max(usual, _SPEED_MARGIN * n_tokens / speed), _MAX_LEASE_FACTOR * usual)

    def _requeue(self, verifier: bytes, now: float) -> None:
        """Let others have the file of a verifier that is gone, was started again, or does not have it any more."""
        for lease, record in list(self._records.items()):
            if record.state.verifier == verifier:
                self._apply(_LeaseChange(lease, lambda state: state.release_claim(verifier)), now)

    def _apply(self, change: _Change, now: float) -> None:
        """Apply a change, and one after another all that follow from it."""
        changes = deque([change])
        while changes:
            change = changes.popleft()
            if isinstance(change, _LeaseChange):
                changes.extend(self._change_lease(change))
            else:
                changes.extend(self._change_node(change, now))

    def _change_lease(self, change: _LeaseChange) -> list[_Change]:
        record = self._records.get(change.lease)
        if record is None:
            return []
        was = record.state.state
        record.state = change.step(record.state)
        if was is LeaseState.VERIFYING and record.state.state is LeaseState.SUBMITTED:
            self._waiting.append(change.lease)
        return self._finish(change, record, record.state.verdict) if record.state.verdict is not None else []

    def _finish(self, change: _LeaseChange, record: _OpenLease, verdict: LeaseVerdict) -> list[_Change]:
        """Note the verdict on a lease, and return what it does to the node."""
        lease, member = change.lease, self.members[record.node]
        word = "expired" if verdict.reason == "expired" else verdict.outcome
        self._ledger.append(VerdictEntry(record.node, lease, word, verdict.reason))
        del self._records[lease]
        self._finished[lease] = record.node, record.state.blake3
        if len(self._finished) > _FINISHED:
            self._finished.popitem(last=False)
        member.leases.discard(lease)
        member.unsent_verdicts.append((_key(lease), verdict))
        self.discarded.append(lease)
        self.verdicts[verdict.reason] += 1
        self._over_counts[record.state.state.value] += 1
        if verdict.outcome == "accepted":
            n_tokens = sum(len(answer.tokens) // 4 for answer in change.answers)
            self._ledger.append(PayEntry(record.node, lease, n_tokens))
            self.accepted.append(change.answers)
        elif change.is_wanted:
            self.given_back.append(record.key)
        event = VERDICT_EVENTS.get(word)
        return [_NodeChange(record.node, event, verdict.reason)] if event else []

    def _change_node(self, change: _NodeChange, now: float) -> list[_Change]:
        key, member = change.node, self.members[change.node]
        before = member.lifecycle.state
        member.lifecycle, effects = node_lifecycle.next_state(member.lifecycle, change.event, now)
        after = member.lifecycle.state
        if after is not before and after in _LEFT:
            self._ledger.append(LeaveEntry(key, after.value))  # type: ignore[arg-type]
        if after is NodeState.SUSPENDED and before is not after:
            member.suspended_until = now + _suspension_seconds(self._ledger.account(key))
        if NodeEffect.SLASH in effects and (stake := self._ledger.account(key).stake) > 0:
            self._ledger.append(SlashEntry(key, stake, change.reason or "operator"))
        return self._endings(member, after) if NodeEffect.FREE_LEASES in effects else []

    def _endings(self, member: NodeMember, state: NodeState) -> list[_Change]:
        """Return how the leases of a node end that is in this state now.

        A node that says nothing any more is to blame, once: an outage must not count as many times as it had leases.
        """
        if state is NodeState.BANNED:
            return [_LeaseChange(lease, TrackedLease.revoke) for lease in member.leases]
        has_gone = state in (NodeState.UNHEALTHY, NodeState.DEAD)
        held = [lease for lease in self._open_leases(member) if self._records[lease].is_held]
        blamed = held[:1] if has_gone else []
        return [
            _LeaseChange(lease, TrackedLease.abandon if lease in blamed else TrackedLease.free)
            for lease in sorted(member.leases)
        ]

    def _open_leases(self, member: NodeMember) -> list[int]:
        """Return the leases whose answers a node has not handed over."""
        is_open = LeaseState.OPEN
        return [lease for lease in sorted(member.leases) if self._records[lease].state.state is is_open]

    def _knows_bars_for(self, engine: str) -> bool:
        """Return whether bars were measured for an engine: a node must not get those that are for nobody."""
        name, thresholds = engine.split()[0], self._settings.thresholds
        is_measured = any(pair.partition("/")[0] == name for pair in thresholds)
        return not thresholds or name in self._kinds_with_bars() or ("" in thresholds and not is_measured)

    def _kinds_with_bars(self) -> set[str]:
        """Return the kinds of engines that nodes may name in order to get the bars of that kind.

        If the run's own kind has bars, it is the only one: a node that can name another one chooses the widest bars.
        """
        kinds = {pair.partition("/")[0] for pair in self._settings.thresholds if pair}
        return kinds & {self._settings.engine.kind} or kinds


def _key(lease: int) -> LeaseKey:
    return lease, 0


def _suspension_seconds(account: Account) -> float:
    """Return how long the latest suspension of a node lasts."""
    return _SUSPENDED_SECONDS * 2.0 ** max(0, account.n_suspensions - 1)


def _exclusion(account: Account) -> str:
    """Return why a node is suspended or banned, for its owner."""
    if account.lifecycle.state is NodeState.BANNED:
        why = f"a lease of it was rejected ({account.last_fault})" if account.last_fault else "the operator did so"
        return f"this node is banned: {why}"
    verdicts = account.lifecycle.recent_soft_rejections
    why = f"{sum(verdicts)} of its last {len(verdicts)} leases were rejected or ran out"
    if account.last_fault == "expired":
        return f"this node is suspended: {why}, the last one because no answers came in time"
    return f"this node is suspended: {why}, the last one for this reason: {account.last_fault or 'unknown'}"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_HARDWARE])
