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

_POLL_SECONDS = 10.0  # timeout of a long poll for new weights
_RENEW_SECONDS = 10.0  # interval of signing `latest` again; clients avoid relays that lag by 60 s
_RETRY_SECONDS = 2.0


def wait_for_engine_spec(controller: ControllerClient, note: Callable[[str], None]) -> EngineSpec:
    """Return the engine spec of a run; retry while its controller is unreachable.

    note: receives a message if the controller is unreachable

    Raises RunError if the controller refuses the call.
    """
    is_noted = False
    while True:
        try:
            return controller.fetch_engine_spec()
        except ControllerUnreachable as error:
            if not is_noted:
                note(f"{error}; retrying")
            is_noted = True
            time.sleep(_RETRY_SECONDS)


class WeightManifestFeed(Protocol):
    """A source of the manifests of new versions, such as a ControllerClient."""

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None: ...


class FileSource(Protocol):
    """A WeightSource (train/weights/source.py) that returns files."""

    def fetch(self, manifest: WeightManifest) -> TensorFiles: ...


class Broadcaster:
    """A publisher of the weight versions of one controller.

    source           source of weights, such as train.asynchronous.rollout_process.LocalFirstSource
    folder           folder for copies of the newest two versions, from which deltas are computed
    get_ledger_head  returns the digest of the newest entry of the run's ledger
    note             receives a message about each published version
    """

    def __init__(
        self, controller: WeightManifestFeed, source: FileSource, origin: Origin, folder: Path, *,
        get_ledger_head: Callable[[], bytes] = lambda: b"", note: Callable[[str], object] = log.info,
    ) -> None:  # fmt: skip
        self._controller, self._source, self._origin, self._folder = controller, source, origin, folder
        self._get_ledger_head, self._note = get_ledger_head, note
        self._newest: WeightManifest | None = None  # newest manifest from the controller
        self._renewed_at = 0.0

    @property
    def latest(self) -> LatestVersion | None:
        """The newest published version; None before the first."""
        return self._origin.latest

    def publish_until_stopped(self, stop: threading.Event) -> None:
        """Publish each new version until `stop` is set; retry while the controller is unreachable.

        Raises RunError if the controller refuses the call, or has other weights under a published version.
        """
        is_unreachable = False
        while not stop.is_set():
            try:
                self.publish_newest(_POLL_SECONDS)
                is_unreachable = False
            except ControllerUnreachable as error:
                (log.debug if is_unreachable else log.warning)("%s; retrying. Published versions stay available", error)
                is_unreachable = True
                self._renew_if_due()
                stop.wait(_RETRY_SECONDS)
            except (TransferError, OSError) as error:
                log.warning("%s; retrying in %.0f s", error, _RETRY_SECONDS)
                stop.wait(_RETRY_SECONDS)

    def publish_newest(self, wait_seconds: float) -> WeightManifest | None:
        """Wait up to `wait_seconds` for a new version, publish it, and return its manifest; None if there is none.

        Raises ControllerUnreachable, TransferError and RunError.
        """
        previous = self._newest
        manifest = self._controller.wait_for_weights(-1 if previous is None else previous.version, wait_seconds)
        published = None
        if manifest is not None and manifest != previous:
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
        self._renew_if_due()
        return published

    def _renew_if_due(self) -> None:
        if time.monotonic() > self._renewed_at + _RENEW_SECONDS:
            self._origin.renew(self._get_ledger_head())
            self._renewed_at = time.monotonic()

    def _copy_files(self, manifest: WeightManifest) -> WeightManifest:
        """Copy the files of a version under names without the version, so each file has a base for its delta.

        Raises TransferError if the files cannot be fetched or copied, or are replaced during the copy.
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
                _link_or_copy(path, folder / file.name)
                if blake3(max_threads=blake3.AUTO).update_mmap(folder / file.name).hexdigest() != file.blake3:
                    raise TransferError(f"the files of weights {manifest.version} were replaced during the copy")
        except OSError as error:
            raise TransferError(
                f"cannot store weights {manifest.version} in {folder}: {error}. Free disk space."
            ) from error
        if not named:
            raise TransferError(
                f"the manifest of weights {manifest.version} names no files. Set workers.listen in the run's "
                "configuration"
            )
        return replace(manifest, files=named, folder="")


def _link_or_copy(path: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    if path.is_relative_to("/proc"):
        shutil.copyfile(path, to)
        return
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)
