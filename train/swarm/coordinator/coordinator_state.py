"""Nodes, verifiers and leases, and their entries in the ledger.

This module uses no clock, network or threads. Methods take the time, in seconds of a monotonic clock, and queue
messages for the trainer.
"""

import logging
import re
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import ceil, isfinite

from msgspec.structs import replace as replace_fields

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
from train.swarm.broadcast.request import replace_nonprintable
from train.swarm.coordinator.intake import Forbidden, NotFound, NotJoined, RetryLater
from train.swarm.coordinator.lease_lifecycle import VERIFY_SECONDS, LeaseState, TrackedLease
from train.swarm.invites import Invite
from train.swarm.lease_file import check_results, compute_max_file_bytes, convert_for_trainer
from train.swarm.ledger import Ledger
from train.swarm.messages import VerificationJob, VerificationJobResponse, VerificationResult
from train.swarm.node_lifecycle import VERDICT_EVENTS, NodeEffect, NodeEvent, NodeLifecycle, NodeState
from train.swarm.settings import SwarmSettings, is_verifiable

log = logging.getLogger(__name__)

_ENGINE = re.compile(r"(vllm|transformers)( [\w.+-]{1,40}){0,4}", re.ASCII)
_MAX_HARDWARE = 200  # characters
_MAX_LEASES = 8  # maximum open leases of a node, without submitted ones
# Time limit of a lease: a multiple of the duration at the node's speed, and at most a multiple of the usual limit.
_SPEED_MARGIN, _MAX_LEASE_FACTOR = 1.5, 4.0
_UNNAMED_LEASE_SECONDS = 30.0  # a lease omitted from its node's heartbeats for this long is released
_ACTIVE_WINDOW_SECONDS = 60.0  # a verifier without a call for this long is inactive; idle ones call each second
_SUSPENDED_SECONDS = 600.0  # duration of a node's first suspension; each further one takes twice as long
_MAX_FINISHED = 10_000  # ended leases to retain, to recognize resubmitted files
_LEASE_BITS = 63  # size of the random lease numbers for nodes
_MAX_UNSENT_VERDICTS = 256  # maximum verdicts of a node between two heartbeats
_INACTIVE = {NodeState.BANNED, NodeState.SUSPENDED, NodeState.LEFT, NodeState.DEAD}


@dataclass(slots=True)
class NodeMember:
    """A node that has joined.

    lifecycle        see node_lifecycle.py
    is_connected     whether it has joined since this coordinator started
    leases           numbers of its leases without a verdict
    max_body_bytes   maximum size of a body with results, from its largest lease
    unsent_verdicts  verdicts for its next heartbeat
    n_lost_replies   leases freed without a penalty because the reply that granted them may be lost
    notified_of_end  whether it was notified of the run's end
    """

    lifecycle: NodeLifecycle
    is_connected: bool = False
    engine: str = ""
    hardware: str = ""
    loaded_version: int = -1
    tokens_per_second: float = 0.0
    leases: set[int] = field(default_factory=set)
    max_body_bytes: int = 0
    unsent_verdicts: deque[tuple[LeaseKey, LeaseVerdict]] = field(
        default_factory=lambda: deque(maxlen=_MAX_UNSENT_VERDICTS)
    )
    n_lost_replies: int = 0
    notified_of_end: bool = False
    suspended_until: float = 0.0


@dataclass(slots=True)
class VerifierMember:
    """A verifier that has joined. last_seen: time of its last call, in seconds."""

    last_seen: float
    notified_of_end: bool = False


@dataclass(slots=True)
class _OpenLease:
    """A lease without a verdict.

    node_lease     the lease as sent to its node and verifiers
    trainer_lease  the lease as the trainer granted it
    last_named     time of the last message in which its node named it
    is_held        whether its node has named it
    """

    node_lease: Lease
    trainer_lease: Lease
    node: bytes
    state: TrackedLease
    last_named: float
    is_held: bool = False

    @property
    def key(self) -> LeaseKey:
        return self.trainer_lease.group, self.trainer_lease.attempt


