"""Nodes, verifiers and leases, and what the ledger has to say about them.

Nothing here knows a clock, a network or a thread: every method is given the time, in seconds of a clock that never goes
back, and what the trainer has to be told is collected until it is taken.
"""

import os
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from math import ceil, isfinite

from msgspec.structs import replace as changed

from train.asynchronous.messages import Answer, Key, Lease
from train.swarm import nodes
from train.swarm.calls import LEASE_ID_BYTES, Job, Jobs, NodeBeat, NodeOrders, Receipt, SwarmLease, Verified
from train.swarm.coordinator import leases
from train.swarm.coordinator.answers import answers_of
from train.swarm.coordinator.known import Known, KnownAnswers, agrees
from train.swarm.coordinator.refusals import Excluded, Later, NotJoined, NotThere
from train.swarm.coordinator.restored import restored
from train.swarm.files.sizes import most_bytes
from train.swarm.ledger.book import Book
from train.swarm.ledger.entries import Join, Judged, Leased, Left, Paid, Published, Slashed, Stake, Submitted, Unbonded
from train.swarm.protocol.invites import Invite
from train.swarm.settings import Bars, SwarmSettings
from train.swarm.verdict import Reason, Verdict
from train.swarm.verification.choice import bars_of

_ENGINE = re.compile(r"(vllm|transformers)( [\w.+-]{1,40}){0,4}", re.ASCII)
_MOST_HARDWARE = 200  # characters
_MOST_LEASES = 8  # of one node, not counting those that wait for a verdict
_UNHEARD_SECONDS = 30.0  # a lease that its node does not name in its beats for so long is given to others
_LATELY_SECONDS = 60.0  # verifiers ask each second, unless they are busy
_SUSPENDED_SECONDS = 600.0  # doubled with each suspension
_FINISHED = 10_000  # leases whose ids are remembered, so that a file that comes again is known
_NOTES = 256  # verdicts that wait for the next beat of a node
_WORDS = {"banned": "banned", "suspended": "suspended", "left": "left", "dead": "dead"}


@dataclass(slots=True)
class Member:
    """A node that has joined.

    life         see nodes.py
    is_here      whether it has joined since this coordinator was started
    leases       ids of those that have no verdict
    notes        verdicts that it was not told yet
    wants_stake  it has left, and gets its stake back after the last verdict
    knows_end    it was told that the run is over
    """

    life: nodes.Node
    is_here: bool = False
    engine: str = ""
    hardware: str = ""
    loaded: int = -1
    tokens_per_second: float = 0.0
    leases: set[bytes] = field(default_factory=set)
    notes: deque[tuple[bytes, Verdict]] = field(default_factory=lambda: deque(maxlen=_NOTES))
    wants_stake: bool = False
    knows_end: bool = False
    n_suspended: int = 0
    suspended_until: float = 0.0


@dataclass(slots=True)
class Verifier:
    """A verifier that has joined."""

    engine: str
    seen: float
    knows_end: bool = False


@dataclass(slots=True)
class _Record:
    """A lease without a verdict.

    asked   as the trainer gave it
    heard   when its node last named it
    known   what the answers have to be, if that is known already
    is_held  its node has named it, so that the reply with the lease was not lost
    """

    swarm_lease: SwarmLease
    asked: Lease
    node: bytes
    state: leases.LeaseState
    heard: float
    known: Known | None
    is_held: bool = False

    @property
    def key(self) -> Key:
        return self.asked.group, self.asked.attempt


