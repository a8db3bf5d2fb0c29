"""Publication of each new version of a controller to the origin, from which relays fetch."""

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

_POLL_SECONDS = 10.0  # duration of a long poll for new weights
_RENEW_SECONDS = 10.0  # interval; clients avoid relays whose `latest` is 60 s older than others'
_RETRY_SECONDS = 2.0


def wait_for_engine_spec(controller: ControllerClient, note: Callable[[str], None]) -> EngineSpec:
    """Return the engine spec of a run; wait while its controller is unreachable.

    Raises RunError if the controller refuses the call.
    """
    is_noted = False
    while True:
        try:
            return controller.fetch_engine_spec()
        except ControllerUnreachable as error:
            if not is_noted:
                note(f"{error}; waiting for it")
            is_noted = True
            time.sleep(_RETRY_SECONDS)


class WeightManifestFeed(Protocol):
    """The calls of a controller that a broadcaster makes; see train/asynchronous/messages.py."""

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None: ...


class FileSource(Protocol):
    """A WeightSource (train/weights/source.py) whose weights are files."""

    def fetch(self, manifest: WeightManifest) -> TensorFiles: ...


class Broadcaster:
    """A publisher of the versions of one controller.

    source  fetches the controller's versions, such as train.asynchronous.rollout_process.LocalFirstSource
    folder  for copies of the newest two versions, for deltas
    ledger  returns the digest of the newest entry of the run's ledger
    note    receives a line about each published version
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
        """The newest published version, with the digest of its signed manifest; None before the first."""
        return self._origin.latest

    def publish_until_stopped(self, stop: threading.Event) -> None:
        """Publish each version as it appears until `stop` is set; retry while the controller is unreachable.

        Raises RunError if the controller refuses the call, or reuses the number of a published version.
        """
        is_unreachable = False
        while not stop.is_set():
            try:
                self.publish_newest(_POLL_SECONDS)
                is_unreachable = False
            except ControllerUnreachable as error:
                (log.debug if is_unreachable else log.warning)("%s; published versions stay available", error)
                is_unreachable = True
                self._renew()
                stop.wait(_RETRY_SECONDS)
            except (TransferError, OSError) as error:
                log.warning("%s; retrying in %.0f s", error, _RETRY_SECONDS)
                stop.wait(_RETRY_SECONDS)

    def publish_newest(self, wait_seconds: float) -> WeightManifest | None:
        """Wait up to `wait_seconds` for an unpublished version, publish it, and return its manifest, or None.

        Raises ControllerUnreachable, TransferError and RunError.
        """
        before = self._newest
        manifest = self._controller.wait_for_weights(-1 if before is None else before.version, wait_seconds)
        published = None
        if manifest is not None and manifest != before:
            start_time = time.monotonic()
            weights = self._copy_files(manifest)
            broadcast = self._origin.publish(weights, self._folder / str(weights.version))
            if broadcast is not None:
                kind = "full" if broadcast.base is None else f"delta from version {broadcast.base}"
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

    def _copy_files(self, manifest: WeightManifest) -> WeightManifest:
        """Copy the files of a version to version-independent names, as deltas require.

        Raises TransferError if the files cannot be fetched or copied, or newer ones replace the files meanwhile.
        """
        files = self._source.fetch(manifest).paths
        folder = self._folder / str(manifest.version)
        named = tuple(
            WeightFile(f"weights-{number:05d}.safetensors", file.size, file.blake3)
            for number, file in enumerate(manifest.files)
        )
        try:
            for old in self._folder.glob("*"):
                if self._newest is None or old.name != str(self._newest.version):
                    shutil.rmtree(old, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            for path, file in zip(files, named, strict=True):
                _copy(path, folder / file.name)
                if blake3(max_threads=blake3.AUTO).update_mmap(folder / file.name).hexdigest() != file.blake3:
                    raise TransferError(f"weights {manifest.version} were replaced while they were read")
        except OSError as error:
            raise TransferError(
                f"cannot store weights {manifest.version} in {folder}: {error}. Free disk space."
            ) from error
        if not named:
            raise TransferError(
                f"weights {manifest.version} are not in files. Set workers.listen in the run's configuration"
            )
        return replace(manifest, files=named, folder="")


def _copy(path: Path, to: Path) -> None:
    """Hard-link a file if possible, otherwise copy it."""
    to.unlink(missing_ok=True)
    if path.is_relative_to("/proc"):
        shutil.copyfile(path, to)
        return
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
