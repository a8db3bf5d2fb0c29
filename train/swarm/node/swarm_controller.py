"""The coordinator of a swarm, as the worker of a node sees a controller.

Answers are kept until the group is whole; then they go as one file, the same bytes until there is a receipt, however
often the network fails. The weights come from relays: what they name is believed only with the signature of the run.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseKey,
    LeaseRequest,
    LeaseResponse,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
)
from train.errors import ControllerUnreachable, TransferError
from train.swarm import messages
from train.swarm.lease_file import encode_lease_file
from train.swarm.messages import SwarmLease
from train.swarm.protocol.client import JoinRequired, SignedClient
from train.swarm.verdict import LeaseVerdict
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)


@dataclass(slots=True)
class HeldLease:
    """A lease, and its answers by their numbers. `expires_at` is when it runs out."""

    lease: SwarmLease
    expires_at: float
    answers: dict[int, SampleResult] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether all answers are there; the first one speaks for all if the engine cannot take the prompt."""
        return len(self.answers) == len(self.lease.lease.seeds) or self._refusal is not None

    def content(self) -> bytes:
        """Return the file of the lease: the same bytes however often they have to be sent."""
        lease, refusal = self.lease.lease, self._refusal
        answers = [refusal or self.answers[number] for number in range(len(lease.seeds))]
        return encode_lease_file(
            [
                replace(answer, group=lease.group, attempt=lease.attempt, number=number)
                for number, answer in enumerate(answers)
            ]
        )

    @property
    def _refusal(self) -> SampleResult | None:
        return next((answer for answer in self.answers.values() if answer.finish_reason == "refused"), None)


class HeldLeases:
    """What a node has. One thread at a time uses it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._held: dict[int, HeldLease] = {}
        self._n_taken = 0

    def add_leases(self, leases: Iterable[SwarmLease]) -> tuple[Lease, ...]:
        """Take what the coordinator gave, and return it as the worker gets it. What has run out is forgotten."""
        self._held = {number: held for number, held in self._held.items() if held.expires_at > self._now()}
        taken = []
        for given in leases:
            self._held[self._n_taken] = HeldLease(given, self._now() + given.lease.expires_in_seconds)
            taken.append(replace(given.lease, group=self._n_taken, attempt=0))
            self._n_taken += 1
        return tuple(taken)

    def add(self, answer: SampleResult) -> bool:
        """Take an answer of the worker, and return whether its lease is still held."""
        held = self._held.get(answer.group)
        if held is None:
            return False
        held.answers[answer.number] = answer
        return True

    def complete_leases(self) -> list[tuple[int, HeldLease]]:
        """Return the leases that have all their answers, with the worker's numbers for them."""
        return [(number, held) for number, held in self._held.items() if held.is_complete]

    def discard(self, number: int) -> None:
        """Forget a lease that was uploaded, or is not ours any more."""
        self._held.pop(number, None)

    def lease_ids(self, keys: Iterable[LeaseKey]) -> tuple[bytes, ...]:
        """Return the ids of the leases that the worker names."""
        return tuple(self._held[number].lease.id for number, _ in keys if number in self._held)

    def drop_by_ids(self, ids: Iterable[bytes]) -> tuple[LeaseKey, ...]:
        """Forget leases by their ids, and return their names as the worker knows them."""
        gone = set(ids)
        numbers = [number for number, held in self._held.items() if held.lease.id in gone]
        for number in numbers:
            del self._held[number]
        return tuple((number, 0) for number in numbers)


_POLL_SECONDS = 2.0  # between two questions to the relays

MessageCallback = Callable[[str], None]


class NewestManifestSource(Protocol):
    """Knows the newest version: RelaySource (train/swarm/broadcast/relay_source.py)."""

    def newest_manifest(self) -> WeightManifest:
        """Return the manifest of the newest version. Raises TransferError if nobody names one."""


