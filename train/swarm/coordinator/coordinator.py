"""Handlers for the calls of nodes, verifiers and the operator."""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from train.asynchronous.messages import (
    ControllerAPI,
    Heartbeat,
    HeartbeatResponse,
    LeaseKey,
    LeaseRequest,
    LeaseResponse,
    LeaseVerdict,
    Reason,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
)
from train.errors import ConfigError, RunError
from train.swarm.broadcast.manifest import LatestVersion
from train.swarm.coordinator.controller_link import WORKER, ControllerLink
from train.swarm.coordinator.coordinator_state import CoordinatorState
from train.swarm.coordinator.intake import (
    MAX_UPLOAD_SECONDS,
    Forbidden,
    InvalidResults,
    NotFound,
    ResultStore,
    RetryLater,
)
from train.swarm.coordinator.status import build_status
from train.swarm.invites import Invite, read_invite
from train.swarm.lease_file import decode_lease_file
from train.swarm.ledger import Ledger
from train.swarm.messages import (
    Ban,
    JoinRequest,
    JoinResponse,
    SwarmStatus,
    VerificationJobResponse,
    VerificationResult,
)
from train.swarm.settings import SwarmSettings, sign_settings
from train.swarm.signatures import public_key_bytes

log = logging.getLogger(__name__)

_CLOCK_SECONDS = 1.0
_STALL_SECONDS = 10.0  # pauses of this process longer than this extend all deadlines
_RETRY_SECONDS = 0.5
_NODES_PER_SECOND = 100  # maximum request rate of all nodes together while there are no groups


