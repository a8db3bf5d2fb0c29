"""Broadcast what a controller publishes: each version that it names goes to the origin, from where relays take it."""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from blake3 import blake3
from msgspec.structs import replace

from train.asynchronous.client import ControllerClient
from train.errors import ControllerUnreachable, TransferError
from train.sampling.engine_spec import EngineSpec
from train.swarm.broadcast.manifest import LatestVersion
from train.swarm.broadcast.origin import Origin
from train.weights.manifest import WeightFile, WeightManifest
from train.weights.source import TensorFiles

log = logging.getLogger(__name__)

_POLL_SECONDS = 10.0  # how long the controller holds the question for new weights
_RENEW_SECONDS = 10.0  # a relay whose `latest` is 60 s behind that of the others counts as failing
_RETRY_SECONDS = 2.0


def wait_for_engine_spec(controller: ControllerClient, note: Callable[[str], None]) -> EngineSpec:
    """Return the terms of a run, and wait for it if it has not begun. Raises RunError if it refuses us."""
    is_told = False
    while True:
        try:
            return controller.fetch_engine_spec()
        except ControllerUnreachable as error:
            if not is_told:
                note(f"{error}; waiting for it")
            is_told = True
            time.sleep(_RETRY_SECONDS)


class WeightManifestFeed(Protocol):
    """The part of a controller that a broadcaster needs; see train/asynchronous/messages.py."""

    def wait_for_weights(self, after: int, wait_seconds: float) -> WeightManifest | None: ...


class FileSource(Protocol):
    """A WeightSource (train/weights/source.py) whose weights are files."""

    def fetch(self, manifest: WeightManifest) -> TensorFiles: ...


class Broadcaster:
    """Publishes the versions of one controller.

    source  fetches what the controller names, such as train.asynchronous.rollout_process.LocalFirstSource
    origin  where they go
    folder  where copies of the newest two versions are kept: each is written as the difference from the one before
    ledger  returns the digest of the newest entry of the run's ledger
    note    is called with a line about each version that was published
    """

    def __init__(
        self, controller: WeightManifestFeed, source: FileSource, origin: Origin, folder: Path, *,
        ledger: Callable[[], bytes] = lambda: b"", note: Callable[[str], object] = log.info,
    ) -> None:  # fmt: skip
        self._controller, self._source, self._origin, self._folder = controller, source, origin, folder
        self._ledger, self._note = ledger, note
        self._newest: WeightManifest | None = None  # as the controller names it
        self._renewed = 0.0

    @property
    def latest(self) -> LatestVersion | None:
        """The newest version that was published, with the digest of its sealed manifest; None if there is none."""
        return self._origin.latest

    def publish_until_stopped(self, stop: threading.Event) -> None:
        """Publish each version as it appears, until told to stop; a controller that is gone is called again.

        Raises RunError if the controller refuses us, or names other weights under the number of an earlier version.
        """
        is_gone = False
        while not stop.is_set():
            try:
                self.publish_newest(_POLL_SECONDS)
                is_gone = False
            except ControllerUnreachable as error:
                (log.debug if is_gone else log.warning)("%s; what was published stays", error)
                is_gone = True
                self._renew()
                stop.wait(_RETRY_SECONDS)
            except (TransferError, OSError) as error:
                log.warning("%s; trying again", error)
                stop.wait(_RETRY_SECONDS)

    def publish_newest(self, wait_seconds: float) -> WeightManifest | None:
        """Publish the newest version if it is not published, waiting so long for one. Return what was published.

        Raises ControllerUnreachable, TransferError and RunError.
        """
        before = self._newest
        manifest = self._controller.wait_for_weights(-1 if before is None else before.version, wait_seconds)
        published = None
        if manifest is not None and manifest != before:
            start_time = time.monotonic()
            weights = self._copied(manifest)
            broadcast = self._origin.publish(weights, self._folder / str(weights.version))
            if broadcast is not None:
                kind = "whole" if broadcast.base is None else f"the difference from version {broadcast.base}"
                seconds = time.monotonic() - start_time
                self._note(
                    f"version {weights.version} is published: {broadcast.n_bytes / 1e6:.1f} MB, {kind}, "
                    f"in {seconds:.1f} s"
                )
                published = weights
            self._newest = manifest
        self._renew()
        return published

    def _renew(self) -> None:
        if time.monotonic() > self._renewed + _RENEW_SECONDS:
            self._origin.renew(self._ledger())
            self._renewed = time.monotonic()

    def _copied(self, manifest: WeightManifest) -> WeightManifest:
        """Keep the files of a version, under names that are the same in all versions.

        Raises TransferError if they cannot be had, or are replaced by newer ones meanwhile.
        """
        files = self._source.fetch(manifest).paths
        place = self._folder / str(manifest.version)
        named = tuple(
            WeightFile(f"weights-{number:05d}.safetensors", file.size, file.blake3)
            for number, file in enumerate(manifest.files)
        )
        try:
            for old in self._folder.glob("*"):
                if self._newest is None or old.name != str(self._newest.version):
                    shutil.rmtree(old, ignore_errors=True)
            place.mkdir(parents=True, exist_ok=True)
            for path, file in zip(files, named, strict=True):
                _copy(path, place / file.name)
                if blake3(max_threads=blake3.AUTO).update_mmap(place / file.name).hexdigest() != file.blake3:
                    raise TransferError(f"weights {manifest.version} were replaced while they were read")
        except OSError as error:
            raise TransferError(f"cannot keep weights {manifest.version} in {place}: {error}. Make room.") from error
        if not named:
            raise TransferError(f"weights {manifest.version} are not in files; relays need workers.listen in the run")
        return replace(manifest, files=named, folder="")


def _copy(path: Path, to: Path) -> None:
    """Copy a file, or give it a second name where that is possible."""
    to.unlink(missing_ok=True)
    if path.is_relative_to("/proc"):
        shutil.copyfile(path, to)
        return
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
