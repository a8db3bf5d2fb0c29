"""Nodes, verifiers and leases, and what the ledger has to say about them.

Nothing here knows a clock, a network or a thread: every method is given the time, in seconds of a clock that never goes
back, and what the trainer has to be told is collected until it is taken.
"""

import logging
import os
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from math import ceil, isfinite

from msgspec.structs import replace as changed

from train.asynchronous.messages import Lease, LeaseKey, SampleResult
from train.swarm import node_lifecycle
from train.swarm.coordinator import lease_lifecycle
from train.swarm.coordinator.recovery import recover
from train.swarm.coordinator.refusals import Forbidden, NotFound, NotJoined, RetryLater
from train.swarm.engine_terms import is_verifiable
from train.swarm.lease_file import max_file_bytes, to_sample_results
from train.swarm.ledger.entries import (
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
from train.swarm.ledger.ledger import Ledger
from train.swarm.messages import (
    LEASE_ID_BYTES,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    SwarmLease,
    UploadStatus,
    VerificationJob,
    VerificationJobResponse,
    VerificationResult,
)
from train.swarm.protocol.invites import Invite
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import LeaseVerdict, Reason

log = logging.getLogger(__name__)

_ENGINE = re.compile(r"(vllm|transformers)( [\w.+-]{1,40}){0,4}", re.ASCII)
_MAX_HARDWARE = 200  # characters
_MAX_LEASES = 8  # of one node, not counting those that wait for a verdict
_SPEED_MARGIN, _MAX_LEASE_FACTOR = 1.5, 4.0  # of the time by a node's speed, and of the run's usual time for a lease
_LOST_REPLY_SHARE = 0.05  # of its verdicts, and one more, are leases of a node that may never have reached it
_UNNAMED_LEASE_SECONDS = 30.0  # a lease that its node does not name in its beats for so long is given to others
_ACTIVE_WINDOW_SECONDS = 60.0  # verifiers ask each second, unless they are busy
_SUSPENDED_SECONDS = 600.0  # doubled with each suspension
_FINISHED = 10_000  # leases whose ids are remembered, so that a file that comes again is known
_NOTES = 256  # verdicts that wait for the next beat of a node
_WORDS = {"banned": "banned", "suspended": "suspended", "left": "left", "dead": "dead"}


@dataclass(slots=True)
class NodeMember:
    """A node that has joined.

    lifecycle        see node_lifecycle.py
    is_connected     whether it has joined since this coordinator was started
    leases           ids of those that have no verdict
    unsent_verdicts  verdicts that it was not told yet
    n_lost_replies   leases that it never named, and that were not counted against it: the reply may have been lost
    last_fault       reason of its last lease that was rejected or ran out
    notified_of_end  it was told that the run is over
    """

    lifecycle: node_lifecycle.NodeLifecycle
    is_connected: bool = False
    engine: str = ""
    hardware: str = ""
    loaded_version: int = -1
    tokens_per_second: float = 0.0
    leases: set[bytes] = field(default_factory=set)
    unsent_verdicts: deque[tuple[bytes, LeaseVerdict]] = field(default_factory=lambda: deque(maxlen=_NOTES))
    n_lost_replies: int = 0
    last_fault: str = ""
    notified_of_end: bool = False
    n_suspensions: int = 0
    suspended_until: float = 0.0


@dataclass(slots=True)
class VerifierMember:
    """A verifier that has joined."""

    engine: str
    last_seen: float
    notified_of_end: bool = False


@dataclass(slots=True)
class _OpenLease:
    """A lease without a verdict.

    asked    as the trainer gave it
    heard    when its node last named it
    is_held  its node has named it, so that the reply with the lease was not lost
    """

    swarm_lease: SwarmLease
    asked: Lease
    node: bytes
    state: lease_lifecycle.TrackedLease
    heard: float
    is_held: bool = False

    @property
    def key(self) -> LeaseKey:
        return self.asked.group, self.asked.attempt


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
        self.discarded: list[bytes] = []  # ids of leases whose files nobody needs any more
        self._settings, self._ledger = settings, ledger
        self._records: dict[bytes, _OpenLease] = {}
        self._waiting: deque[bytes] = deque()  # ids of leases whose files wait for a verifier
        self._finished: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()  # node, and digest of the file
        self._over_counts: Counter[str] = Counter()
        self._owners: dict[bytes, bytes] = {}
        self._roles: dict[bytes, str] = {}
        self._can_evaluate = True  # until the trainer asks for samples that cannot be verified
        self._restore(now)

    # --- nodes ---

    def has_member(self, key: bytes) -> bool:
        """Return whether somebody has ever joined with this key."""
        return key in self._roles

    def join(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float, *,
             is_valid: bool) -> None:  # fmt: skip
        """Admit a node or a verifier.

        digest     of the invite
        is_valid   whether the invite can still be used for the first time

        Raises Forbidden and RetryLater.
        """
        owner, role = self._owners.get(digest), self._roles.get(key, invite.role)
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
            self._join_verifier(key, digest, engine, now)
        else:
            self._join_node(key, invite, digest, engine, hardware, now)

    def heartbeat(self, key: bytes, beat: NodeHeartbeat, now: float) -> NodeHeartbeatResponse:
        """Note a sign of life. Raises NotJoined and Forbidden."""
        member = self._alive(key)
        self._node_event(key, node_lifecycle.NodeEvent.HEARTBEAT, now)
        member.loaded_version = beat.loaded_version
        if isfinite(speed := beat.tokens_per_second) and speed > 0:
            member.tokens_per_second = min(speed, 1e7)
        running = set(beat.lease_ids)
        for lease_id in list(member.leases):
            record = self._records.get(lease_id)
            if record is None:  # the node was suspended for the one before it
                continue
            if lease_id in running:
                record.heard, record.is_held = now, True
            elif now - record.heard >= _UNNAMED_LEASE_SECONDS:
                is_lost = (
                    not record.is_held
                    and member.n_lost_replies < 1 + len(member.lifecycle.recent_soft_rejections) // 20
                )
                member.n_lost_replies += is_lost
                self._lease_event(
                    lease_id, lease_lifecycle.LeaseFreed() if is_lost else lease_lifecycle.LeaseAbandoned(), now
                )
        notes = tuple(member.unsent_verdicts)
        member.unsent_verdicts.clear()
        member.notified_of_end = self.has_ended
        drop = running if self.has_ended else {each for each in running if each not in member.leases}
        return NodeHeartbeatResponse(tuple(sorted(drop)), notes, self.has_ended)

    def leave(self, key: bytes, now: float) -> None:
        """Let a node go; a verifier, too. A node that leaves with leases pays for one of them as if it had run out."""
        if self.verifiers.pop(key, None) is not None:
            self._requeue(key, now)
        elif key in self.members:
            for lease_id in self._open_leases(self.members[key])[:1]:
                self._lease_event(lease_id, lease_lifecycle.LeaseAbandoned(), now)
            self._node_event(key, node_lifecycle.NodeEvent.LEAVE, now)

    def ban(self, key: bytes, now: float) -> None:
        """The operator bans a node. Raises NotAvailable."""
        if key not in self.members:
            raise NotFound("there is no such node; curate swarm status lists them")
        self.members[key].last_fault = ""
        self._node_event(key, node_lifecycle.NodeEvent.HARD, now)

    # --- leases ---

    def free_capacity(self, key: bytes) -> int:
        """Return how many further groups a node may have: more, the more of its leases were accepted.

        Raises NotJoined and Forbidden.
        """
        member = self._alive(key)
        n_open = sum(self._records[each].state.state is lease_lifecycle.LeaseState.OPEN for each in member.leases)
        if member.lifecycle.state is node_lifecycle.NodeState.PROBATION:
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

    def grant(self, key: bytes, lease: Lease, now: float) -> SwarmLease | None:
        """Lease a group of the trainer to a node. None, and the group is given back, if that cannot be."""
        member = self.members.get(key)
        if not is_verifiable(lease.sampling_params) and self._can_evaluate:
            self._can_evaluate = False
            log.error("samples of an evaluation are refused: %s cannot be verified", lease.sampling_params)
        if member is None or not member.is_connected or self.has_ended or not is_verifiable(lease.sampling_params):
            self.given_back.append((lease.group, lease.attempt))
            return None
        if member.lifecycle.state not in (node_lifecycle.NodeState.PROBATION, node_lifecycle.NodeState.HEALTHY):
            self.given_back.append((lease.group, lease.attempt))
            return None
        return self._grant(key, lease, now)

    def begin_upload(self, key: bytes, lease_id: bytes, deadline: float) -> int | None:
        """Return how long the file of a lease may be; None if the lease is not this node's, or not any more.

        deadline   when the file has arrived at the latest; so long, its node need not name the lease in its beats
        """
        record = self._records.get(lease_id)
        if record is None or record.node != key:
            return None
        record.heard, record.is_held = max(record.heard, deadline), True
        return max_file_bytes(record.asked)

    def submit(self, key: bytes, lease_id: bytes, n_bytes: int, digest: bytes, now: float) -> UploadStatus:
        """Note the file of a lease. It is taken if the receipt says so; its bytes are kept by the caller.

        After a restart, leases of before are not known, so what makes no sense is late and nothing worse.
        """
        record = self._records.get(lease_id)
        if record is None or record.node != key:
            return "again" if self._finished.get(lease_id) == (key, digest) else "late"
        was = record.state.state
        event = lease_lifecycle.FileSubmitted(digest, n_bytes)
        if (
            was is lease_lifecycle.LeaseState.OPEN
            and lease_lifecycle.next_state(record.state, event, now).state is lease_lifecycle.LeaseState.SUBMITTED
        ):
            self._ledger.append(SubmitEntry(key, lease_id, digest))
            self._lease_event(lease_id, event, now)
            self._waiting.append(lease_id)
            return "taken"
        self._lease_event(lease_id, event, now)
        return "again" if lease_id in self._records else "late"

    def is_open(self, lease_id: bytes) -> bool:
        """Return whether a lease has no verdict yet."""
        return lease_id in self._records

    def cancel(self, keys: Collection[LeaseKey], now: float) -> None:
        """The trainer does not wait for these groups any more."""
        gone = set(keys)
        for lease_id, record in list(self._records.items()):
            if record.key in gone:
                self._lease_event(lease_id, lease_lifecycle.LeaseCancelled(), now)

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
            lease_id = self._waiting.popleft()
            record = self._records.get(lease_id)
            if record is not None and record.state.state is lease_lifecycle.LeaseState.SUBMITTED:
                self._lease_event(lease_id, lease_lifecycle.FileClaimed(key), now)
                state = record.state
                engine = self.members[record.node].engine
                return VerificationJobResponse(
                    VerificationJob(record.swarm_lease, engine, state.n_bytes, state.blake3), self.has_ended
                )
        return VerificationJobResponse(run_ended=self.has_ended)

    def claimed_file_digest(self, key: bytes, lease_id: bytes, now: float) -> bytes | None:
        """Return the digest of the file of a lease if this verifier works on it. Raises NotJoined and Forbidden."""
        self._verifier(key).last_seen = now
        record = self._records.get(lease_id)
        if record is None or record.state.verifier != key:
            return None
        return record.state.blake3

    def max_body_bytes(self, lease_id: bytes) -> int:
        """Return how long a file or a verdict may be."""
        return max_file_bytes(self._records[lease_id].asked)

    def n_verifiers(self, now: float) -> int:
        """Return how many verifiers have said something lately."""
        return sum(now - verifier.last_seen < lease_lifecycle.VERIFY_SECONDS for verifier in self.verifiers.values())

    def all_verifiers_notified(self, now: float) -> bool:
        """Return whether all verifiers that have said something lately were told that the run is over."""
        lately = [verifier for verifier in self.verifiers.values() if now - verifier.last_seen < _ACTIVE_WINDOW_SECONDS]
        return all(verifier.notified_of_end for verifier in lately)

    def record_verdict(self, key: bytes, lease_id: bytes, verified: VerificationResult, now: float) -> None:
        """Note what a verifier says. Of a lease that it does not have any more, nothing is noted.

        Raises NotJoined and Forbidden.
        """
        if self.claimed_file_digest(key, lease_id, now) is None:
            return
        record = self._records[lease_id]
        verdict = verified.verdict
        answers: tuple[SampleResult, ...] = ()
        if verdict.outcome == "accepted":
            try:
                answers = to_sample_results(record.asked, verified.answers)
            except ValueError:
                verdict = LeaseVerdict("unknown", "crashed")
        if any(answer.finish_reason == "refused" for answer in answers) and not self._is_too_long(record.asked):
            verdict = LeaseVerdict(
                "soft", "length"
            )  # otherwise nodes could choose what is trained on, without any work
        self._lease_event(lease_id, lease_lifecycle.VerdictReceived(key, verdict), now, answers=answers)

    # --- time, weights ---

    def tick(self, now: float) -> None:
        """Let time pass: leases run out, nodes that say nothing are noticed."""
        for lease_id in list(self._records):
            self._lease_event(lease_id, lease_lifecycle.ClockTick(), now)
        for key in list(self.members):
            self._node_event(key, node_lifecycle.NodeEvent.CLOCK, now)

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
        before = recover(self._ledger.entries(), now)
        self._owners, self._roles = before.owners, dict(before.roles)
        self.members = {
            key: NodeMember(life, last_fault=before.faults.get(key, "")) for key, life in before.nodes.items()
        }
        for member in self.members.values():
            if member.lifecycle.state is node_lifecycle.NodeState.SUSPENDED:
                member.n_suspensions, member.suspended_until = 1, now + _SUSPENDED_SECONDS
        for lease_id, node in before.open_leases.items():
            self._ledger.append(VerdictEntry(node, lease_id, "unknown", "restarted"))

    def _join_verifier(self, key: bytes, digest: bytes, engine: str, now: float) -> None:
        if digest not in self._owners:
            self._ledger.append(JoinEntry(key, digest, "verifier"))
            self._owners[digest], self._roles[key] = key, "verifier"
        self.verifiers[key] = VerifierMember(engine, now)
        self._requeue(key, now)

    def _join_node(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float) -> None:
        member = self.members.get(key) or NodeMember(node_lifecycle.NodeLifecycle())
        if member.lifecycle.state is node_lifecycle.NodeState.BANNED:
            raise Forbidden(_exclusion(member))
        if member.lifecycle.state is node_lifecycle.NodeState.SUSPENDED and now < member.suspended_until:
            seconds = ceil(member.suspended_until - now)
            raise RetryLater(f"{_exclusion(member)}. It may join again in {seconds} s", seconds)
        life, _ = node_lifecycle.next_state(member.lifecycle, node_lifecycle.NodeEvent.JOIN, now)
        is_new, was_gone = digest not in self._owners, life.state is not member.lifecycle.state
        if was_gone or is_new:
            self._ledger.append(JoinEntry(key, digest))
        if is_new and invite.stake > 0:
            self._ledger.append(StakeEntry(key, invite.stake))
        self._owners[digest], self._roles[key], self.members[key] = key, "node", member
        if was_gone:
            member.lifecycle = life
        else:
            member.lifecycle = replace(member.lifecycle, last_heartbeat=max(now, member.lifecycle.last_heartbeat))
        member.is_connected, member.engine, member.hardware = True, engine, _printable(hardware)

    def _alive(self, key: bytes) -> NodeMember:
        member = self.members.get(key)
        if member is not None and member.lifecycle.state is node_lifecycle.NodeState.BANNED:
            raise Forbidden(_exclusion(member))
        if member is not None and member.lifecycle.state is node_lifecycle.NodeState.SUSPENDED:
            raise NotJoined(f"{_exclusion(member)}; join again")
        if member is None or not member.is_connected or not member.lifecycle.is_alive:
            raise NotJoined("the coordinator does not count this node among those that live; join again")
        return member

    def _verifier(self, key: bytes) -> VerifierMember:
        if key in self.members:
            raise Forbidden("nodes do not verify")
        if key not in self.verifiers:
            raise NotJoined("this verifier has to join")
        return self.verifiers[key]

    def _grant(self, key: bytes, lease: Lease, now: float) -> SwarmLease:
        lease_id = os.urandom(LEASE_ID_BYTES)
        draw, seconds = replace(lease.sampling_params, verifiable=True, logprobs=True), self._lease_seconds(key, lease)
        # How the trainer numbers its groups is not the node's business.
        told = changed(lease, group=0, attempt=0, sampling_params=draw, expires_in_seconds=seconds)
        swarm_lease = SwarmLease(lease_id, told)
        self._ledger.append(LeaseEntry(key, lease_id, lease.group, lease.attempt, lease.version))
        state = lease_lifecycle.TrackedLease(now + seconds)
        self._records[lease_id] = _OpenLease(swarm_lease, lease, key, state, now)
        self.members[key].leases.add(lease_id)
        return swarm_lease

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
        for lease_id, record in list(self._records.items()):
            if record.state.verifier == verifier:
                self._lease_event(lease_id, lease_lifecycle.ClaimReleased(verifier), now)

    def _lease_event(
        self, lease_id: bytes, event: lease_lifecycle.Event, now: float, *, answers: tuple[SampleResult, ...] = ()
    ) -> None:
        record = self._records.get(lease_id)
        if record is None:
            return
        was = record.state.state
        record.state = lease_lifecycle.next_state(record.state, event, now)
        if record.state.has_ended:
            self._finish(
                lease_id, record, now, answers, is_wanted=not isinstance(event, lease_lifecycle.LeaseCancelled)
            )
        elif was is lease_lifecycle.LeaseState.VERIFYING and record.state.state is lease_lifecycle.LeaseState.SUBMITTED:
            self._waiting.append(lease_id)

    def _finish(
        self, lease_id: bytes, record: _OpenLease, now: float, answers: tuple[SampleResult, ...], *, is_wanted: bool
    ) -> None:
        verdict = record.state.verdict
        assert verdict is not None
        word = "expired" if verdict.reason == "expired" else verdict.outcome
        self._ledger.append(VerdictEntry(record.node, lease_id, word, verdict.reason))
        del self._records[lease_id]
        self._finished[lease_id] = record.node, record.state.blake3
        if len(self._finished) > _FINISHED:
            self._finished.popitem(last=False)
        member = self.members[record.node]
        member.leases.discard(lease_id)
        member.unsent_verdicts.append((lease_id, verdict))
        self.discarded.append(lease_id)
        self.verdicts[verdict.reason] += 1
        self._over_counts[record.state.state.value] += 1
        if verdict.outcome == "accepted":
            self._ledger.append(PayEntry(record.node, lease_id, sum(len(answer.tokens) // 4 for answer in answers)))
            self.accepted.append(answers)
        elif is_wanted:
            self.given_back.append(record.key)
        event = node_lifecycle.NodeEvent
        events = {"accepted": event.ACCEPTED, "soft": event.SOFT, "hard": event.HARD, "expired": event.EXPIRED}
        if word in events:
            if verdict.reason not in ("", "banned"):
                member.last_fault = verdict.reason
            self._node_event(record.node, events[word], now, reason=verdict.reason)

    def _node_event(self, key: bytes, event: node_lifecycle.NodeEvent, now: float, *, reason: Reason = "") -> None:
        member = self.members[key]
        before = member.lifecycle.state
        member.lifecycle, effects = node_lifecycle.next_state(member.lifecycle, event, now)
        after = member.lifecycle.state
        if after is not before and after.value in _WORDS:
            self._ledger.append(LeaveEntry(key, after.value))  # type: ignore[arg-type]
        if after is node_lifecycle.NodeState.SUSPENDED and before is not after:
            member.suspended_until = now + _SUSPENDED_SECONDS * 2**member.n_suspensions
            member.n_suspensions += 1
        if node_lifecycle.NodeEffect.SLASH in effects and (stake := self._ledger.account(key).stake) > 0:
            self._ledger.append(SlashEntry(key, stake, reason or "operator"))
        if node_lifecycle.NodeEffect.FREE_LEASES in effects:
            for lease_id, ending in self._endings(member, after):
                self._lease_event(lease_id, ending, now)

    def _endings(
        self, member: NodeMember, state: node_lifecycle.NodeState
    ) -> list[tuple[bytes, lease_lifecycle.Event]]:
        """Return how the leases of a node end that is in this state now.

        A node that says nothing any more is to blame, once: an outage must not count as many times as it had leases.
        """
        if state is node_lifecycle.NodeState.BANNED:
            return [(lease_id, lease_lifecycle.LeaseRevoked()) for lease_id in member.leases]
        has_gone = state in (node_lifecycle.NodeState.UNHEALTHY, node_lifecycle.NodeState.DEAD)
        held = [lease_id for lease_id in self._open_leases(member) if self._records[lease_id].is_held]
        blamed = held[:1] if has_gone else []
        return [
            (lease_id, lease_lifecycle.LeaseAbandoned() if lease_id in blamed else lease_lifecycle.LeaseFreed())
            for lease_id in member.leases
        ]

    def _open_leases(self, member: NodeMember) -> list[bytes]:
        """Return the ids of the leases whose files a node has not handed over."""
        is_open = lease_lifecycle.LeaseState.OPEN
        return [lease_id for lease_id in sorted(member.leases) if self._records[lease_id].state.state is is_open]

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

    def _is_too_long(self, lease: Lease) -> bool:
        """Return whether engines with the run's context cannot take the prompt."""
        return len(lease.prompt) >= self._settings.engine.context_tokens


def _exclusion(member: NodeMember) -> str:
    """Return why a node is suspended or banned, for its owner."""
    if member.lifecycle.state is node_lifecycle.NodeState.BANNED:
        why = f"a lease of it was rejected ({member.last_fault})" if member.last_fault else "the operator did so"
        return f"this node is banned: {why}"
    verdicts = member.lifecycle.recent_soft_rejections
    why = f"{sum(verdicts)} of its last {len(verdicts)} leases were rejected or ran out"
    if member.last_fault == "expired":
        return f"this node is suspended: {why}, the last one because no answers came in time"
    return f"this node is suspended: {why}, the last one for this reason: {member.last_fault or 'unknown'}"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_HARDWARE])
