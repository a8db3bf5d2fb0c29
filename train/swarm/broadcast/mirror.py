"""What a relay keeps: the versions of one run, shard by shard, as they arrive from other relays or from the origin.

A shard is written only after it was compared with its digest, and can be passed on at once, before the others are
there: so a chain of relays is hardly slower than one. A relay that is started again goes on with what it has.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from train.errors import TransferError
from train.swarm.broadcast.manifest import (
    BroadcastManifest,
    LatestVersion,
    latest_path,
    manifest_path,
    read_manifest,
    version_path,
    with_base_versions,
)
from train.swarm.broadcast.relay_client import RelayClient
from train.swarm.broadcast.shard_download import ShardFiles, TransferDeadline
from train.swarm.signatures import BadSignature

log = logging.getLogger(__name__)

RETAINED_VERSIONS = 5
POLL_SECONDS = 3.0
_MANIFEST_SECONDS = 30.0
# An attempt for the shards of a version ends when none has come for so long: a newer version may have appeared. The
# next one has twice the patience: on a slow line a shard takes longer, and what has come of it is lost at the end.
_STALL_SECONDS, _MAX_STALL_SECONDS = 60.0, 3600.0
_NEW = ".new-"  # begins the names of files that are being written


class Mirror:
    """Follows a run, and keeps its files under `folder` as the origin has them.

    public  the run's public key
    keep    so many versions, and all that the oldest of them is a difference from
    note    is called with a line about each version that is here

    Raises TransferError if the disk is full.
    """

    def __init__(
        self, folder: Path, run: str, public: bytes, download: RelayClient, *, keep: int = RETAINED_VERSIONS,
        note: Callable[[str], object] = log.info,
    ) -> None:  # fmt: skip
        self.folder, self._run, self._download, self._keep, self._note = folder, run, download, keep, note
        self._manifests: dict[int, BroadcastManifest] = {}
        self._files: dict[str, ShardFiles] = {}  # of each version, by its path
        self._sealed_latest = b""
        self._stall_seconds = _STALL_SECONDS
        self._take_up(public)
        download.load_last_seen(folder / latest_path(run))

    def sync_until_stopped(self, stop: threading.Event, *, every_seconds: float) -> None:
        """Fetch each version as it appears, until told to stop."""
        is_told = False
        while not stop.is_set():
            try:
                self.sync_newest()
                is_told = False
            except TransferError as error:
                (log.debug if is_told else log.warning)("%s; trying again", error)
                is_told = True
            stop.wait(every_seconds)

    def sync_newest(self) -> None:
        """Fetch the newest version and those that it needs. Raises TransferError if that fails, or the disk is full."""
        latest, sealed = self._download.fetch_signed_latest()
        try:
            self._fetch_manifests(latest)
            if sealed != self._sealed_latest:
                self._write(latest_path(self._run), sealed)  # others may now ask for what has arrived of it
                self._sealed_latest = sealed
            for version in sorted(self._chain(latest.version)):
                self._fetch_shards(self._manifests[version])
            self._drop()
        except OSError as error:
            self._drop()
            raise TransferError(f"cannot keep weights in {self.folder}: {error}. Make room there.") from error

    def find_arriving(self, path: str, start: int, stop: int) -> Path | None:
        """Return where the bytes [start, stop) of a file that lacks others are; None if they are not all here."""
        version, _, name = path.rpartition("/")
        return None if (files := self._files.get(version)) is None else files.find(name, start, stop)

    def _take_up(self, public: bytes) -> None:
        """Find what an earlier process has left. Versions without a valid manifest of this run are removed."""
        place = (self.folder / latest_path(self._run)).parent
        for rest in place.rglob(f"{_NEW}*"):
            rest.unlink(missing_ok=True)
        for version in (int(each.name) for each in place.glob("*") if each.name.isdigit()):
            try:
                sealed = (self.folder / manifest_path(self._run, version)).read_bytes()
                manifest = read_manifest(sealed, self._run, version, public)
            except (OSError, BadSignature):
                shutil.rmtree(self.folder / version_path(self._run, version), ignore_errors=True)
                continue
            try:
                self._open(manifest)
            except OSError as error:
                raise TransferError(f"cannot keep weights in {self.folder}: {error}. Make room there.") from error

    def _fetch_manifests(self, latest: LatestVersion) -> None:
        """Fetch the manifests of a version and of all that it is a difference from."""
        wanted: int | None = latest.version
        while wanted is not None:
            if wanted not in self._manifests:
                manifest, sealed = self._download.fetch_manifest(wanted, seconds=_MANIFEST_SECONDS)
                self._write(manifest_path(self._run, wanted), sealed)
                self._open(manifest)
            wanted = self._manifests[wanted].base

    def _open(self, manifest: BroadcastManifest) -> None:
        path = version_path(self._run, manifest.version)
        self._files[path] = ShardFiles(self.folder / path, manifest.shards)
        self._manifests[manifest.version] = manifest

    def _chain(self, version: int) -> set[int]:
        return with_base_versions([version], {number: manifest.base for number, manifest in self._manifests.items()})

    def _fetch_shards(self, manifest: BroadcastManifest) -> None:
        version, start_time = manifest.version, time.monotonic()
        files = self._files[version_path(self._run, version)]
        n_bytes = sum(manifest.shards[number].length for number in files.missing)
        if not n_bytes:
            return
        deadline = TransferDeadline(stall_seconds=self._stall_seconds)
        self._stall_seconds = min(2 * self._stall_seconds, _MAX_STALL_SECONDS)
        self._download.fetch_shards(manifest, files, deadline)
        self._stall_seconds = _STALL_SECONDS
        kind = "whole" if manifest.base is None else f"the difference from version {manifest.base}"
        self._note(
            f"version {version} is here: {n_bytes / 1e6:.1f} MB, {kind}, in {time.monotonic() - start_time:.1f} s"
        )

    def _drop(self) -> None:
        """Remove the versions that no worker needs any more."""
        bases = {number: manifest.base for number, manifest in self._manifests.items()}
        for version in sorted(set(bases) - with_base_versions(sorted(bases)[-self._keep :], bases)):
            del self._manifests[version]
            self._files.pop(version_path(self._run, version), None)
            shutil.rmtree(self.folder / version_path(self._run, version), ignore_errors=True)

    def _write(self, path: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"{_NEW}{place.name}")
        new.write_bytes(content)
        new.replace(place)