class SwarmController:
    """Calls of a controller (train/asynchronous/messages.py), answered by a coordinator and relays.

    join  has the node admitted once more, after the coordinator has missed it for too long
    note  is called with lines about verdicts
    """

    def __init__(
        self,
        client: SignedClient,
        relays: NewestManifestSource,
        *,
        join: Callable[[], object],
        note: MessageCallback = log.info,
    ) -> None:
        self._client, self._relays, self._join, self._note = client, relays, join, note
        self._held = HeldLeases()
        self._lock = threading.Lock()  # of what is held
        self._joining = threading.Lock()
        self._has_left = threading.Event()
        self._exclusion = ""  # why the node last had to join again

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        """Ask for leases."""
        message = messages.NodeLeaseRequest(request.loaded_version, request.slots)
        given: messages.NodeLeaseResponse = self._call("/lease", message, messages.NodeLeaseResponse)
        with self._lock:
            return LeaseResponse(self._held.add_leases(given.leases), given.wait_seconds, given.run_ended)

    def submit_results(self, answers: SubmitRequest) -> list[ResultStatus]:
        """Keep answers, and upload the groups that are whole now."""
        with self._lock:
            receipts: list[ResultStatus] = [
                "taken" if self._held.add(answer) else "stale" for answer in answers.answers
            ]
            whole = self._held.complete_leases()
        late = {number for number, held in whole if not self._upload(number, held)}
        return ["stale" if answer.group in late else was for answer, was in zip(answers.answers, receipts, strict=True)]

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Say that the node lives, and hear of verdicts."""
        with self._lock:
            running = self._held.lease_ids(beat.running_leases)
        message = messages.NodeHeartbeat(beat.loaded_version, running, beat.tokens_per_second)
        orders: messages.NodeHeartbeatResponse = self._call("/beat", message, messages.NodeHeartbeatResponse)
        for lease, verdict in orders.verdicts:
            self._note(f"lease {lease.hex()[:8]}: {_words(verdict)}")
        with self._lock:
            return HeartbeatResponse(self._held.drop_by_ids(orders.lease_ids_to_drop), orders.run_ended)

    def wait_for_weights(self, after: int, wait_seconds: float) -> WeightManifest | None:
        """Ask the relays for the newest version until it is another one, or the time is over."""
        until = time.monotonic() + wait_seconds
        while True:
            try:
                newest = self._relays.newest_manifest()
            except TransferError as error:
                raise ControllerUnreachable(str(error)) from error
            if newest.version != after:
                return newest
            if time.monotonic() >= until or self._has_left.wait(min(_POLL_SECONDS, wait_seconds)):
                return None

    def release(self, leaving: ReleaseRequest) -> None:
        """Give all leases back."""
        self._has_left.set()
        with suppress(JoinRequired):  # the coordinator thinks so already
            self._client.call("/leave", None, type(None))

    def _upload(self, number: int, held: HeldLease) -> bool:
        """Upload a group, and return whether it came in time."""
        receipt: messages.UploadStatus = self._send(
            f"/upload/{held.lease.id.hex()}", held.content(), messages.UploadStatus
        )
        with self._lock:
            self._held.discard(number)
        return receipt != "late"

    def _call(self, path: str, message: Any, kind: Any) -> Any:
        return self._joined(lambda: self._client.call(path, message, kind))

    def _send(self, path: str, body: bytes, kind: Any) -> Any:
        return self._joined(lambda: self._client.send(path, body, kind))

    def _joined(self, call: Callable[[], Any]) -> Any:
        """Return the result of a call; a node that was missed for too long joins again, and calls once more."""
        try:
            return call()
        except JoinRequired as error:
            if self._exclusion != (exclusion := str(error)):  # it is repeated as long as a suspension lasts
                self._exclusion = exclusion
                self._note(exclusion)
        if self._joining.acquire(blocking=False):  # another thread of the worker may be at it
            try:
                self._join()
            finally:
                self._joining.release()
        return call()


def _words(verdict: LeaseVerdict) -> str:
    if verdict.outcome == "accepted":
        return "accepted"
    if verdict.outcome == "unknown":
        return f"not checked ({verdict.reason}), which is no fault of yours"
    return f"rejected ({verdict.reason}{', for good' if verdict.outcome == 'hard' else ''})"
