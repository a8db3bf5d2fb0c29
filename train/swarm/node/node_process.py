"""What `curate rollout --join` does: join a swarm, start the engine that it asks for, and sample for it."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from train.asynchronous.controller_threads import RetryPolicy
from train.asynchronous.rollout_worker import RolloutWorker
from train.errors import ConfigError
from train.sampling.engine_spec import clear_trainer_environment, start_engine
from train.sampling.model_check import check_model
from train.swarm.broadcast.relay_source import RelaySource, default_folder
from train.swarm.node.identity import (
    DEFAULT_KEY_PATH,
    engine_description,
    hardware_description,
    load_or_create_key,
    lock_key,
)
from train.swarm.node.swarm_controller import SwarmController
from train.swarm.node_lifecycle import HEARTBEAT_SECONDS
from train.swarm.protocol.client import SignedClient, join
from train.swarm.protocol.invites import read_invite
from train.swarm.settings import SwarmSettings
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

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
        self._name = self._client.node.hex()[:12]
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
            if (
                settings is None
                or retry.call_with_retries(lambda: self._join(engine_description(settings.engine))) is None
            ):
                return
            spec = settings.engine
            model = self._options.model or spec.model
            check_model(model)
            self._note(f"node {self._name}: has joined {settings.run}, and starts an engine with {model}")
            clear_trainer_environment()
            engine = stack.enter_context(closing(start_engine(spec, model, self._options.engine, verifiable=True)))
            source = stack.enter_context(closing(self._source()))
            words = engine_description(spec)
            if (
                retry.call_with_retries(lambda: self._join(words)) is None
            ):  # the coordinator may have missed it meanwhile
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
                name=self._name,
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

    def _source(self) -> RelaySource:
        run, public = self._invite.run, self._invite.public_key
        return RelaySource(self._invite.relays, run, public, default_folder(run, public))

    def _loaded(self, manifest: WeightManifest, metrics: Mapping[str, float]) -> None:
        self._note(f"node {self._name}: weights {manifest.version} in {metrics['weight_load_s']:.1f} s")

    def _pause(self, seconds: float) -> bool:
        time.sleep(seconds)
        return not self._leaves