class Coordinator:
    """The handlers of all calls. Thread-safe. `key` parameters of methods are the verified public keys of callers.

    controller    controller of the trainer
    key           private key of the run
    result_store  store of results without a verdict
    latest        returns the newest published version, or None
    relays        returns the newest version on each relay, for the operator
    fail          receives an error that must end the process
    """

    def __init__(
        self, settings: SwarmSettings, controller: ControllerAPI, key: Ed25519PrivateKey, ledger: Ledger,
        result_store: ResultStore, *, latest: Callable[[], LatestVersion | None], relays: Callable[[], dict[str, int]] =
        dict, fail: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self.settings = settings
        self._signed_settings = sign_settings(settings, key)
        self._public_key = public_key_bytes(key)
        self._ledger, self._result_store, self._latest, self._relays, self._fail = (
            ledger,
            result_store,
            latest,
            relays,
            fail,
        )
        self._lock = threading.RLock()
        with ledger.begin_transaction():
            self._state = CoordinatorState(settings, ledger, time.monotonic())
        self._trainer = ControllerLink(
            controller,
            open_leases=self._list_open_lease_keys,
            on_unwanted=self._cancel,
            version=lambda: self._state.version,
        )
        self._requesting: set[bytes] = set()  # nodes with a request to the trainer in progress
        self._completions_per_group = 1  # the actual number is known after the first lease
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run_guarded, args=(loop,), name=name, daemon=True)
            for loop, name in ((self._trainer.run_until_stopped, "trainer"), (self._tick_until_stopped, "clock"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads, and close the ledger. The next coordinator gives open leases the verdict "unknown"."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10.0)
        with self._lock:
            self._ledger.close()

    @property
    def has_ended(self) -> bool:
        return self._state.has_ended

    def all_notified(self) -> bool:
        """Return whether the coordinator has notified each live node and active verifier of the run's end."""
        with self._lock:
            nodes = [member.notified_of_end for member in self._state.members.values() if member.lifecycle.is_alive]
            return all(nodes) and self._state.all_verifiers_notified(time.monotonic())

    # --- keys of callers ---

    def has_member(self, key: bytes) -> bool:
        """Return whether this key has joined or is the operator's."""
        return key == self._public_key or self._state.has_member(key)

    def is_operator(self, key: bytes) -> bool:
        return key == self._public_key

    def check_invite(self, join: JoinRequest) -> Invite:
        """Return the invite in a join request. Raises Forbidden unless this run signed it."""
        try:
            invite = read_invite(join.invite.decode("ascii", "replace"), self._public_key)
        except ConfigError as error:
            raise Forbidden(str(error)) from None
        if invite.run != self.settings.run:
            raise Forbidden(f"the invite is for another run, {invite.run}")
        return invite

    # --- calls of nodes ---

    def join(self, key: bytes, join: JoinRequest) -> JoinResponse:
        """Admit a node or a verifier. Raises Forbidden, and RetryLater during a suspension."""
        invite = self.check_invite(join)
        if not join.engine:
            return JoinResponse(self._signed_settings)
        is_valid = time.time() < invite.expires_at
        with self._begin_transaction() as (state, now):
            digest = blake3(invite.id).digest()  # of the decoded id, since its text has several encodings
            state.join(key, invite, digest, join.engine, join.hardware, now, is_valid=is_valid)
        log.info("%s %s has joined (%s)", invite.role, key.hex()[:16], join.engine)
        return JoinResponse(self._signed_settings)

    def request_leases(self, key: bytes, request: LeaseRequest) -> LeaseResponse:
        """Lease groups of the trainer to a node. Raises NotJoined and Forbidden."""
        with self._begin_transaction() as (state, now):
            budget = state.compute_free_capacity(key)
            if state.has_ended:
                state.members[key].notified_of_end = True
                return LeaseResponse(run_ended=True)
            if budget <= 0 or request.slots <= 0 or state.is_too_old(request.loaded_version) or key in self._requesting:
                return LeaseResponse(wait_seconds=self._wait_seconds())
            can_evaluate = state.can_evaluate(key)
            self._requesting.add(key)
        # Request without the lock. `_requesting` prevents a second request from using the same capacity.
        try:
            slots = min(request.slots, budget * self._completions_per_group)
            return self._request_from_trainer(key, LeaseRequest(WORKER, request.loaded_version, slots, can_evaluate))
        finally:
            self._requesting.discard(key)

    def _request_from_trainer(self, key: bytes, request: LeaseRequest) -> LeaseResponse:
        trainer_leases = self._trainer.request_leases(request)
        with self._begin_transaction() as (state, now):
            n_seeds = [len(lease.seeds) for lease in trainer_leases]
            self._completions_per_group = max(n_seeds, default=self._completions_per_group)
            granted = [state.grant(key, lease, now) for lease in trainer_leases]
            state.has_ended = state.has_ended or self._trainer.has_ended
            leases = tuple(lease for lease in granted if lease is not None)
            return LeaseResponse(leases, 0.0 if leases else self._wait_seconds(), state.has_ended)

    def heartbeat(self, key: bytes, beat: Heartbeat) -> HeartbeatResponse:
        """Process a node's heartbeat. Raises NotJoined and Forbidden."""
        with self._begin_transaction() as (state, now):
            return state.heartbeat(key, beat, now)

    def release(self, key: bytes, request: ReleaseRequest) -> None:
        """Release leases of a node; without `request.leases`, record that the node or verifier leaves."""
        with self._begin_transaction() as (state, now):
            state.release(key, request.leases, now)

    def begin_upload(self, key: bytes) -> int | None:
        """Return the maximum size of a body with results; None if the node has held no lease since the start."""
        with self._begin_transaction() as (state, now):
            return state.begin_upload(key, now + MAX_UPLOAD_SECONDS)

    def submit_results(self, key: bytes, request: SubmitRequest) -> list[ResultStatus]:
        """Store results, and queue complete leases for verifiers. One thread at a time may call this for a node.

        Raises RunError if the disk is full; the node can then resubmit the results.
        """
        by_lease: dict[int, list[SampleResult]] = {}
        for result in request.results:
            by_lease.setdefault(result.group, []).append(result)
        statuses = {group: iter(self._store_results(key, group, results)) for group, results in by_lease.items()}
        return [next(statuses[result.group]) for result in request.results]

    def _store_results(self, key: bytes, group: int, results: Sequence[SampleResult]) -> list[ResultStatus]:
        with self._begin_transaction() as (state, now):
            lease = state.record_held_lease(key, group, now)
            if lease is None:
                return [state.get_late_status(key, group)] * len(results)
        try:
            # Outside `_begin_transaction`, whose errors end the coordinator.
            statuses = self._result_store.add(lease, results)
            if not self._result_store.is_complete(lease) or (content := self._result_store.read(group)) is None:
                return statuses
            found, digest = decode_lease_file(content, lease, self.settings), blake3(content).digest()
            verdict = found if isinstance(found, LeaseVerdict) else None
            with self._begin_transaction() as (state, now):
                status = state.submit(key, group, len(content), digest, now, verdict)
            return statuses if status in ("taken", "again") else [status] * len(results)
        except InvalidResults as error:
            self._reject(key, group, error.reason)
            return ["broken"] * len(results)
        finally:
            if not self._state.is_open(group):  # the lease has ended
                self._result_store.remove(group)

    def reject_body(self, key: bytes) -> None:
        """Reject the first open lease of a node for an invalid body."""
        group = self._state.find_open_lease(key)
        if group is not None:
            self._reject(key, group, "file")

    def _reject(self, key: bytes, group: int, reason: Reason) -> None:
        with self._begin_transaction() as (state, now):
            state.reject(key, group, LeaseVerdict("hard", reason), now)

    def get_latest_version(self) -> LatestVersion:
        """Return the newest version with the ledger's head. Raises RetryLater if no version is published yet."""
        latest = self._latest()
        if latest is None:
            raise RetryLater("no version of the weights is published yet", 2)
        return replace(latest, ledger_head=self._ledger.head)

    # --- calls of verifiers ---

    def assign_job(self, key: bytes) -> VerificationJobResponse:
        """Assign a file to a verifier. Raises NotJoined and Forbidden."""
        with self._begin_transaction() as (state, now):
            return state.assign_job(key, now)

    def read_file(self, key: bytes, lease: int) -> bytes:
        """Return the completions of a lease as a file. Raises NotJoined, Forbidden, and NotFound."""
        with self._begin_transaction() as (state, now):
            digest = state.get_claimed_digest(key, lease, now)
            content = None if digest is None else self._result_store.read(lease)
        if content is None:
            raise NotFound("this verifier no longer has that lease")
        return content

    def get_max_verdict_bytes(self, key: bytes, lease: int) -> int | None:
        """Return the maximum size of a verdict; None if this verifier no longer has the lease."""
        with self._begin_transaction() as (state, now):
            return None if state.get_claimed_digest(key, lease, now) is None else state.get_max_body_bytes(lease)

    def submit_verdict(self, key: bytes, lease: int, verification: VerificationResult) -> None:
        """Record a verdict. Raises NotJoined and Forbidden."""
        with self._begin_transaction() as (state, now):
            state.record_verdict(key, lease, verification, now)
        verdict = verification.verdict
        log.info("lease %d: %s %s %s", lease, verdict.outcome, verdict.reason, verification.figures)

    # --- calls of the operator ---

    def ban(self, ban: Ban) -> None:
        """Ban a node. Raises NotFound if it has never joined."""
        with self._begin_transaction() as (state, now):
            state.ban(ban.node, now)

    def get_status(self) -> SwarmStatus:
        relays = self._relays()
        with self._begin_transaction() as (state, now):
            return build_status(state, self._ledger, self.settings.run, relays, now)

    # --- inside ---

    @contextmanager
    def _begin_transaction(self) -> Iterator[tuple[CoordinatorState, float]]:
        """Hold the lock during a block, commit its ledger entries, then queue its messages for the trainer."""
        with self._lock:
            try:
                with self._ledger.begin_transaction():
                    yield self._state, time.monotonic()
            except RunError as error:
                self._fail(error)
                raise
            state = self._state
            self._trainer.submit_results(state.accepted)
            self._trainer.release_leases(state.leases_to_release)
            for lease in state.discarded:
                self._result_store.remove(lease)
            state.accepted.clear()
            state.leases_to_release.clear()
            state.discarded.clear()

    def _list_open_lease_keys(self) -> tuple[LeaseKey, ...]:
        with self._lock:
            return self._state.list_open_lease_keys()

    def _cancel(self, keys: Collection[LeaseKey]) -> None:
        with self._begin_transaction() as (state, now):
            state.cancel(keys, now)
            state.has_ended = state.has_ended or self._trainer.has_ended

    def _tick_until_stopped(self, stop: threading.Event) -> None:
        before = time.monotonic()
        while not stop.wait(_CLOCK_SECONDS):
            latest = self._latest()
            with self._begin_transaction() as (state, now):
                if now - before > _STALL_SECONDS:
                    log.warning("this process paused for %.0f s; all deadlines are extended", now - before)
                    state.extend_deadlines(now - before)
                before = now
                state.tick(now)
                if latest is not None:
                    state.record_version(latest.version, latest.manifest_digest)

    def _run_guarded(self, loop: Callable[[threading.Event], None]) -> None:
        try:
            loop(self._stop)
        except BaseException as error:
            self._fail(error)

    def _wait_seconds(self) -> float:
        factor = max(1.0, len(self._state.members) / _NODES_PER_SECOND / _RETRY_SECONDS)
        return _RETRY_SECONDS * factor * random.uniform(0.7, 1.3)
