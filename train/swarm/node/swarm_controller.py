"""The coordinator of a swarm, as the worker of a node sees a controller.

Answers are kept until the group is whole; then they go as one file, the same bytes until there is a receipt, however
often the network fails. The weights come from relays: what they name is believed only with the signature of the run.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    ReleaseRequest,
    ResultStatus,
    SubmitRequest,
)
from train.errors import ControllerUnreachable, TransferError
from train.swarm import messages
from train.swarm.node.held_leases import HeldLease, HeldLeases
from train.swarm.protocol.client import JoinRequired, SignedClient
from train.swarm.verdict import LeaseVerdict
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

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