@dataclass(frozen=True, slots=True)
class _LeaseChange:
    """A change of a lease's state.

    step       returns the lease after it
    results    accepted results of its verifier
    is_wanted  whether the trainer waits for the group
    """

    lease: int
    step: Callable[[TrackedLease], TrackedLease]
    results: tuple[SampleResult, ...] = ()
    is_wanted: bool = True


@dataclass(frozen=True, slots=True)
class _NodeChange:
    """An event of a node. reason: of the lease verdict that caused it."""

    node: bytes
    event: NodeEvent
    reason: Reason = ""


_Change = _LeaseChange | _NodeChange


class CoordinatorState:
    """The state of a coordinator, which writes every change to the ledger. Not thread-safe."""

    def __init__(self, settings: SwarmSettings, ledger: Ledger, now: float) -> None:
        self.has_ended = False
        self.version = -1  # newest published version
        self.members: dict[bytes, NodeMember] = {}
        self.verifiers: dict[bytes, VerifierMember] = {}
        self.verdicts: Counter[str] = Counter()
        self.accepted: list[tuple[SampleResult, ...]] = []  # results of accepted leases, to submit to the trainer
        self.leases_to_release: list[LeaseKey] = []  # the trainer's keys of leases
        self.discarded: list[int] = []  # leases whose stored completions can be removed
        self._settings, self._ledger = settings, ledger
        self._records: dict[int, _OpenLease] = {}
        self._waiting: deque[int] = deque()  # leases whose file waits for a verifier
        # Node, and digest of the file, of each ended lease.
        self._finished: OrderedDict[int, tuple[bytes, bytes]] = OrderedDict()
        self._finished_counts: Counter[str] = Counter()  # number of ended leases by final state
        self._can_evaluate = True  # False once the trainer has requested samples that cannot be verified
        self._restore(now)

    # --- nodes ---

    def has_member(self, key: bytes) -> bool:
        return self._ledger.get_account(key).role is not None

    def join(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float, *,
             is_valid: bool) -> None:  # fmt: skip
        """Admit a node or a verifier.

        digest     of the invite's id
        is_valid   whether the invite can still be used for the first time

        Raises Forbidden and RetryLater.
        """
        owner, role = self._ledger.accounts.owners.get(digest), self._ledger.get_account(key).role or invite.role
        if owner not in (None, key):
            raise Forbidden("another key has used this invite; ask for a new one")
        if owner is None and not is_valid:
            raise Forbidden("this invite has expired; ask for a new one")
        if role != invite.role:
            raise Forbidden(f"this key belongs to a {role}; use another key")
        if _ENGINE.fullmatch(engine) is None:
            raise Forbidden('the engine must be named like "vllm 0.32.0 cuda" or "transformers 5.0"')
        if role == "node" and not self._has_thresholds_for(engine):
            raise Forbidden(
                f"this run was not calibrated for engines of the kind {engine.split()[0]}; it accepts "
                + ", ".join(sorted(self._find_calibrated_kinds()))
            )
        if role == "verifier":
            self._join_verifier(key, digest, now)
        else:
            self._join_node(key, invite, digest, engine, hardware, now)

    def heartbeat(self, key: bytes, beat: Heartbeat, now: float) -> HeartbeatResponse:
        """Record a heartbeat. Raises NotJoined if the node must join again, and Forbidden if it is banned."""
        member = self._require_alive(key)
        self._apply(_NodeChange(key, NodeEvent.HEARTBEAT), now)
        member.loaded_version = beat.loaded_version
        if isfinite(speed := beat.tokens_per_second) and speed > 0:
            member.tokens_per_second = min(speed, 1e7)
        running = set(beat.running_leases)
        for lease in sorted(member.leases):
            record = self._records.get(lease)
            if record is None:  # an earlier iteration suspended the node, which ended its leases
                continue
            if _make_lease_key(lease) in running:
                record.last_named, record.is_held = now, True
            elif now - record.last_named >= _UNNAMED_LEASE_SECONDS:
                n_lost = 1 + len(member.lifecycle.recent_soft_rejections) // 20
                is_lost = not record.is_held and member.n_lost_replies < n_lost
                member.n_lost_replies += is_lost
                self._apply(_LeaseChange(lease, TrackedLease.free if is_lost else TrackedLease.abandon), now)
        verdicts = tuple(member.unsent_verdicts)
        member.unsent_verdicts.clear()
        member.notified_of_end = self.has_ended
        drop = running if self.has_ended else running - set(map(_make_lease_key, member.leases))
        return HeartbeatResponse(tuple(sorted(drop)), self.has_ended, verdicts)

    def release(self, key: bytes, leases: Collection[LeaseKey] | None, now: float) -> None:
        """Release these leases of a node; None for all, because the node or verifier leaves.

        A released lease counts as expired. If the node leaves, only one of its leases does.
        """
        if self.verifiers.pop(key, None) is not None:
            self._requeue(key, now)
        elif key in self.members:
            held = self._list_open_leases(self.members[key])
            abandoned = held[:1] if leases is None else [lease for lease in held if _make_lease_key(lease) in leases]
            for lease in abandoned:
                self._apply(_LeaseChange(lease, TrackedLease.abandon), now)
            if leases is None:
                self._apply(_NodeChange(key, NodeEvent.LEAVE), now)

    def ban(self, key: bytes, now: float) -> None:
        """Ban a node at the operator's request. Raises NotFound if it has never joined."""
        if key not in self.members:
            raise NotFound("unknown node; curate swarm status lists all nodes")
        self._apply(_NodeChange(key, NodeEvent.HARD), now)

    # --- leases ---

    def compute_free_capacity(self, key: bytes) -> int:
        """Return the number of further groups for a node, which grows with its accepted leases.

        Raises NotJoined and Forbidden.
        """
        member = self._require_alive(key)
        n_open = sum(self._records[each].state.state is LeaseState.OPEN for each in member.leases)
        if member.lifecycle.state is NodeState.PROBATION:
            return 1 - len(member.leases)
        if not member.lifecycle.may_lease:
            return 0
        account = self._ledger.get_account(key)
        limit = min(ceil(_MAX_LEASES * account.reputation), 1 + account.verdict_counts.get("accepted", 0) // 2)
        return min(max(1, limit) - n_open, 3 * _MAX_LEASES - len(member.leases))

    def is_too_old(self, version: int) -> bool:
        """Return whether a version is unpublished, or older than the versions that verifiers retain."""
        return not 0 <= version <= self.version or self.version - version >= self._settings.retained_versions

    def can_evaluate(self, key: bytes) -> bool:
        """Return whether a node may sample for evaluations: its latest verdict was "accepted"."""
        latest = self.members[key].lifecycle.recent_soft_rejections[-1:]
        return self._can_evaluate and latest == (False,)

    def grant(self, key: bytes, lease: Lease, now: float) -> Lease | None:
        """Lease a group of the trainer to a node. If the node may not sample it, release the group and return None."""
        member = self.members.get(key)
        if not is_verifiable(lease.sampling_params) and self._can_evaluate:
            self._can_evaluate = False
            log.error("refusing samples of an evaluation: %s cannot be verified", lease.sampling_params)
        is_granted = (
            member is not None
            and member.is_connected
            and member.lifecycle.state in (NodeState.PROBATION, NodeState.HEALTHY)
            and not self.has_ended
            and is_verifiable(lease.sampling_params)
        )
        if not is_granted:
            self.leases_to_release.append((lease.group, lease.attempt))
        return self._grant(key, lease, now) if is_granted else None

    def begin_upload(self, key: bytes, deadline: float) -> int | None:
        """Return the maximum size of a node's body with results; None if it has held no lease since the start.

        deadline: latest arrival of the body; until then, heartbeats need not name the held leases
        """
        member = self.members.get(key)
        if member is None or not member.max_body_bytes:
            return None
        for lease in member.leases:
            if (record := self._records[lease]).is_held:
                record.last_named = max(record.last_named, deadline)
        return member.max_body_bytes

    def record_held_lease(self, key: bytes, lease: int, now: float) -> Lease | None:
        """Record that a node named a lease, and return the node's lease; None if it is not this node's or has ended."""
        record = self._records.get(lease)
        if record is None or record.node != key:
            return None
        record.last_named, record.is_held = max(record.last_named, now), True
        return record.node_lease

    def get_late_status(self, key: bytes, lease: int) -> ResultStatus:
        """Return the status of a result for a lease that has ended or is not this node's.

        "again" if this node submitted the lease's file earlier, otherwise "stale", as for leases before a restart.
        """
        node, digest = self._finished.get(lease, (b"", b""))
        return "again" if node == key and digest else "stale"

    def find_open_lease(self, key: bytes) -> int | None:
        """Return the node's first lease with missing completions; None if there is none."""
        member = self.members.get(key)
        return next(iter(self._list_open_leases(member)), None) if member else None

    def submit(
        self, key: bytes, lease: int, n_bytes: int, digest: bytes, now: float, verdict: LeaseVerdict | None = None
    ) -> ResultStatus:
        """Record that all completions of a lease are stored, and return the status of its results.

        verdict: rejection that needs no verifier; None: queue the file for verifiers
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
        """Cancel groups that the trainer no longer waits for."""
        cancelled = set(keys)
        for lease, record in list(self._records.items()):
            if record.key in cancelled:
                self._apply(_LeaseChange(lease, TrackedLease.cancel, is_wanted=False), now)

    def list_open_lease_keys(self) -> tuple[LeaseKey, ...]:
        """Return the trainer's keys of the groups without a verdict."""
        return tuple(record.key for record in self._records.values())

    # --- verifiers ---

    def assign_job(self, key: bytes, now: float) -> VerificationJobResponse:
        """Assign the file that has waited longest to a verifier. Raises NotJoined and Forbidden.

        A verifier has one file at a time: an unfinished one is requeued, because it was lost or dropped.
        """
        verifier = self._require_verifier(key)
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
                    VerificationJob(record.node_lease, engine, state.n_bytes, state.blake3), self.has_ended
                )
        return VerificationJobResponse(run_ended=self.has_ended)

    def get_claimed_digest(self, key: bytes, lease: int, now: float) -> bytes | None:
        """Return the digest of a lease's file if this verifier has claimed it; otherwise None.

        Raises NotJoined and Forbidden.
        """
        self._require_verifier(key).last_seen = now
        record = self._records.get(lease)
        if record is None or record.state.verifier != key:
            return None
        return record.state.blake3

    def get_max_body_bytes(self, lease: int) -> int:
        """Return the maximum size of a file or a verdict."""
        return compute_max_file_bytes(self._records[lease].trainer_lease)

    def count_verifiers(self, now: float) -> int:
        """Return the number of recently active verifiers."""
        return sum(now - verifier.last_seen < VERIFY_SECONDS for verifier in self.verifiers.values())

    def all_verifiers_notified(self, now: float) -> bool:
        """Return whether all recently active verifiers were notified of the run's end."""
        active = [verifier for verifier in self.verifiers.values() if now - verifier.last_seen < _ACTIVE_WINDOW_SECONDS]
        return all(verifier.notified_of_end for verifier in active)

    def record_verdict(self, key: bytes, lease: int, verification: VerificationResult, now: float) -> None:
        """Record a verdict; ignore it if the verifier no longer has the lease.

        Raises NotJoined and Forbidden.
        """
        if self.get_claimed_digest(key, lease, now) is None:
            return
        record = self._records[lease]
        verdict = verification.verdict
        if verdict.outcome == "accepted":
            is_refused = any(result.finish_reason == "refused" for result in verification.results)
            if is_refused and len(record.trainer_lease.prompt) < self._settings.engine.context_tokens:
                verdict = LeaseVerdict("soft", "length")  # nodes must not select prompts by refusing others
            elif check_results(verification.results, record.node_lease, self._settings):
                verdict = LeaseVerdict("unknown", "crashed")
        results = convert_for_trainer(verification.results, record.trainer_lease)
        self._apply(_LeaseChange(lease, lambda state: state.judge(key, verdict), results), now)

    # --- time, weights ---

    def tick(self, now: float) -> None:
        """Expire overdue leases, and detect silent nodes."""
        for lease in list(self._records):
            self._apply(_LeaseChange(lease, lambda state: state.expire_overdue(now)), now)
        for key in list(self.members):
            self._apply(_NodeChange(key, NodeEvent.CLOCK), now)

    def extend_deadlines(self, seconds: float) -> None:
        """Exclude a pause of this process from all deadlines."""
        for member in self.members.values():
            member.lifecycle = replace(member.lifecycle, last_heartbeat=member.lifecycle.last_heartbeat + seconds)
        for record in self._records.values():
            record.last_named += seconds
            record.state = replace(
                record.state, expires_at=record.state.expires_at + seconds, claimed_at=record.state.claimed_at + seconds
            )

    def record_version(self, version: int, manifest: bytes) -> None:
        """Record a version of the weights, and the digest of its signed manifest."""
        if version != self.version:
            self._ledger.append(PublishEntry(version, manifest))
            self.version = version

    def count_leases(self) -> dict[str, int]:
        """Count open and ended leases by state."""
        return dict(self._finished_counts + Counter(record.state.state.value for record in self._records.values()))

    # --- inside ---

    def _restore(self, now: float) -> None:
        """Restore the members from the ledger. Open leases become unknown, since their files may be lost."""
        accounts = self._ledger.accounts
        for key, account in accounts.nodes.items():
            if account.role == "node":  # heartbeats before the restart are unknown
                self.members[key] = member = NodeMember(replace(account.lifecycle, last_heartbeat=now))
                if member.lifecycle.state is NodeState.SUSPENDED:
                    member.suspended_until = now + _compute_suspension_seconds(account)
        for lease, node in list(accounts.open_leases.items()):
            self._ledger.append(VerdictEntry(node, lease, "unknown", "restarted"))

    def _join_verifier(self, key: bytes, digest: bytes, now: float) -> None:
        if digest not in self._ledger.accounts.owners:
            self._ledger.append(JoinEntry(key, digest, "verifier"))
        self.verifiers[key] = VerifierMember(now)
        self._requeue(key, now)

    def _join_node(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float) -> None:
        member = self.members.get(key) or NodeMember(NodeLifecycle())
        if member.lifecycle.state is NodeState.BANNED:
            raise Forbidden(_describe_exclusion(self._ledger.get_account(key)))
        if member.lifecycle.state is NodeState.SUSPENDED and now < member.suspended_until:
            seconds = ceil(member.suspended_until - now)
            raise RetryLater(
                f"{_describe_exclusion(self._ledger.get_account(key))}. It may join again in {seconds} s", seconds
            )
        joined, _ = node_lifecycle.apply_event(member.lifecycle, NodeEvent.JOIN, now)
        is_new, rejoins = digest not in self._ledger.accounts.owners, joined.state is not member.lifecycle.state
        if rejoins or is_new:
            self._ledger.append(JoinEntry(key, digest))
        if is_new and invite.stake > 0:
            self._ledger.append(StakeEntry(key, invite.stake))
        self.members[key] = member
        if rejoins:
            member.lifecycle = joined
        else:
            member.lifecycle = replace(member.lifecycle, last_heartbeat=max(now, member.lifecycle.last_heartbeat))
        member.is_connected, member.engine, member.hardware = (
            True,
            engine,
            replace_nonprintable(hardware, _MAX_HARDWARE),
        )

    def _require_alive(self, key: bytes) -> NodeMember:
        member = self.members.get(key)
        if member is not None and member.lifecycle.state is NodeState.BANNED:
            raise Forbidden(_describe_exclusion(self._ledger.get_account(key)))
        if member is not None and member.lifecycle.state is NodeState.SUSPENDED:
            raise NotJoined(f"{_describe_exclusion(self._ledger.get_account(key))}; join again")
        if member is None or not member.is_connected or not member.lifecycle.is_alive:
            raise NotJoined("the coordinator does not list this node as alive; join again")
        return member

    def _require_verifier(self, key: bytes) -> VerifierMember:
        if key in self.members:
            raise Forbidden("only verifiers may call this, and this key belongs to a node")
        if key not in self.verifiers:
            raise NotJoined("this verifier must join first")
        return self.verifiers[key]

    def _grant(self, key: bytes, lease: Lease, now: float) -> Lease:
        params = replace(lease.sampling_params, verifiable=True, logprobs=True)
        seconds = self._lease_seconds(key, lease)
        while (number := secrets.randbits(_LEASE_BITS)) in self._records or number in self._finished:
            pass
        # The number is random, so nodes cannot recognize a repeated prompt.
        node_lease = replace_fields(lease, group=number, attempt=0, sampling_params=params, expires_in_seconds=seconds)
        self._ledger.append(LeaseEntry(key, number, lease.group, lease.attempt, lease.version))
        self._records[number] = _OpenLease(node_lease, lease, key, TrackedLease(now + seconds), now)
        member = self.members[key]
        member.leases.add(number)
        member.max_body_bytes = max(member.max_body_bytes, compute_max_file_bytes(node_lease))
        return node_lease

    def _lease_seconds(self, key: bytes, lease: Lease) -> float:
        """Return the time limit of a lease, longer for a node that reports a low speed.

        It is at most _MAX_LEASE_FACTOR times the usual limit, since a node can report a false speed.
        """
        usual, speed = self._settings.lease_seconds, self.members[key].tokens_per_second
        if speed <= 0:
            return usual
        leases = [lease, *(self._records[each].trainer_lease for each in self._list_open_leases(self.members[key]))]
        n_tokens = sum(len(one.seeds) * one.sampling_params.max_tokens for one in leases)
        return min(max(usual, _SPEED_MARGIN * n_tokens / speed), _MAX_LEASE_FACTOR * usual)

    def _requeue(self, verifier: bytes, now: float) -> None:
        """Requeue the file that a verifier has claimed."""
        for lease, record in list(self._records.items()):
            if record.state.verifier == verifier:
                self._apply(_LeaseChange(lease, lambda state: state.release_claim(verifier)), now)

    def _apply(self, change: _Change, now: float) -> None:
        """Apply a change and its consequences."""
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
        before = record.state.state
        record.state = change.step(record.state)
        if before is LeaseState.VERIFYING and record.state.state is LeaseState.SUBMITTED:
            self._waiting.append(change.lease)
        return self._finish(change, record, record.state.verdict) if record.state.verdict is not None else []

    def _finish(self, change: _LeaseChange, record: _OpenLease, verdict: LeaseVerdict) -> list[_Change]:
        """Record the verdict on a lease, and return its effects on the node."""
        lease, member = change.lease, self.members[record.node]
        outcome = "expired" if verdict.reason == "expired" else verdict.outcome
        self._ledger.append(VerdictEntry(record.node, lease, outcome, verdict.reason))
        del self._records[lease]
        self._finished[lease] = record.node, record.state.blake3
        if len(self._finished) > _MAX_FINISHED:
            self._finished.popitem(last=False)
        member.leases.discard(lease)
        member.unsent_verdicts.append((_make_lease_key(lease), verdict))
        self.discarded.append(lease)
        self.verdicts[verdict.reason] += 1
        self._finished_counts[record.state.state.value] += 1
        if verdict.outcome == "accepted":
            n_tokens = sum(len(result.tokens) // 4 for result in change.results)
            self._ledger.append(PayEntry(record.node, lease, n_tokens))
            self.accepted.append(change.results)
        elif change.is_wanted:
            self.leases_to_release.append(record.key)
        event = VERDICT_EVENTS.get(outcome)
        return [_NodeChange(record.node, event, verdict.reason)] if event else []

    def _change_node(self, change: _NodeChange, now: float) -> list[_Change]:
        key, member = change.node, self.members[change.node]
        before = member.lifecycle.state
        member.lifecycle, effects = node_lifecycle.apply_event(member.lifecycle, change.event, now)
        after = member.lifecycle.state
        if after is not before and after in _INACTIVE:
            self._ledger.append(LeaveEntry(key, after.value))  # type: ignore[arg-type]
        if after is NodeState.SUSPENDED and before is not after:
            member.suspended_until = now + _compute_suspension_seconds(self._ledger.get_account(key))
        if NodeEffect.SLASH in effects and (stake := self._ledger.get_account(key).stake) > 0:
            self._ledger.append(SlashEntry(key, stake, change.reason or "operator"))
        return self._end_leases(member, after) if NodeEffect.FREE_LEASES in effects else []

    def _end_leases(self, member: NodeMember, state: NodeState) -> list[_Change]:
        """Return the changes that end a node's leases. If a node is silent, one expires: an outage counts once."""
        if state is NodeState.BANNED:
            return [_LeaseChange(lease, TrackedLease.revoke) for lease in member.leases]
        is_silent = state in (NodeState.UNHEALTHY, NodeState.DEAD)
        held = [lease for lease in self._list_open_leases(member) if self._records[lease].is_held]
        abandoned = held[:1] if is_silent else []
        return [
            _LeaseChange(lease, TrackedLease.abandon if lease in abandoned else TrackedLease.free)
            for lease in sorted(member.leases)
        ]

    def _list_open_leases(self, member: NodeMember) -> list[int]:
        return [lease for lease in sorted(member.leases) if self._records[lease].state.state is LeaseState.OPEN]

    def _has_thresholds_for(self, engine: str) -> bool:
        """Return whether a node may join with this engine.

        Only kinds without thresholds get the fallback, so a node cannot choose it.
        """
        name, thresholds = engine.split()[0], self._settings.thresholds
        is_measured = any(pair.partition("/")[0] == name for pair in thresholds)
        return not thresholds or name in self._find_calibrated_kinds() or ("" in thresholds and not is_measured)

    def _find_calibrated_kinds(self) -> set[str]:
        """Return the kinds of engines that nodes may name: only the run's own if it has thresholds.

        Otherwise a node could choose the kind with the widest thresholds.
        """
        kinds = {pair.partition("/")[0] for pair in self._settings.thresholds if pair}
        return kinds & {self._settings.engine.kind} or kinds


def _make_lease_key(lease: int) -> LeaseKey:
    return lease, 0


def _compute_suspension_seconds(account: Account) -> float:
    return _SUSPENDED_SECONDS * 2.0 ** max(0, account.n_suspensions - 1)


def _describe_exclusion(account: Account) -> str:
    """Describe the suspension or ban of a node, for the node's owner."""
    if account.lifecycle.state is NodeState.BANNED:
        reason = f"a lease was rejected ({account.last_fault})" if account.last_fault else "by the operator"
        return f"this node is banned: {reason}"
    verdicts = account.lifecycle.recent_soft_rejections
    summary = f"{sum(verdicts)} of its last {len(verdicts)} leases were rejected or expired"
    reason = "no completions arrived in time" if account.last_fault == "expired" else account.last_fault or "unknown"
    return f"this node is suspended: {summary}; last reason: {reason}"