class Desk:
    """What a coordinator knows. One thread at a time uses it.

    ledger   every change is in it before it has an effect
    """

    def __init__(self, settings: SwarmSettings, ledger: Book, now: float, *, known: KnownAnswers | None = None) -> None:
        self.is_over = False
        self.version = -1  # the newest that is published
        self.members: dict[bytes, Member] = {}
        self.verifiers: dict[bytes, Verifier] = {}
        self.verdicts: Counter[str] = Counter()
        self.accepted: list[tuple[Answer, ...]] = []  # for the trainer
        self.given_back: list[Key] = []  # by the trainer's names
        self.discarded: list[bytes] = []  # ids of leases whose files nobody needs any more
        self._settings, self._ledger = settings, ledger
        self._known = known or KnownAnswers()
        self._records: dict[bytes, _Record] = {}
        self._waiting: deque[bytes] = deque()  # ids of leases whose files wait for a verifier
        self._finished: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()  # node, and digest of the file
        self._over_counts: Counter[str] = Counter()
        self._owners: dict[bytes, bytes] = {}
        self._roles: dict[bytes, str] = {}
        self._restore(now)

    # --- nodes ---

    def knows(self, key: bytes) -> bool:
        """Return whether somebody has ever joined with this key."""
        return key in self._roles

    def join(self, key: bytes, invite: Invite, digest: bytes, engine: str, hardware: str, now: float, *,
             is_valid: bool) -> None:  # fmt: skip
        """Admit a node or a verifier.

        digest     of the invite
        is_valid   whether the invite can still be used for the first time

        Raises Excluded and Later.
        """
        owner, role = self._owners.get(digest), self._roles.get(key, invite.role)
        if owner not in (None, key):
            raise Excluded("this invite was used by somebody else; ask for one of your own")
        if owner is None and not is_valid:
            raise Excluded("this invite has run out; ask for a new one")
        if role != invite.role:
            raise Excluded(f"this key belongs to a {role}; use another key")
        if _ENGINE.fullmatch(engine) is None:
            raise Excluded('the engine must be named like "vllm 0.32.0 cuda" or "transformers 5.0"')
        if role == "node" and not self._knows_bars_for(engine):
            raise Excluded(
                f"this run was not calibrated for engines of the kind {engine.split()[0]}; it takes "
                + ", ".join(sorted(self._kinds_with_bars()))
            )
        if role == "verifier":
            self._join_verifier(key, digest, engine, now)
        else:
            self._join_node(key, digest, engine, hardware, now)

    def beat(self, key: bytes, beat: NodeBeat, now: float) -> NodeOrders:
        """Note a sign of life. Raises NotJoined and Excluded."""
        member = self._alive(key)
        self._node_event(key, nodes.Event.BEAT, now)
        member.loaded = beat.loaded
        speed = beat.tokens_per_second
        member.tokens_per_second = min(max(speed, 0.0), 1e7) if isfinite(speed) else 0.0
        running = set(beat.running)
        for lease_id in list(member.leases):
            record = self._records.get(lease_id)
            if record is None:  # the node was suspended for the one before it
                continue
            if lease_id in running:
                record.heard, record.is_held = now, True
            elif now - record.heard >= _UNHEARD_SECONDS:
                self._lease_event(lease_id, leases.Abandoned() if record.is_held else leases.Freed(), now)
        notes = tuple(member.notes)
        member.notes.clear()
        member.knows_end = self.is_over
        drop = running if self.is_over else {each for each in running if each not in member.leases}
        return NodeOrders(tuple(sorted(drop)), notes, self.is_over)

    def leave(self, key: bytes, now: float) -> None:
        """Let a node go; a verifier, too."""
        if self.verifiers.pop(key, None) is not None:
            self._requeue(key, now)
        elif key in self.members:
            self._node_event(key, nodes.Event.LEAVE, now)

    def ban(self, key: bytes, now: float) -> None:
        """The operator bans a node. Raises NotThere."""
        if key not in self.members:
            raise NotThere("there is no such node; curate swarm status lists them")
        self._node_event(key, nodes.Event.HARD, now)

    # --- leases ---

    def room(self, key: bytes) -> int:
        """Return how many further groups a node may have: more, the more of its leases were accepted.

        Raises NotJoined and Excluded.
        """
        member = self._alive(key)
        n_open = sum(self._records[each].state.state is leases.State.OPEN for each in member.leases)
        if member.life.state is nodes.State.PROBATION:
            return 1 - len(member.leases)
        if not member.life.may_lease:
            return 0
        account = self._ledger.account(key)
        most = min(ceil(_MOST_LEASES * account.reputation), 1 + account.verdicts.get("accepted", 0))
        return min(max(1, most) - n_open, 3 * _MOST_LEASES - len(member.leases))

    def is_too_old(self, version: int) -> bool:
        """Return whether verifiers have given this version up, or will have before an answer arrives."""
        return not 0 <= version <= self.version or self.version - version >= self._settings.versions_kept

    def probe(self, key: bytes, version: int, now: float) -> SwarmLease | None:
        """Lease a new node a group whose answers are known, if there is one of its version."""
        member = self._alive(key)
        if member.life.state is not nodes.State.PROBATION or member.leases or not self._settings.replays:
            return None
        known = self._known.draw(key, version)
        return None if known is None else self._grant(key, known.lease, known, now)

    def grant(self, key: bytes, lease: Lease, now: float) -> SwarmLease | None:
        """Lease a group of the trainer to a node. None, and the group is given back, if that cannot be."""
        member = self.members.get(key)
        if member is None or not member.is_here or self.is_over or not _can_be_verified(lease):
            self.given_back.append((lease.group, lease.attempt))
            return None
        if member.life.state not in (nodes.State.PROBATION, nodes.State.HEALTHY):
            self.given_back.append((lease.group, lease.attempt))
            return None
        return self._grant(key, lease, None, now)

    def begin_upload(self, key: bytes, lease_id: bytes, until: float) -> int | None:
        """Return how long the file of a lease may be; None if the lease is not this node's, or not any more.

        until   when the file has arrived at the latest; so long, its node need not name the lease in its beats
        """
        record = self._records.get(lease_id)
        if record is None or record.node != key:
            return None
        record.heard, record.is_held = max(record.heard, until), True
        return most_bytes(record.asked)

    def submit(self, key: bytes, lease_id: bytes, n_bytes: int, digest: bytes, now: float) -> Receipt:
        """Note the file of a lease. It is taken if the receipt says so; its bytes are kept by the caller.

        After a restart, leases of before are not known, so what makes no sense is late and nothing worse.
        """
        record = self._records.get(lease_id)
        if record is None or record.node != key:
            return "again" if self._finished.get(lease_id) == (key, digest) else "late"
        was = record.state.state
        event = leases.Submitted(digest, n_bytes)
        if was is leases.State.OPEN and leases.after(record.state, event, now).state is leases.State.SUBMITTED:
            self._ledger.append(Submitted(key, lease_id, digest))
            self._lease_event(lease_id, event, now)
            self._waiting.append(lease_id)
            return "taken"
        self._lease_event(lease_id, event, now)
        return "again" if lease_id in self._records else "late"

    def is_open(self, lease_id: bytes) -> bool:
        """Return whether a lease has no verdict yet."""
        return lease_id in self._records

    def unwanted(self, keys: Collection[Key], now: float) -> None:
        """The trainer does not wait for these groups any more."""
        gone = set(keys)
        for lease_id, record in list(self._records.items()):
            if record.known is None and record.key in gone:
                self._lease_event(lease_id, leases.Unwanted(), now)

    def running(self) -> tuple[Key, ...]:
        """Return the trainer's names of the groups that have no verdict yet."""
        return tuple(record.key for record in self._records.values() if record.known is None)

    # --- verifiers ---

    def job(self, key: bytes, now: float) -> Jobs:
        """Give a verifier the file that has waited longest. Raises NotJoined and Excluded.

        A verifier has one file at a time. If it asks while it has one, it never heard of it, or has given it up.
        """
        verifier = self._verifier(key)
        self._requeue(key, now)
        verifier.seen, verifier.knows_end = now, self.is_over
        while self._waiting:
            lease_id = self._waiting.popleft()
            record = self._records.get(lease_id)
            if record is not None and record.state.state is leases.State.SUBMITTED:
                self._lease_event(lease_id, leases.Taken(key), now)
                state = record.state
                engine = self.members[record.node].engine
                return Jobs(Job(record.swarm_lease, engine, state.n_bytes, state.blake3), self.is_over)
        return Jobs(over=self.is_over)

    def digest_for(self, key: bytes, lease_id: bytes, now: float) -> bytes | None:
        """Return the digest of the file of a lease if this verifier works on it. Raises NotJoined and Excluded."""
        self._verifier(key).seen = now
        record = self._records.get(lease_id)
        if record is None or record.state.verifier != key:
            return None
        return record.state.blake3

    def most_bytes_of(self, lease_id: bytes) -> int:
        """Return how long a file or a verdict may be."""
        return most_bytes(self._records[lease_id].asked)

    def n_verifiers(self, now: float) -> int:
        """Return how many verifiers have said something lately."""
        return sum(now - verifier.seen < leases.VERIFY_SECONDS for verifier in self.verifiers.values())

    def verifiers_know_end(self, now: float) -> bool:
        """Return whether all verifiers that have said something lately were told that the run is over."""
        lately = [verifier for verifier in self.verifiers.values() if now - verifier.seen < _LATELY_SECONDS]
        return all(verifier.knows_end for verifier in lately)

    def verdict(self, key: bytes, lease_id: bytes, verified: Verified, now: float) -> None:
        """Note what a verifier says. Of a lease that it does not have any more, nothing is noted.

        Raises NotJoined and Excluded.
        """
        if self.digest_for(key, lease_id, now) is None:
            return
        record = self._records[lease_id]
        verdict = verified.verdict
        answers: tuple[Answer, ...] = ()
        if verdict.outcome == "accepted":
            try:
                answers = answers_of(record.asked, verified.answers)
            except ValueError:
                verdict = Verdict("unknown", "crashed")
        if any(answer.finish == "refused" for answer in answers) and not self._is_too_long(record.asked):
            verdict = Verdict("soft", "length")  # otherwise nodes could choose what is trained on, without any work
        if verdict.outcome == "accepted" and record.known is not None:
            bars = self._bars(record.node, key)
            if not agrees(record.known.tokens, [answer.tokens for answer in answers], bars):
                verdict = Verdict("soft", "known answer")
        self._lease_event(lease_id, leases.Judged(key, verdict), now, answers=answers)

    # --- time, weights ---

    def clock(self, now: float) -> None:
        """Let time pass: leases run out, nodes that say nothing are noticed."""
        for lease_id in list(self._records):
            self._lease_event(lease_id, leases.Clock(), now)
        for key in list(self.members):
            self._node_event(key, nodes.Event.CLOCK, now)

    def forgive(self, seconds: float) -> None:
        """Count a time for nobody in which this process itself stood still, and could hear nobody."""
        for member in self.members.values():
            member.life = replace(member.life, beat_at=member.life.beat_at + seconds)
        for record in self._records.values():
            record.heard += seconds
            record.state = replace(
                record.state, ends_at=record.state.ends_at + seconds, taken_at=record.state.taken_at + seconds
            )

    def published(self, version: int, manifest: bytes) -> None:
        """Note a version of the weights, and the digest of its sealed manifest."""
        if version != self.version:
            self._ledger.append(Published(version, manifest))
            self.version = version

    def lease_counts(self) -> dict[str, int]:
        """Return how many leases are, or ended, in which state."""
        return dict(self._over_counts + Counter(record.state.state.value for record in self._records.values()))

    # --- inside ---

    def _restore(self, now: float) -> None:
        """Go on with those who had joined. What was leased is unknown: files and nodes' work may be lost."""
        before = restored(self._ledger.entries(), now)
        self._owners, self._roles = before.owners, dict(before.roles)
        self.members = {key: Member(life) for key, life in before.nodes.items()}
        for member in self.members.values():
            if member.life.state is nodes.State.SUSPENDED:
                member.n_suspended, member.suspended_until = 1, now + _SUSPENDED_SECONDS
        for lease_id, node in before.open.items():
            self._ledger.append(Judged(node, lease_id, "unknown", "restarted"))
        for key, member in self.members.items():
            self._release_stake(key, member)

    def _join_verifier(self, key: bytes, digest: bytes, engine: str, now: float) -> None:
        if digest not in self._owners:
            self._ledger.append(Join(key, digest, "verifier"))
            self._owners[digest], self._roles[key] = key, "verifier"
        self.verifiers[key] = Verifier(engine, now)
        self._requeue(key, now)

    def _join_node(self, key: bytes, digest: bytes, engine: str, hardware: str, now: float) -> None:
        member = self.members.get(key) or Member(nodes.Node())
        if member.life.state is nodes.State.BANNED:
            raise Excluded("this node is banned")
        if member.life.state is nodes.State.SUSPENDED and now < member.suspended_until:
            seconds = ceil(member.suspended_until - now)
            raise Later(f"this node is suspended, and may join again in {seconds} s", seconds)
        life, effects = nodes.after(member.life, nodes.Event.JOIN, now)
        if effects or digest not in self._owners:
            self._ledger.append(Join(key, digest))
        if (missing := self._settings.stake - self._ledger.account(key).stake) > 0:
            self._ledger.append(Stake(key, missing))
        self._owners[digest], self._roles[key], self.members[key] = key, "node", member
        if effects:
            member.life, member.wants_stake = life, False
        else:
            member.life = replace(member.life, beat_at=max(now, member.life.beat_at))
        member.is_here, member.engine, member.hardware = True, engine, _printable(hardware)

    def _alive(self, key: bytes) -> Member:
        member = self.members.get(key)
        if member is not None and member.life.state is nodes.State.BANNED:
            raise Excluded("this node is banned")
        if member is None or not member.is_here or not member.life.is_alive:
            raise NotJoined("the coordinator does not count this node among those that live; join again")
        return member

    def _verifier(self, key: bytes) -> Verifier:
        if key in self.members:
            raise Excluded("nodes do not verify")
        if key not in self.verifiers:
            raise NotJoined("this verifier has to join")
        return self.verifiers[key]

    def _grant(self, key: bytes, lease: Lease, known: Known | None, now: float) -> SwarmLease:
        lease_id = os.urandom(LEASE_ID_BYTES)
        draw = changed(lease.draw, verifiable=True, logprobs=True)
        # The trainer's number is not told: it would give away which answers are known already.
        told = changed(lease, group=0, attempt=0, draw=draw, seconds=self._settings.lease_seconds)
        swarm_lease = SwarmLease(lease_id, told)
        self._ledger.append(Leased(key, lease_id, lease.group, lease.attempt, lease.version))
        state = leases.LeaseState(now + self._settings.lease_seconds)
        self._records[lease_id] = _Record(swarm_lease, lease, key, state, now, known)
        self.members[key].leases.add(lease_id)
        return swarm_lease

    def _requeue(self, verifier: bytes, now: float) -> None:
        """Let others have the file of a verifier that is gone, was started again, or does not have it any more."""
        for lease_id, record in list(self._records.items()):
            if record.state.verifier == verifier:
                self._lease_event(lease_id, leases.Returned(verifier), now)

    def _lease_event(
        self, lease_id: bytes, event: leases.Event, now: float, *, answers: tuple[Answer, ...] = ()
    ) -> None:
        record = self._records.get(lease_id)
        if record is None:
            return
        was = record.state.state
        record.state = leases.after(record.state, event, now)
        if record.state.is_over:
            self._finish(lease_id, record, now, answers, is_wanted=not isinstance(event, leases.Unwanted))
        elif was is leases.State.VERIFYING and record.state.state is leases.State.SUBMITTED:
            self._waiting.append(lease_id)

    def _finish(
        self, lease_id: bytes, record: _Record, now: float, answers: tuple[Answer, ...], *, is_wanted: bool
    ) -> None:
        verdict = record.state.verdict
        assert verdict is not None
        word = "expired" if verdict.reason == "expired" else verdict.outcome
        self._ledger.append(Judged(record.node, lease_id, word, verdict.reason))
        del self._records[lease_id]
        self._finished[lease_id] = record.node, record.state.blake3
        if len(self._finished) > _FINISHED:
            self._finished.popitem(last=False)
        member = self.members[record.node]
        member.leases.discard(lease_id)
        member.notes.append((lease_id, verdict))
        self.discarded.append(lease_id)
        self.verdicts[verdict.reason] += 1
        self._over_counts[record.state.state.value] += 1
        if verdict.outcome == "accepted":
            self._ledger.append(Paid(record.node, lease_id, sum(len(answer.tokens) // 4 for answer in answers)))
            if record.known is None:
                self._accept(record, answers)
        elif record.known is None and is_wanted:
            self.given_back.append(record.key)
        events = {"accepted": nodes.Event.ACCEPTED, "soft": nodes.Event.SOFT, "hard": nodes.Event.HARD,
                  "expired": nodes.Event.EXPIRED}  # fmt: skip
        if word in events:
            self._node_event(record.node, events[word], now, reason=verdict.reason)
        if member.wants_stake and not member.leases:
            self._release_stake(record.node, member)

    def _accept(self, record: _Record, answers: tuple[Answer, ...]) -> None:
        if record.asked.group >= 0:
            self._known.add(Known(record.asked, record.node, tuple(answer.tokens for answer in answers)))
        self.accepted.append(answers)

    def _node_event(self, key: bytes, event: nodes.Event, now: float, *, reason: Reason = "") -> None:
        member = self.members[key]
        before = member.life.state
        member.life, effects = nodes.after(member.life, event, now)
        after = member.life.state
        if after is not before and after.value in _WORDS:
            self._ledger.append(Left(key, after.value))  # type: ignore[arg-type]
        if after is nodes.State.SUSPENDED and before is not after:
            member.suspended_until = now + _SUSPENDED_SECONDS * 2**member.n_suspended
            member.n_suspended += 1
        if nodes.Effect.SLASH in effects and (stake := self._ledger.account(key).stake) > 0:
            self._ledger.append(Slashed(key, stake, reason or "operator"))
        if nodes.Effect.FREE_LEASES in effects:
            for lease_id, ending in self._endings(member, after):
                self._lease_event(lease_id, ending, now)
        if nodes.Effect.RELEASE_STAKE in effects:
            member.wants_stake = True
            if not member.leases:
                self._release_stake(key, member)

    def _endings(self, member: Member, state: nodes.State) -> list[tuple[bytes, leases.Event]]:
        """Return how the leases of a node end that is in this state now.

        A node that says nothing any more is to blame, once: an outage must not count as many times as it had leases.
        """
        if state is nodes.State.BANNED:
            return [(lease_id, leases.Revoked()) for lease_id in member.leases]
        has_gone = state in (nodes.State.UNHEALTHY, nodes.State.DEAD)
        blamed = [
            lease_id
            for lease_id in sorted(member.leases)
            if has_gone and self._records[lease_id].is_held and self._records[lease_id].state.state is leases.State.OPEN
        ][:1]
        return [(lease_id, leases.Abandoned() if lease_id in blamed else leases.Freed()) for lease_id in member.leases]

    def _release_stake(self, key: bytes, member: Member) -> None:
        member.wants_stake = False
        if member.life.state is nodes.State.LEFT and (stake := self._ledger.account(key).stake) > 0:
            self._ledger.append(Unbonded(key, stake))

    def _knows_bars_for(self, engine: str) -> bool:
        """Return whether bars were measured for an engine: a node must not get those that are for nobody."""
        name, bars = engine.split()[0], self._settings.bars
        is_measured = any(pair.partition("/")[0] == name for pair in bars)
        return not bars or name in self._kinds_with_bars() or ("" in bars and not is_measured)

    def _kinds_with_bars(self) -> set[str]:
        """Return the kinds of engines that nodes may name in order to get the bars of that kind.

        If the run's own kind has bars, it is the only one: a node that can name another one chooses the widest bars.
        """
        kinds = {pair.partition("/")[0] for pair in self._settings.bars if pair}
        return kinds & {self._settings.terms.kind} or kinds

    def _is_too_long(self, lease: Lease) -> bool:
        """Return whether engines with the run's context cannot take the prompt."""
        return len(lease.prompt) >= self._settings.terms.context_tokens

    def _bars(self, node: bytes, verifier: bytes) -> Bars:
        return bars_of(self._settings, self.members[node].engine, self.verifiers[verifier].engine)


def _can_be_verified(lease: Lease) -> bool:
    """Return whether tokens that are drawn like this can be drawn again by somebody else."""
    return lease.draw.temperature > 0 and lease.draw.top_p == 1 and not lease.draw.stop


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_HARDWARE])
